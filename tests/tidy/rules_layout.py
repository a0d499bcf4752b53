"""Where a file may lie and what it may be called; every folder explains itself, every source has a target."""

import re
from pathlib import PurePosixPath

from rules_code import opening_comment
from source_tree import Finding

TOP_FOLDERS = {"actors", "gpu", "net", "engram", "configs", "tests", "ops", "cmake", "docs"}
TOP_FILES = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE"}
VAGUE_NAMES = {"util", "utils", "common", "misc", "helper", "helpers", "manager"}
SOURCES_OF_A_LARGE_FOLDER = 8  # from here on a sub-folder has a README of its own
README_LINES_MAX = 80
TREE_BYTES_BELOW = 62_000_000  # with the shipped models and recorded values: clones and archives stay handy
SOURCE_KINDS = ("cpp", "python", "shell")


def top_level(tree):
    for path in tree.paths:
        top, _, rest = path.partition("/")
        if top.startswith("."):
            continue
        if rest and top not in TOP_FOLDERS:
            yield at(path, "top_level", f"no folder {top}/ at the top")
        if not rest and top not in TOP_FILES:
            yield at(path, "top_level", "no such file at the top")


def names(tree):
    for path in tree.paths:
        for part in PurePosixPath(path).parts:
            words = re.split(r"[_.\-]", part.lower())
            if VAGUE_NAMES & set(words):
                yield at(path, "names", f"{part} says nothing about what is in it")


def readmes(tree):
    """A top folder always, a larger sub-folder too; at most a page.

    A Python package says it in __init__.py; folders of tests are said in tests/README.md.
    """
    paths = set(tree.paths)
    counts = {}
    for source in tree.of_kind(*SOURCE_KINDS):
        folder = str(PurePosixPath(source.path).parent)
        counts[folder] = counts.get(folder, 0) + 1
    introduced = {str(PurePosixPath(source.path).parent) for source in tree.sources
                  if source.name == "__init__.py" and opening_comment(source)}
    folders = {folder for folder, count in counts.items()
               if count >= SOURCES_OF_A_LARGE_FOLDER and folder not in introduced and not folder.startswith("tests/")}
    folders |= {path.split("/", 1)[0] for path in tree.paths if "/" in path and not path.startswith(".")}
    for folder in sorted(folders - {"."}):
        if f"{folder}/README.md" not in paths:
            yield at(f"{folder}/README.md", "readme", f"{folder}/ does not say what lives here")
    for source in tree.sources:
        if source.name == "README.md" and "/" in source.path and len(source.lines) > README_LINES_MAX:
            yield source.finding("readme", 1, f"{len(source.lines)} lines: a page has {README_LINES_MAX}")


def built(tree):
    """Every .cpp is matched by what some CMakeLists.txt of the tree names or globs."""
    patterns = [pattern for source in tree.of_kind("cmake") for pattern in target_patterns(source)]
    for source in tree.of_kind("cpp"):
        if source.suffix in (".cpp", ".cu") and not any(pattern.fullmatch(source.path) for pattern in patterns):
            yield source.finding("built", 1, "no target builds this file")


_GLOB = re.compile(r"file\(\s*(GLOB(?:_RECURSE)?)\s+\w+\s+(?:CONFIGURE_DEPENDS\s+)?([^)]*)\)", re.DOTALL)
_TEST_FOLDER = re.compile(r"^\s*tandem_test_folder\(\s*(\w+)", re.MULTILINE)
_NAMED = re.compile(r"[\w/.\-]+\.(?:cpp|cu)\b")


def target_patterns(source):
    """Regular expressions over paths from the root. ${folder} stands for each folder that tandem_test_folder() names."""
    folder = str(PurePosixPath(source.path).parent)
    prefix = "" if folder == "." else folder + "/"
    text = re.sub(r"#[^\n]*", "", source.text)
    for mode, arguments in _GLOB.findall(text):
        for argument in arguments.split():
            argument = argument.strip('"').replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
            for name in _TEST_FOLDER.findall(text) if "${folder}" in argument else [""]:
                yield glob_expression(prefix + argument.replace("${folder}", name), mode == "GLOB_RECURSE")
    for named in _NAMED.findall(_GLOB.sub("", text)):
        yield glob_expression(prefix + named, False)


def glob_expression(glob, is_recursive):
    folder, _, name = glob.rpartition("/")
    deeper = "(?:.*/)?" if is_recursive else ""
    in_folder = re.escape(folder).replace(r"\*", "[^/]*") + "/" if folder else ""
    return re.compile(in_folder + deeper + re.escape(name).replace(r"\*", "[^/]*"))


def tree_size(tree):
    total = sum(size for path, size in tree.sizes.items() if not path.startswith("."))  # hidden: tools' own
    if total >= TREE_BYTES_BELOW:
        largest = max(tree.paths, key=tree.sizes.get)
        yield at(largest, "tree_size", f"all files have {total:,} bytes, not below {TREE_BYTES_BELOW:,}; this one is the largest")


def at(path, rule, message):
    return Finding(rule, path, 1, message)


RULES = (top_level, names, readmes, built, tree_size)
