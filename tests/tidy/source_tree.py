"""The tree that is checked: every file that git tracks or would track, with its text read once.

A Source knows its path from the repository's root, its kind and its lines. `code` is what remains of a C++ file when
comments and literals are blanked: columns and line numbers stay, so a rule can point at the place it means.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
import subprocess

from cpp_text import blank_comments_and_literals

CPP_SUFFIXES = {".cpp": "cpp", ".hpp": "cpp", ".cu": "cpp", ".cuh": "cpp"}
SCRIPT_SUFFIXES = {".py": "python", ".sh": "shell"}
TEXT_SUFFIXES = {".md": "text", ".cmake": "cmake", ".conf": "text", ".json": "data", ".service": "text"}
DATA_FOLDERS = ("tests/golden/",)
LARGEST_TEXT_BYTES = 1 << 20


@dataclass(frozen=True)
class Finding:
    """One broken rule: `rule` is the name that the allow-list uses."""

    rule: str
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message} [{self.rule}]"


@dataclass(frozen=True)
class Source:
    path: str
    text: str
    kind: str = field(default="")

    def __post_init__(self):
        if not self.kind:
            object.__setattr__(self, "kind", kind_of(self.path, self.text))

    @property
    def name(self):
        return PurePosixPath(self.path).name

    @property
    def stem(self):
        return PurePosixPath(self.path).stem

    @property
    def suffix(self):
        return PurePosixPath(self.path).suffix

    @property
    def top(self):
        """The top folder, or "" for a file at the root."""
        return self.path.split("/", 1)[0] if "/" in self.path else ""

    @cached_property
    def lines(self):
        return self.text.splitlines()

    @cached_property
    def code(self):
        return blank_comments_and_literals(self.text) if self.kind == "cpp" else self.text

    @cached_property
    def code_lines(self):
        return self.code.splitlines()

    def finding(self, rule, line, message):
        return Finding(rule, self.path, line, message)


def kind_of(path, text):
    """cpp, python, shell, cmake, text or data, by suffix; a file without one by its first line."""
    suffix = PurePosixPath(path).suffix
    if PurePosixPath(path).name == "CMakeLists.txt":
        return "cmake"
    for table in (CPP_SUFFIXES, SCRIPT_SUFFIXES, TEXT_SUFFIXES):
        if suffix in table:
            return table[suffix]
    first = text.split("\n", 1)[0]
    if first.startswith("#!"):
        return "python" if "python" in first else "shell"
    return "data"


class Tree:
    """All files; `sources` are those whose text is ours to judge, data files are known by path and size only."""

    def __init__(self, sizes, sources):
        self.paths = sorted(sizes)
        self.sizes = dict(sizes)
        self.sources = sorted(sources, key=lambda source: source.path)

    @classmethod
    def from_texts(cls, texts):
        """A tree out of {path: text}, for tests."""
        return cls({path: len(text) for path, text in texts.items()}, [Source(path, text) for path, text in texts.items()])

    @classmethod
    def from_repository(cls, root):
        root = Path(root)
        paths = [path for path in listed_paths(root) if (root / path).is_file()]
        sizes = {path: (root / path).lstat().st_size for path in paths}
        return cls(sizes, [source for path in paths if (source := read_source(root, path))])

    def of_kind(self, *kinds):
        return [source for source in self.sources if source.kind in kinds]


def listed_paths(root):
    """What git tracks plus what it does not ignore, so that a new file is judged before it is committed."""
    command = ["git", "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive, or no git on this machine
        return walked_paths(root)
    return sorted(set(path.decode() for path in listing.split(b"\0") if path))


def walked_paths(root):
    """Every file that is not built, not cached and not hidden at the top."""
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in files
                  if not path.parts[0].startswith((".", "build")) and "__pycache__" not in path.parts)


def read_source(root, path):
    if path.startswith(DATA_FOLDERS):
        return None
    try:
        raw = (root / path).read_bytes()
    except FileNotFoundError:  # removed between the listing and now
        return None
    if len(raw) > LARGEST_TEXT_BYTES or b"\0" in raw:
        return None
    source = Source(path, raw.decode("utf-8", errors="replace"))
    return None if source.kind == "data" else source
