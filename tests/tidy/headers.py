"""Checks that every header compiles alone: including it first, and nothing before it, is enough.

    python3 tests/tidy/headers.py BUILD_DIR [--jobs N]

A header that a source of the build includes first is proven by the build itself. The others are compiled with
-fsyntax-only and the flags of a source from the same folder. Headers that reach CUDA's own are left out of a build without
it. What passed is remembered in BUILD_DIR/tidy by a hash over
the flags and the text of all project headers it reaches; a change of system headers alone is not noticed.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
import hashlib
import json
from pathlib import Path
import re
import shlex
import subprocess
import sys

import rules_layers
from source_tree import Tree

TIMEOUT_S = 240


class Headers:
    """The headers of the tree and what each of them includes of it."""

    def __init__(self, tree):
        self.by_path = {source.path: source for source in tree.of_kind("cpp")}

    def included(self, source):
        """Project headers only, in order; a path named from the root or from the source's own folder."""
        folder = source.path.rpartition("/")[0]
        for _, path, is_quoted in rules_layers.includes(source):
            if is_quoted:
                yield from (name for name in (path, f"{folder}/{path}") if name in self.by_path)

    def reached(self, path):
        """All headers that `path` reaches, itself among them."""
        seen, pending = set(), [path]
        while pending:
            current = pending.pop()
            if current not in seen:
                seen.add(current)
                pending.extend(self.included(self.by_path[current]))
        return sorted(seen)

    def alone(self):
        """The headers to prove; *_inl.hpp files are parts of others by design."""
        return [path for path in self.by_path if path.endswith(".hpp") and not path.endswith("_inl.hpp")]

    def reaches_cuda(self, path):
        return any("#include <cuda" in self.by_path[reached].text for reached in self.reached(path))

    def proven_by(self, built):
        """The headers that a built source names before anything else."""
        firsts = set()
        for path in built:
            source = self.by_path.get(path)
            first = next(rules_layers.includes(source), None) if source else None
            if first and first[2]:
                firsts.update(list(self.included(source))[:1])
        return firsts


class Commands:
    """compile_commands.json: which sources are built, and with which flags."""

    def __init__(self, entries, root):
        self.flags, self.first = {}, set()
        for entry in entries:
            file = (Path(entry["directory"]) / entry["file"]).resolve()
            words = entry.get("arguments") or shlex.split(entry["command"])
            for position, source in enumerate(compiled_together(file, root)):
                if source.is_relative_to(root) and source.suffix == ".cpp":
                    name = str(source.relative_to(root))
                    self.flags[name] = (entry["directory"], syntax_only(words))
                    if position == 0 and "-include" not in words:
                        self.first.add(name)

    def has_cuda(self):
        return any(path.startswith("gpu/cuda/") for path in self.flags)

    def sources_without_prelude(self):
        """Sources whose first include is really the first: no precompiled header and no other source comes before."""
        return sorted(self.first)

    def for_header(self, path):
        """Of all sources the one whose folder has most in common with the header's."""
        def common(other):
            pairs = zip(path.split("/")[:-1], other.split("/")[:-1])
            return next((i for i, (a, b) in enumerate(pairs) if a != b), min(path.count("/"), other.count("/")))

        return self.flags[max(sorted(self.flags), key=common)]


def compiled_together(file, root):
    """The sources that a batch (cmake/Unity.cmake) includes, in order; any other file is its own only source."""
    if file.parent.parent.name != "batches":
        return [file]
    return [root / name for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)]


def syntax_only(words):
    """The compiler and its flags, without launcher, input, output and dependency files."""
    kept, skip = [], False
    start = 1 if Path(words[0]).name in ("ccache", "sccache") else 0
    for word in words[start:]:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MF", "-MT", "-MQ"):
            skip = True
        elif not word.startswith(("-MD", "-MMD", "-O", "-g")):
            kept.append(word)
    return kept


def key(headers, path, words):
    digest = hashlib.sha256("\0".join(words).encode())
    for reached in headers.reached(path):
        digest.update(f"\0{reached}\0{headers.by_path[reached].text}".encode())
    return f"{digest.hexdigest()} {path}"


def compile_alone(path, directory, words):
    """Returns the compiler's complaint, or "" if the header stands alone."""
    command = [word for word in words if word != "-include" and "cmake_pch" not in word]
    try:
        result = subprocess.run([*command, "-fsyntax-only", "-x", "c++", "-"], input=f'#include "{path}"\n', cwd=directory,
                                capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"no answer from the compiler in {TIMEOUT_S} s"
    return "" if result.returncode == 0 else result.stderr.strip() or f"exit code {result.returncode}"


def check(root, build, jobs):
    headers = Headers(Tree.from_repository(root))
    commands = Commands(json.loads((build / "compile_commands.json").read_text()), root)
    proven = headers.proven_by(commands.sources_without_prelude())
    memory = build / "tidy" / "headers-passed.txt"
    passed = set(memory.read_text().splitlines()) if memory.exists() else set()
    left_out = set() if commands.has_cuda() else {path for path in headers.alone() if headers.reaches_cuda(path)}
    keys = {path: key(headers, path, commands.for_header(path)[1])
            for path in headers.alone() if path not in proven and path not in left_out}
    pending = [path for path in keys if keys[path] not in passed]
    with ThreadPoolExecutor(jobs) as pool:
        complaints = list(pool.map(lambda path: compile_alone(path, *commands.for_header(path)), pending))
    failed = {path: complaint for path, complaint in zip(pending, complaints) if complaint}
    memory.parent.mkdir(exist_ok=True)
    memory.write_text("".join(f"{keys[path]}\n" for path in sorted(keys) if path not in failed))
    for path, complaint in failed.items():
        print(f"{path} does not compile alone:\n{complaint}\n")
    print(f"headers: {len(proven)} proven by the build, {len(keys) - len(pending)} remembered, "
          f"{len(pending)} compiled, {len(failed)} failed, {len(left_out)} left out (CUDA)")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description="Checks that every header compiles alone.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    return check(options.root.resolve(), options.build.resolve(), options.jobs)


if __name__ == "__main__":
    sys.exit(main())
