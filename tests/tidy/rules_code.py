"""What a source file must have and may not do: story comment, size of functions and files, banned calls."""

import ast
import re

from cpp_text import Function, functions

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
STORY_CHARACTERS_MIN = 30
LIBRARIES = ("engram", "gpu", "actors", "net")

# (pattern over code without comments and literals, what to do instead, folders; None = all C++ of the product)
BANNED = (
    (r"(?<!operator )(?<!\w)new\b(?!\s*\()\s+[\w:]", "new: std::make_unique or a container", None),
    (r"(?<!operator )\bdelete\b(?!\s*;)\s*(?:\[\s*\])?\s*[\w(*]", "delete: a type that owns", None),
    (r"(?<![\w.>])(?:std::)?(?:malloc|calloc|realloc|free)\s*\(", "malloc and free: a type that owns", None),
    (r"(?<![\w.>])(?:std::this_thread::)?(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(",
     "sleep: wait for what happens, with a deadline", None),
    (r"(?<![\w.>:])(?:std::)?system\s*\(\s*[\w\"]", "system(): no shell", None),
    (r"(?<![\w.>:])(?:std::)?(?:printf|fprintf|puts|vprintf)\s*\(", "printf: libraries do not print", LIBRARIES),
    (r"\bstd::(?:cout|cerr|clog)\b", "std::cout: libraries do not print", LIBRARIES),
    (r"[.>]\s*detach\s*\(\s*\)", "detach(): nobody could stop this thread", None),
    (r"(?<![\w.>:])(?:std::)?(?:exit|abort|quick_exit)\s*\(\s*\w*\s*\)\s*;", "exit: libraries return errors", LIBRARIES),
)
# A private constructor keeps std::make_unique out; the pointer that it stands in owns the object from the start.
_OWNED_AT_ONCE = re.compile(r"\bunique_ptr<[\w:]+>\s*\w*\s*\(\s*new\b")
_BANNED = tuple((re.compile(pattern), message, folders) for pattern, message, folders in BANNED)


def story(tree):
    """The file opens with what it owns, what it does not, and what keeps it correct."""
    for source in tree.of_kind("cpp", "python", "shell"):
        if source.text.strip() and len(opening_comment(source)) < STORY_CHARACTERS_MIN:
            yield source.finding("story", 1, "no story comment at the start of the file")


def opening_comment(source):
    """The text of the comment that the file opens with, in one line; the interpreter line does not count."""
    lines = source.lines[1:] if source.text.startswith("#!") else source.lines
    text = "\n".join(lines).lstrip()
    if source.kind == "python" and not text.startswith("#"):
        try:
            return " ".join((ast.get_docstring(ast.parse(source.text)) or "").split())
        except SyntaxError:
            return ""
    mark = "//" if source.kind == "cpp" else "#"
    if source.kind == "cpp" and text.startswith("/*"):
        return " ".join(text[2 : text.find("*/")].split())
    comment = []
    for line in text.splitlines():
        if not line.startswith(mark):
            break
        comment.append(line.lstrip("/# "))
    return " ".join(comment)


def function_length(tree):
    for source in tree.of_kind("cpp", "python"):
        found = functions(source.code) if source.kind == "cpp" else python_functions(source.text)
        for function in found:
            if function.length > FUNCTION_LINES_MAX:
                yield source.finding("function_length", function.first_line,
                                     f"{function.name}: {function.length} lines, at most {FUNCTION_LINES_MAX}")


def python_functions(text):
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError:
        return
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(node.name, node.lineno, node.end_lineno)


def file_length(tree):
    for source in tree.of_kind("cpp", "python", "shell"):
        if len(source.lines) > FILE_LINES_MAX:
            yield source.finding("file_length", 1, f"{len(source.lines)} lines, at most {FILE_LINES_MAX}")


def banned_calls(tree):
    for source in tree.of_kind("cpp"):
        if source.top not in (*LIBRARIES, "ops"):
            continue
        code = _OWNED_AT_ONCE.sub(lambda match: match.group(0)[:-3] + "   ", source.code)
        for number, line in enumerate(code.splitlines(), 1):
            for pattern, message, folders in _BANNED:
                if (folders is None or source.top in folders) and pattern.search(line):
                    yield source.finding("banned_call", number, message)


def pragma_once(tree):
    for source in tree.of_kind("cpp"):
        if source.suffix in (".hpp", ".cuh") and "#pragma once" not in source.code_lines:
            if not source.name.endswith("_inl.hpp"):  # included once per instruction set, on purpose
                yield source.finding("pragma_once", 1, "a header without #pragma once")


def python_parses(tree):
    for source in tree.of_kind("python"):
        try:
            ast.parse(source.text)
        except SyntaxError as error:
            yield source.finding("python_parses", error.lineno or 1, f"not Python 3.11: {error.msg}")


RULES = (story, function_length, file_length, banned_calls, pragma_once, python_parses)
