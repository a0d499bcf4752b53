"""Batches of packed conversations, generated on the fly by worker processes into shared memory.

Owns: buckets (row length), packing, loss weights, the pools that workers fill and the trainer samples. Invariants: a
conversation is never cut and never crosses a row; it starts at a multiple of the bucket's alignment.
"""
import ctypes
import dataclasses
import multiprocessing
import os
import random

import numpy
import torch

CONTEXT_WEIGHT = 1  # loss weights are twentieths: text the model only reads counts 1/20
OPEN_ROWS = 12


@dataclasses.dataclass(frozen=True)
class Bucket:
    length: int  # tokens in a row, and the longest conversation
    rows: int  # rows of one micro-batch
    align: int  # every conversation starts at a multiple of this
    pool: int  # rows kept in memory
    workers: int


def token_weights(ids, mask):
    """Loss weights in twentieths. Long conversations have few answer tokens among much text: these count more."""
    answer = 20 if len(ids) <= 256 else 40 if len(ids) <= 1024 else 100
    return [answer if m else CONTEXT_WEIGHT for m in mask]


class Row:
    """A row being filled."""

    def __init__(self, length):
        self.ids = numpy.zeros(length, numpy.int16)
        self.pos = numpy.zeros(length, numpy.int16)
        self.seg = numpy.full(length, -1, numpy.int16)
        self.weight = numpy.zeros(length, numpy.uint8)
        self.used = self.count = 0

    def add(self, ids, weights, align):
        begin, end = self.used, self.used + len(ids)
        self.ids[begin:end] = ids
        self.pos[begin:end] = numpy.arange(len(ids))
        self.seg[begin:end] = self.count
        self.weight[begin:end] = weights
        self.weight[begin] = 0
        self.count += 1
        self.used = -(-end // align) * align


def packed_rows(samples, bucket):
    """Endless full rows from a stream of (ids, mask), first fit over a few open rows."""
    rows = [Row(bucket.length) for _ in range(OPEN_ROWS)]
    for ids, mask in samples:
        weights = token_weights(ids, mask)
        fitting = [row for row in rows if row.used + len(ids) <= bucket.length]
        if not fitting:
            fullest = max(range(OPEN_ROWS), key=lambda k: rows[k].used)
            yield rows[fullest]
            rows[fullest] = Row(bucket.length)
            fitting = [rows[fullest]]
        fitting[0].add(ids, weights, bucket.align)


class Pool:
    """Shared arrays [rows, length] of one bucket and how many rows each worker has written."""

    def __init__(self, bucket):
        self.bucket = bucket
        size = bucket.pool * bucket.length
        self.raw = [multiprocessing.RawArray(ctypes.c_int16, size) for _ in range(3)]
        self.raw.append(multiprocessing.RawArray(ctypes.c_uint8, size))
        self.written = multiprocessing.RawArray(ctypes.c_int64, bucket.workers)

    def arrays(self):
        kinds = (numpy.int16,) * 3 + (numpy.uint8,)
        shape = (self.bucket.pool, self.bucket.length)
        return [numpy.frombuffer(raw, kind).reshape(shape) for raw, kind in zip(self.raw, kinds)]

    def fill(self, worker, samples):
        """Writes this worker's share of the pool for ever, oldest row first."""
        arrays = self.arrays()
        share = self.bucket.pool // self.bucket.workers
        for row in packed_rows(samples, self.bucket):
            slot = worker * share + self.written[worker] % share
            for array, value in zip(arrays, (row.ids, row.pos, row.seg, row.weight)):
                array[slot] = value
            self.written[worker] += 1

    def ready(self):
        """Rows that can be drawn."""
        share = self.bucket.pool // self.bucket.workers
        return sum(min(int(n), share) for n in self.written)

    def draw(self, rng, arrays):
        """Random rows of one micro-batch: ids, pos, seg (int64) and weight (float) as CPU tensors."""
        share = self.bucket.pool // self.bucket.workers
        slots = []
        while len(slots) < self.bucket.rows:
            worker = rng.randrange(self.bucket.workers)
            filled = min(int(self.written[worker]), share)
            if filled:
                slots.append(worker * share + rng.randrange(filled))
        ids, pos, seg, weight = (torch.from_numpy(array[slots]) for array in arrays)
        return ids.long(), pos.long(), seg.long(), weight.float() / 20.0


def _work(pool, worker, seed, tokenizer_path):
    from ops.tiny_model import corpus
    os.nice(15)  # the trainer and its compiler come first
    tokenizer = corpus.load_tokenizer(tokenizer_path)
    # The long bucket is for long recall: with the usual mixture most of its rows would be many short conversations.
    weights = corpus.LONG_WEIGHTS if pool.bucket.length >= 4096 else None
    pool.fill(worker, corpus.stream(seed, tokenizer, pool.bucket.length, weights))


class Source:
    """Pools of all buckets with their running workers."""

    def __init__(self, buckets, tokenizer_path, seed):
        self.rng = random.Random(seed)
        self.pools, self.processes = [], []
        for number, bucket in enumerate(buckets):
            pool = Pool(bucket)
            self.pools.append(pool)
            for worker in range(bucket.workers):
                args = (pool, worker, seed * 1000 + number * 100 + worker, str(tokenizer_path))
                process = multiprocessing.Process(target=_work, args=args, daemon=True)
                process.start()
                self.processes.append(process)
        self.arrays = [pool.arrays() for pool in self.pools]

    def batch(self, number):
        """One micro-batch of bucket `number`; waits while its pool is nearly empty."""
        pool = self.pools[number]
        while pool.ready() < pool.bucket.rows:
            if not any(p.is_alive() for p in self.processes):
                raise RuntimeError("all data workers ended")
            self.processes[0].join(0.05)
        return pool.draw(self.rng, self.arrays[number])

    def close(self):
        for process in self.processes:
            process.terminate()
