"""C++ text without its comments and literals, and the extent of its functions.

This is no parser. It relies on two habits that the formatter keeps: a function's closing brace stands at the indentation
of the line that opened its declaration, and braces balance once comments and literals are gone.
"""

from dataclasses import dataclass
import re

_TOKEN = re.compile(
    r"""
    (?P<line_comment>//[^\n]*)
  | (?P<block_comment>/\*.*?\*/)
  | (?P<raw>(?:u8|u|U|L)?R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)")
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<number>(?<![\w.])\d[\w.']*)
  | (?P<char>'(?:\\.|[^'\\\n])+')
    """,
    re.VERBOSE | re.DOTALL,
)
_NOT_NEWLINE = re.compile(r"[^\n]")


def blank_comments_and_literals(text):
    """Returns `text` with blanks for comments and for what stands between quotes; newlines and columns stay.

    The path of an include line stays too: the layer rule reads it.
    """

    def blank(match):
        whole = match.group(0)
        if match.lastgroup == "number":  # 1'000'000 holds quotes that open nothing
            return whole
        if match.group("string") and _is_include(text, match.start()):
            return whole
        if match.group("string") or match.group("char"):
            return whole[0] + " " * (len(whole) - 2) + whole[-1]
        return _NOT_NEWLINE.sub(" ", whole)

    return _TOKEN.sub(blank, text)


def _is_include(text, position):
    line_start = text.rfind("\n", 0, position) + 1
    return text[line_start:position].lstrip().startswith("#include")


@dataclass(frozen=True)
class Function:
    name: str
    first_line: int  # of the declaration, 1-based
    last_line: int

    @property
    def length(self):
        return self.last_line - self.first_line + 1


_CONTROL = re.compile(r"\b(?:if|for|while|switch|catch|return|do|else|namespace|class|struct|union|enum|extern)\b")
_NAME_BEFORE_PARENTHESIS = re.compile(r"([\w:~]+(?:\s*operator\s*\S+)?)\s*\(")


def functions(code):
    """Yields the functions of blanked `code`: every brace that opens after a parameter list, outermost ones only.

    Lambdas and blocks inside a function belong to it. A line that opens or ends a test suite is a statement of its own.
    """
    head_start, depth_inside, opened = 0, 0, None
    for match in re.finditer(r"[{};]|^[ \t]*#.*$|^BOOST_\w*TEST_SUITE\w*\(.*\)$", code, re.MULTILINE):
        token = match.group(0)
        if token == "{":
            if opened is not None:
                depth_inside += 1
            else:
                name = _function_name(code[head_start : match.start()])
                if name:
                    opened, depth_inside = (name, _line_of_head(code, head_start)), 1
        elif token == "}" and opened is not None:
            depth_inside -= 1
            if depth_inside == 0:
                yield Function(opened[0], opened[1], _line(code, match.start()))
                opened = None
        if opened is None:
            head_start = match.end()


def _function_name(head):
    """The name in front of the parameter list that `head` ends with, or None if it opens a type, a scope or a value."""
    head = _without_template_header(head)
    parenthesis = head.find("(")
    if parenthesis < 0:
        return None
    before = head[:parenthesis]
    if _CONTROL.search(before) or re.search(r"(?<![=!<>])=(?!=)", before.replace("operator=", "")):
        return None
    match = _NAME_BEFORE_PARENTHESIS.search(head)
    return match.group(1) if match else None


def _without_template_header(head):
    """`template <class T, int n = (1 < 2)> T f(` without its first part: `class` and `=` in there mean nothing here."""
    while match := re.search(r"\btemplate\s*<", head):
        depth, end = 1, match.end()
        while end < len(head) and depth:
            depth += {"<": 1, ">": -1}.get(head[end], 0)
            end += 1
        head = head[: match.start()] + head[end:]
    return head


def _line(code, position):
    return code.count("\n", 0, position) + 1


_BEFORE_DECLARATION = re.compile(r"(?:\s|\b(?:public|private|protected)\s*:)*")


def _line_of_head(code, head_start):
    """The line on which the declaration's first word stands."""
    match = _BEFORE_DECLARATION.match(code, head_start)
    return _line(code, match.end())
