"""Checks the rules of the house over the whole tree and lists what breaks them. See README.md beside this file.

    python3 tests/tidy/tidy.py [--root ROOT] [--summary] [PATH...]

Exits 0 if nothing is left after the allow-list, else 1. PATH limits what is printed to files below it.
"""

import argparse
from collections import Counter
from pathlib import Path
import sys

from allow_list import AllowList
import rules_code
import rules_layers
import rules_layout
import rules_text
from source_tree import Tree

ALL_RULES = rules_layers.RULES + rules_text.RULES + rules_code.RULES + rules_layout.RULES
ALLOW_PATH = "tests/tidy/allow.txt"

# The name that a finding carries, where it is not the function's own.
NAMES = {"readmes": "readme", "banned_calls": "banned_call", "include_paths": "include_path"}


def rule_names():
    return {NAMES.get(rule.__name__, rule.__name__) for rule in ALL_RULES}


def check(tree, allow_text=""):
    findings = [finding for rule in ALL_RULES for finding in rule(tree)]
    left = AllowList(allow_text, rule_names(), ALLOW_PATH).remaining(findings)
    return sorted(left, key=lambda finding: (finding.path, finding.line, finding.rule))


def print_summary(findings):
    counts = Counter((finding.path.rsplit("/", 1)[0] if "/" in finding.path else ".", finding.rule)
                     for finding in findings)
    for (folder, rule), count in sorted(counts.items()):
        print(f"{count:5} {rule:16} {folder}")


def main():
    parser = argparse.ArgumentParser(description="Checks the rules of the house over the whole tree.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--summary", action="store_true", help="counts for each folder instead of lines")
    parser.add_argument("paths", nargs="*", help="print only what lies below these, from the root")
    options = parser.parse_args()
    allow_file = options.root / ALLOW_PATH
    tree = Tree.from_repository(options.root)
    findings = check(tree, allow_file.read_text() if allow_file.exists() else "")
    if options.paths:
        findings = [finding for finding in findings if finding.path.startswith(tuple(options.paths))]
    if options.summary:
        print_summary(findings)
    else:
        print(*findings, sep="\n", end="\n" if findings else "")
    print(f"tidy: {len(tree.sources)} files, {len(ALL_RULES)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
