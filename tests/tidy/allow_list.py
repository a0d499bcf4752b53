"""Exceptions from the rules, each with its reason: lines `rule | path | reason` in allow.txt.

An entry excuses every finding of one rule in one file. One that excuses nothing fails, so that the list shrinks by itself.
"""

from dataclasses import dataclass

from source_tree import Finding

REASON_CHARACTERS_MIN = 15


@dataclass(frozen=True)
class Entry:
    rule: str
    path: str
    reason: str
    line: int


class AllowList:
    def __init__(self, text, rules, path="allow.txt"):
        self.path, self.rules = path, set(rules)
        self.entries, self.findings = [], []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                self._read(number, line)

    def _read(self, number, line):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3:
            return self._complain(number, "not of the form `rule | path | reason`")
        rule, path, reason = parts
        if rule not in self.rules:
            self._complain(number, f"no rule is called {rule}")
        elif len(reason) < REASON_CHARACTERS_MIN:
            self._complain(number, "the reason is too short to be one")
        elif any((entry.rule, entry.path) == (rule, path) for entry in self.entries):
            self._complain(number, "stands in the list twice")
        else:
            self.entries.append(Entry(rule, path, reason, number))

    def _complain(self, line, message):
        self.findings.append(Finding("allow_list", self.path, line, message))

    def remaining(self, findings):
        """Returns what no entry excuses, then what is wrong with the list itself."""
        excused = {(entry.rule, entry.path) for entry in self.entries}
        met = {(finding.rule, finding.path) for finding in findings}
        unused = [
            Finding("allow_list", self.path, entry.line, f"excuses nothing: {entry.rule} in {entry.path}")
            for entry in self.entries
            if (entry.rule, entry.path) not in met
        ]
        return [finding for finding in findings if (finding.rule, finding.path) not in excused] + self.findings + unused
