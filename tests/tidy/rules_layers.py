"""Arrows between folders: ops -> net -> actors -> gpu -> engram, read from the include lines.

Besides the order of the folders some libraries and some inner folders have one home. A test may include anything.
"""

import re

LAYERS = ("engram", "gpu", "actors", "net", "ops")  # lowest first; an include may only go down or stay
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# (folder that may not, prefix of the included path, why)
FORBIDDEN = (
    ("engram/", "caf/", "engram knows nothing of actors"),
    ("engram/", "boost/beast", "engram knows nothing of HTTP"),
    ("engram/", "boost/asio", "engram knows nothing of HTTP"),
    ("engram/", "cuda", "engram knows nothing of CUDA"),
    ("gpu/", "caf/", "gpu knows nothing of actors"),
    ("gpu/", "boost/beast", "gpu knows nothing of HTTP"),
    ("gpu/", "boost/asio", "gpu knows nothing of HTTP"),
    ("actors/", "boost/beast", "actors know nothing of HTTP"),
    ("actors/", "cuda", "actors see no CUDA header"),
    ("actors/", "gpu/cpu/", "actors use the engine, not a backend"),
    ("actors/", "gpu/cuda/", "actors use the engine, not a backend"),
    ("net/", "gpu/cpu/", "net sees no internals of gpu"),
    ("net/", "gpu/cuda/", "net sees no internals of gpu"),
    ("net/", "gpu/model/", "net sees no internals of gpu"),
    ("net/", "gpu/checkpoint/", "net sees no internals of gpu"),
    ("net/", "gpu/state/", "net sees no internals of gpu"),
    ("net/text/", "net/http/", "net/text has no HTTP types"),
    ("net/text/", "boost/beast", "net/text has no HTTP types"),
    ("net/text/", "boost/asio", "net/text has no HTTP types"),
)


def includes(source):
    """Yields (line, path, is_quoted)."""
    for number, line in enumerate(source.code_lines, 1):
        if match := INCLUDE.match(line):
            yield number, match.group(2), match.group(1) == '"'


def layers(tree):
    for source in tree.of_kind("cpp"):
        if source.top not in LAYERS:
            continue
        rank = LAYERS.index(source.top)
        for number, path, _ in includes(source):
            target = path.split("/", 1)[0]
            if target in LAYERS and LAYERS.index(target) > rank:
                yield source.finding("layers", number, f"{source.top} may not include {target}: arrows point down")
            for folder, prefix, why in FORBIDDEN:
                if source.path.startswith(folder) and path.startswith(prefix):
                    yield source.finding("layers", number, f"may not include {path}: {why}")


def include_paths(tree):
    """A project header is named from the root and exists."""
    known = set(tree.paths)
    for source in tree.of_kind("cpp"):
        for number, path, is_quoted in includes(source):
            if is_quoted and path not in known:
                yield source.finding("include_path", number, f'"{path}" is no file named from the root')


RULES = (layers, include_paths)
