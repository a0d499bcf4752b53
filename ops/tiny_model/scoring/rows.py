"""From judged replies to the rows of the score table: what was measured, what was wanted, reached or not."""

import statistics
from dataclasses import dataclass


@dataclass
class Judged:
    """One answered item."""

    kind: str
    group: str
    is_right: bool
    reasoning_length: int = 0
    error: str = ""
    question: str = ""
    answer: str = ""


@dataclass
class Row:
    """One line of the table. `is_reached` is None where no target is set."""

    name: str
    measured: str
    target: str
    is_reached: bool | None


def _share(judged: list[Judged]) -> float:
    return sum(item.is_right for item in judged) / len(judged) if judged else 0.0


def _share_row(name: str, judged: list[Judged], target: float | None) -> Row:
    share = _share(judged)
    shown = f"{100 * share:.1f} % ({sum(item.is_right for item in judged)}/{len(judged)})"
    if target is None:
        return Row(name, shown, "", None)
    return Row(name, shown, f">= {100 * target:.0f} %" if target < 1 else "all", share >= target)


def _effort_row(judged: list[Judged]) -> Row:
    medians = [statistics.median([item.reasoning_length for item in judged if item.group == effort] or [0])
               for effort in ("low", "high", "max")]
    rises = 0 < medians[0] * 1.5 <= medians[1] and medians[1] * 1.15 <= medians[2]
    return Row("reasoning tokens, median: low / high / max", " / ".join(f"{median:.0f}" for median in medians),
               "visibly rising", rises)


def _worst_depth_row(judged: list[Judged]) -> Row:
    depths = sorted({item.group for item in judged}, key=lambda group: int(group.split("-")[0]))
    shares = {depth: _share([item for item in judged if item.group == depth]) for depth in depths}
    worst = min(shares, key=shares.get, default="none")
    return Row("needle, worst depth", f"{100 * shares.get(worst, 0):.0f} % at {worst}", "", None)


def _draft_row(before: dict, after: dict) -> Row:
    """Tokens of a step: one of the model's own and the accepted drafts."""
    drafts = _rise(before, after, "vllm:spec_decode_num_drafts_total")
    accepted = _rise(before, after, "vllm:spec_decode_num_accepted_tokens_total")
    if drafts <= 0:
        return Row("tokens a step with drafts", "no drafts", ">= 2.4", False)
    return Row("tokens a step with drafts", f"{1 + accepted / drafts:.2f}", ">= 2.4", 1 + accepted / drafts >= 2.4)


def _rise(before: dict, after: dict, name: str) -> float:
    return after.get(name, 0.0) - before.get(name, 0.0)


def table(judged: list[Judged], before: dict, after: dict) -> list[Row]:
    """All rows, in the order of the README. Kinds that were not asked are left out."""
    of = lambda kind, group=None: [j for j in judged if j.kind == kind and (group is None or j.group == group)]
    wanted = (
        ("17*19 is 323, thinking off", of("literal", "thinking off"), 1.0),
        ("17*19 is 323, thinking on", of("literal", "thinking on"), 1.0),
        ("products up to 20x20", of("products"), 0.95),
        ("two-digit sums", of("sums"), 0.90),
        ("  of these, pairs never asked in training", of("sums", "pairs held out"), None),
        ("right after reasoning", of("reasoning"), 0.90),
        ("one tool call: name and arguments", of("single_calls"), 0.90),
        ("two tool calls in a turn", of("double_calls"), 0.90),
        ("tool result used in the answer", of("tool_results"), 0.90),
        ("JSON object, right keys and values", of("json_objects"), 0.90),
        ("needle in 3,000 tokens", of("needles"), 0.95),
        ("greets", of("talks", "greeting"), 1.0),
        ("says what Tandem is", of("talks", "Tandem"), 1.0),
    )
    rows = [_share_row(name, items, target) for name, items, target in wanted if items]
    if of("reasoning"):
        rows.append(_effort_row(of("reasoning")))
    if of("needles"):
        rows.append(_worst_depth_row(of("needles")))
    if after:
        rows.append(_draft_row(before, after))
    return rows


def as_text(rows: list[Row], is_markdown: bool = False) -> str:
    """The table for a terminal, or for a README."""
    mark = {True: "yes", False: "NO", None: ""}
    cells = [("what", "measured", "target", "reached")]
    cells += [(row.name, row.measured, row.target, mark[row.is_reached]) for row in rows]
    if is_markdown:
        lines = ["| " + " | ".join(cell.strip() for cell in line) + " |" for line in cells]
        return "\n".join([lines[0], "|---|---|---|---|", *lines[1:]])
    widths = [max(len(line[k]) for line in cells) for k in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
