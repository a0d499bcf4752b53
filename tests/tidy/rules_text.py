"""What a line may hold: width, blanks, notes left behind, words that tie the tree to one machine.

Words that a rule looks for are put together from pieces here, so that the rules need no exception for themselves.
"""

import re

# The formatter keeps C++ at 120; scripts hold whole sentences (texts to train on, messages), which read worse in pieces.
COLUMNS_MAX = {"cpp": 120, "python": 140, "shell": 140, "cmake": 140}
NOTES = ("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK")
UNFINISHED = ("not " "implemented", "un" "implemented", "place" "holder")
ONE_MACHINE = (
    "/wo" "rk/", "/ro" "ot/", "/fa" "rm/", ".lib" "rary/", "../sh" "ared", "deb." "debian.org", "archive." "ubuntu.com",
    "registry." "npmjs", "pypi." "org", "local" "domain",
)

_NOTE = re.compile(r"\b(?:" + "|".join(NOTES) + r")\b")
_UNFINISHED = re.compile(r"\b(?:" + "|".join(UNFINISHED) + r")\b", re.IGNORECASE)


def line_width(tree):
    for source in tree.of_kind(*COLUMNS_MAX):
        limit = COLUMNS_MAX[source.kind]
        for number, line in enumerate(source.lines, 1):
            if len(line) > limit:
                yield source.finding("line_width", number, f"{len(line)} columns, at most {limit}")


def blanks(tree):
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            if "\t" in line:
                yield source.finding("blanks", number, "a tab")
            if line != line.rstrip():
                yield source.finding("blanks", number, "blanks at the end")
        if source.text and not source.text.endswith("\n"):
            yield source.finding("blanks", len(source.lines), "no newline at the end of the file")
        if source.text.endswith("\n\n"):
            yield source.finding("blanks", len(source.lines), "empty lines at the end of the file")


def notes(tree):
    """Work that is not finished is finished, or said in an issue; not in the tree."""
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            if match := _NOTE.search(line) or _UNFINISHED.search(line):
                yield source.finding("notes", number, f"a note of unfinished work: {match.group(0)}")


def one_machine(tree):
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            for word in ONE_MACHINE:
                if word in line:
                    yield source.finding("one_machine", number, f"{word} belongs to one machine or one mirror")


RULES = (line_width, blanks, notes, one_machine)
