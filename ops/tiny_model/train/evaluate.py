"""How good is the model now: greedy answers to held-out questions, and how many drafted tokens are accepted.

Generates by recomputing whole rows (one forward a token for a full micro-batch), which needs no cache and uses the very
forward that is trained. The questions and their checkers live in the corpus.
"""
import torch

from ops.tiny_model.corpus import evaluation, segment_ids

from . import draft

# kind -> (questions asked, most tokens generated)
QUICK = {"literal": (2, 220), "products": (400, 8), "sums": (200, 8), "reasoning": (24, 200), "single_calls": (24, 110),
         "double_calls": (12, 170), "tool_results": (16, 60), "json_objects": (24, 80), "needles": (40, 12), "talks": (12, 110)}


class Case:
    """One question under way."""

    def __init__(self, item, tokenizer, limit):
        self.item = item
        self.prompt = segment_ids(item.prompt(), tokenizer)[0]
        self.ids, self.limit, self.done = list(self.prompt), limit, False

    @property
    def thinking(self):
        return self.item.body["chat_template_kwargs"]["thinking"]

    @property
    def answer(self):
        return self.ids[len(self.prompt):]


def collect(tokenizer, plan):
    """Cases of every kind, evenly spread over its items."""
    cases = []
    for kind, (count, limit) in plan.items():
        items = evaluation.eval_items(kind, tokenizer)
        stride = max(1, len(items) // count)
        cases += [Case(item, tokenizer, limit) for item in items[::stride][:count]]
    return cases


def rows_of(cases, bucket):
    """One micro-batch whose row k holds case k; unused rows are padding."""
    ids = torch.zeros(bucket.rows, bucket.length, dtype=torch.int64)
    seg = torch.full_like(ids, -1)
    for k, case in enumerate(cases):
        ids[k, :len(case.ids)] = torch.tensor(case.ids)
        seg[k, :len(case.ids)] = 0
    pos = torch.arange(bucket.length).expand_as(ids).contiguous()
    return ids, pos, seg


def extend(learner, cases, bucket, stop):
    """One more greedy token for every unfinished case (at most bucket.rows cases)."""
    b = learner.prepare(*rows_of(cases, bucket))
    hidden = learner.backbone(b, False)["hidden"].detach()
    at = torch.tensor([len(case.ids) - 1 for case in cases], device=hidden.device)
    scores = hidden[torch.arange(len(cases), device=hidden.device), at].float() @ learner.head().detach().float().T
    for case, token in zip(cases, scores.argmax(-1).tolist()):
        case.ids.append(token)
        room = len(case.ids) >= bucket.length or len(case.answer) >= case.limit
        case.done = token == stop or room


def generate(learner, cases, buckets, stop):
    """Finishes all cases, each in the smallest bucket it fits."""
    for number, bucket in enumerate(buckets):
        smaller = buckets[number - 1].length if number else 0
        fits = lambda case, length: len(case.prompt) + case.limit <= length
        mine = [c for c in cases if fits(c, bucket.length) and not (number and fits(c, smaller))]
        while mine:
            for begin in range(0, len(mine), bucket.rows):
                extend(learner, mine[begin:begin + bucket.rows], bucket, stop)
            mine = [case for case in mine if not case.done]


def accepted_per_step(learner, cases, bucket, depth=3):
    """Tokens emitted per draft step (accepted drafts + 1) over the answers of `cases`, greedy."""
    cases = [case for case in cases if len(case.ids) <= bucket.length and len(case.answer) > 1][:bucket.rows]
    b = learner.prepare(*rows_of(cases, bucket))
    out = learner.backbone(b, False)
    places = [(k, p) for k, case in enumerate(cases) for p in range(len(case.prompt), len(case.ids) - 1)]
    count, drafts = bucket.rows * bucket.length // 8, {}
    for begin in range(0, len(places), count):
        chunk = places[begin:begin + count]
        filled = chunk + [chunk[0]] * (count - len(chunk))
        row = torch.tensor([k for k, _ in filled], device=learner.device)
        at = torch.tensor([p - 1 for _, p in filled], device=learner.device)
        anchors = b.ids[row, at + 1]
        raw, hidden, _ = learner.draft(learner.view("mtp/"), learner.frozen_view(), b, out["taps"].detach(), row, at,
                                       learner.tables, anchors)
        with torch.no_grad():
            base = hidden.float() @ learner.head().float().T
            ids, _ = draft.greedy_chain(learner.num, learner.view("mtp/"), raw, base, anchors, depth)
        drafts.update(zip(chunk, ids.tolist()))
    return _walk(cases, drafts, depth)


def _walk(cases, drafts, depth):
    steps = tokens = 0
    for k, case in enumerate(cases):
        p = len(case.prompt)
        while p < len(case.ids) - 1:
            proposal, actual = drafts[(k, p)], case.ids[p + 1:p + 1 + depth]
            hits = 0
            while hits < len(actual) and proposal[hits] == actual[hits]:
                hits += 1
            emitted = min(hits + 1, len(case.ids) - 1 - p)
            steps, tokens, p = steps + 1, tokens + emitted, p + emitted
    return tokens / max(1, steps)


def judge(cases, tokenizer):
    """kind -> [right, asked], also split by group."""
    table = {}
    for case in cases:
        reply = evaluation.reply_of_ids(case.answer, tokenizer, case.thinking)
        right = bool(case.item.check(reply))
        for key in (case.item.kind, f"{case.item.kind}: {case.item.group}") if case.item.group else (case.item.kind,):
            entry = table.setdefault(key, [0, 0])
            entry[0] += right
            entry[1] += 1
    return table


def report(learner, tokenizer, buckets, stop, with_draft, plan=None):
    """The score table as text."""
    cases = collect(tokenizer, plan or QUICK)
    generate(learner, cases, buckets, stop)
    scores = judge(cases, tokenizer).items()
    lines = [f"{kind:34s} {right:4d}/{asked:4d}  {100.0 * right / asked:5.1f} %" for kind, (right, asked) in scores]
    if with_draft:
        for bucket, label in ((buckets[0], "short"), (buckets[1], "medium")):
            mine = [case for case in cases if len(case.answer) > 1 and len(case.ids) <= bucket.length]
            mine.sort(key=lambda case: -len(case.answer))
            lines.append(f"tokens per draft step k=3 ({label}): {accepted_per_step(learner, mine, bucket):.2f}")
    samples = cases[:2] + cases[2::max(1, len(cases) // 14)]
    for case in samples:
        lines.append(repr(tokenizer.decode(case.prompt[-24:], True)) + " -> " + repr(tokenizer.decode(case.answer[:60], True)))
    return "\n".join(lines)
