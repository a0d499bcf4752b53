"""Trains the tiny model within a budget of seconds and exports it.

    PYTHONPATH=. python3 -m ops.tiny_model.train.trainer --out build/tiny --seconds 1500

The schedule follows elapsed time over budget, so it ends wherever the machine is; `--resume` continues from the
checkpoint in --out with what is left. Owns: schedule, loop, log, checkpoint, periodic scores and exports.
"""
import argparse
import pathlib
import shutil
import time
import traceback

import torch

from ops.tiny_model import corpus

from . import data, engram_hash, evaluate, export, learner, parameters

BUCKETS = (data.Bucket(256, 128, 2, 32768, 4), data.Bucket(1024, 32, 8, 8190, 3), data.Bucket(4096, 8, 8, 2046, 3))
SMOKE = (data.Bucket(128, 2, 2, 64, 1), data.Bucket(512, 1, 8, 16, 1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/tiny", help="folder for log, checkpoint and export")
    parser.add_argument("--tokenizer", default="configs/tiny/tokenizer.json")
    parser.add_argument("--seconds", type=float, default=1500.0, help="training time, compilation excluded")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pattern", default="01,02", help="buckets of the micro-batches of successive steps")
    parser.add_argument("--draft-from", type=float, default=0.4, help="share of the budget after which the draft is trained")
    parser.add_argument("--scores-at", default="0.55", help="shares of the budget at which to score and export")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--start-from", help="folder of an earlier export: its weights, a new optimiser")
    parser.add_argument("--done", type=float, default=0.0, help="with --start-from: share of the schedule that lies behind")
    parser.add_argument("--eager", action="store_true", help="no torch.compile")
    parser.add_argument("--smoke", type=int, default=0, help="run so many steps with tiny batches and stop")
    return parser.parse_args()


class Schedule:
    """Progress 0..1 by the clock, and the learning rates that follow from it."""

    def __init__(self, seconds, done, draft_from):
        self.seconds, self.done, self.draft_from = seconds, done, draft_from
        self.begin, self.start = time.time(), done

    def progress(self):
        return min(1.0, self.done + (1.0 - self.done) * (time.time() - self.begin) / self.seconds)

    def rates(self, p):
        backbone = min(1.0, (p - self.start) / 0.01 + 0.02) * min(1.0, max(0.0, 1.0 - p) / 0.7)
        draft = 0.0
        if p >= self.draft_from:
            local = (p - self.draft_from) / max(1e-6, 1.0 - self.draft_from)
            draft = min(1.0, local / 0.02 + 0.05) * min(1.0, max(0.0, 1.0 - local) / 0.6)
        return {"backbone": backbone, "draft": draft}


class Trainer:
    def __init__(self, args):
        self.args = args
        self.out = pathlib.Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(args.seed)
        torch.set_float32_matmul_precision("high")
        self.buckets = SMOKE if args.smoke else BUCKETS
        self.tokenizer = corpus.load_tokenizer(args.tokenizer)
        self.compressed, count = export.token_map(self.tokenizer)
        self.config = export.configuration(self.tokenizer, count)
        self.source = data.Source(self.buckets, args.tokenizer, args.seed + (7919 if args.resume else 0))
        hasher = engram_hash.Hasher(self.config, self.compressed, self.device)
        if self.device == "cuda":
            self.fuse_sinkhorn()
        params = parameters.initialise(self.config, args.seed)
        if args.start_from:
            params = parameters.load(self.config, args.start_from)
        self.learner = learner.Learner(self.config, hasher, params, self.device, not args.eager and self.device == "cuda")
        self.tokens = self.steps = 0
        self.progress = args.done
        if args.resume:
            self.restore()

    def fuse_sinkhorn(self):
        try:
            from . import sinkhorn_gpu
            self.log(f"fused Sinkhorn error {sinkhorn_gpu.enable():.2e}")
        except Exception as error:  # any compiler problem: the plain path computes the same
            self.log(f"plain Sinkhorn: {error!r}"[:2000])

    def log(self, text):
        line = f"[{time.strftime('%H:%M:%S')}] {text}"
        print(line, flush=True)
        with open(self.out / "train.log", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def checkpoint(self, progress):
        state = self.learner.state()
        state.update(progress=progress, trained=self.steps, tokens=self.tokens)
        torch.save(state, self.out / "checkpoint.new")
        (self.out / "checkpoint.new").replace(self.out / "checkpoint.pt")

    def restore(self):
        state = torch.load(self.out / "checkpoint.pt", map_location=self.device)
        self.learner.restore(state)
        self.progress, self.steps, self.tokens = state["progress"], state["trained"], state["tokens"]
        self.log(f"resumed at {self.progress:.3f}, step {self.steps}")

    def micro_batches(self, step):
        pattern = self.args.pattern.split(",")
        numbers = [min(int(c), len(self.buckets) - 1) for c in pattern[step % len(pattern)]]
        return [self.source.batch(n) for n in numbers], [n > 0 for n in numbers]

    def warm_up(self):
        """Compiles every piece on every bucket, with learning rates of zero, outside the budget."""
        before = time.time()
        for number in range(len(self.buckets)):
            started = time.time()
            for _ in range(2):
                batches = [self.source.batch(number)]
                self.learner.balance_rate = 0.0
                self.learner.step(batches, {"backbone": 0.0, "draft": 1e-12}, [number > 0])
            if self.device == "cuda":
                torch.cuda.synchronize()
                self.log(f"bucket {number} warm after {time.time() - started:.0f} s, "
                         f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
        self.score(True, {"literal": (2, 4), "products": (4, 4)})
        self.log(f"warm-up took {time.time() - before:.0f} s")

    def score(self, with_draft, plan=None):
        started = time.time()
        try:
            table = evaluate.report(self.learner, self.tokenizer, self.buckets, self.config.eos_token_id, with_draft, plan)
        except Exception:  # a question that cannot be judged must not end a training run
            table = traceback.format_exc()
        self.log(f"scores after {self.tokens / 1e6:.0f} M tokens ({time.time() - started:.0f} s)\n{table}")

    def export(self):
        fresh, kept = self.out / "export.new", self.out / "export"
        size = export.export(self.config, self.learner.params, self.compressed, fresh)
        shutil.rmtree(kept, ignore_errors=True)
        fresh.rename(kept)
        self.log(f"exported {size / 1e6:.1f} MB")

    def adjust(self, schedule):
        """A running training is shortened or stretched by writing its seconds into OUT/seconds."""
        wish = self.out / "seconds"
        if wish.exists():
            schedule.seconds = float(wish.read_text())

    def run(self):
        args = self.args
        if not args.smoke:
            self.warm_up()
        schedule = Schedule(args.seconds, self.progress, args.draft_from)
        marks = [float(m) for m in args.scores_at.split(",") if m and float(m) > self.progress]
        last_save = last_log = time.time()
        counted = 0
        while True:
            p = schedule.progress()
            if p >= 1.0 or (args.smoke and self.steps >= args.smoke):
                break
            rates = schedule.rates(p)
            self.learner.balance_rate = 0.002 * rates["backbone"]
            batches, learn = self.micro_batches(self.steps)
            figures = self.learner.step(batches, rates, learn)
            self.steps += 1
            count = sum(b[0].numel() for b in batches)
            self.tokens, counted = self.tokens + count, counted + count
            if self.steps % 100 == 0 or args.smoke:
                spans = time.time() - last_log
                shown = " | ".join(" ".join(f"{k} {float(v):.4f}" for k, v in f.items()) for f in figures)
                self.log(f"step {self.steps} at {p:.3f} rate {rates['backbone']:.3f}/{rates['draft']:.3f} "
                         f"{self.tokens / 1e6:.1f} M tokens {counted / spans / 1e3:.0f} k/s: {shown}")
                last_log, counted = time.time(), 0
                self.adjust(schedule)
            if time.time() - last_save > 120.0:
                self.checkpoint(p)
                self.export()
                last_save = time.time()
            if marks and p >= marks[0]:
                marks.pop(0)
                self.score(rates["draft"] > 0.0)
                last_log, counted = time.time(), 0
        self.checkpoint(1.0)
        self.export()
        if not args.smoke:
            self.score(True)
        self.log("finished")
        self.source.close()


if __name__ == "__main__":
    Trainer(arguments()).run()
