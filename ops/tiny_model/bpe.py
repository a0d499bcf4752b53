"""Trains the byte-level BPE of the tiny model and writes configs/tiny/tokenizer.json.

    python3 -m ops.tiny_model.bpe --out configs/tiny/tokenizer.json

The file has the shape of DeepSeek's: three Split steps and ByteLevel, merges as strings, special
tokens by name. Ids: BOS, EOS and padding are 0, 1, 2; then 256 bytes; then the merges; the other
special tokens at the end, 4,096 in all.

Numbers stay single digits: no merge may hold one. A digit a token makes sums a matter of columns
and a copied number a matter of copying, and costs the tiny model nothing, its numbers being short.

A piece counts once a conversation, and pieces of fewer than eight conversations (mostly invented
names) not at all. The counts are damped (square root), so that the merges follow how many different
words share a part rather than how often a template is drawn: unseen words fall into sensible parts.
"""

import argparse
import heapq
import itertools
import json
import math
from collections import Counter, defaultdict

from .corpus import conversations, encode_chat, pretokenize
from .corpus.tokenizer import byte_alphabet

VOCABULARY = 4096
FIRST_TOKENS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")
# Named added tokens of DeepSeek-V4.1, in the order of their ids there; the numbered spares are left out.
LAST_TOKENS = (
    "<｜System｜>", "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜User｜>", "<｜Assistant｜>", "<|EOT|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "<｜tool▁sep｜>",
    "<｜begin▁of▁repo▁name｜>", "<｜end▁of▁repo▁name｜>", "<｜begin▁of▁file▁name｜>", "<｜end▁of▁file▁name｜>",
    "<｜begin▁of▁file｜>", "<｜end▁of▁file｜>", "<think>", "</think>", "<｜place▁holder▁for▁copy｜>",
    "<｜place▁holder▁for▁pointer▁replace｜>", "｜DSML｜", "<｜begin▁sys｜>", "<｜end▁sys｜>", "<｜latest_reminder｜>",
    "<｜action｜>", "<｜query｜>", "<｜authority｜>", "<｜domain｜>", "<｜task｜>", "<｜political｜>", "<｜entity｜>", "<｜title｜>",
    "<｜safety｜>", "<｜answer｜>", "<｜search｜>", "<dsml:", "</dsml:", "<｜search▁begin｜>", "<｜search▁end｜>",
    "<｜extracted_url｜>", "<｜read_url｜>", "<｜end_of_query｜>", "<｜rl_image_pad｜>", "<｜rl_image_start｜>",
    "<｜deepseek_image｜>", "<｜/polygon｜>", "<｜polygon｜>", "<｜/point｜>", "<｜point｜>", "<｜/box｜>", "<｜box｜>", "<｜/ref｜>",
    "<｜ref｜>",
)
_LONGEST_TOKEN = 24  # bytes; longer ones would only be whole template sentences
_FEWEST_CONVERSATIONS = 8
_TRAINING_CONVERSATIONS = 60_000
_TRAINING_SEED = 20_261


def count_pieces(seed: int, amount: int) -> Counter:
    """In how many of `amount` conversations each pre-tokenised piece occurs, rare ones left out."""
    counts: Counter = Counter()
    for conversation in itertools.islice(conversations(seed), amount):
        segments = encode_chat(conversation.messages, conversation.options())
        texts = (segment.text for segment in segments if not segment.is_markup)
        counts.update({piece for text in texts for piece in pretokenize.split(text)})
    return Counter({piece: count for piece, count in counts.items() if count >= _FEWEST_CONVERSATIONS})


def learn_merges(counts: Counter, amount: int) -> list[tuple[bytes, bytes]]:
    """The `amount` most frequent merges, one after the other. Ties go to the smaller pair of bytes."""
    words, weights = [], []
    for piece, count in sorted(counts.items()):
        if not any(char.isnumeric() for char in piece):
            words.append([bytes([byte]) for byte in piece.encode()])
            weights.append(math.isqrt(count * 10_000))
    pair_weight: Counter = Counter()
    words_with = defaultdict(set)
    for index, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_weight[pair] += weights[index]
            words_with[pair].add(index)
    heap = [(-weight, pair) for pair, weight in pair_weight.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < amount and heap:
        negative, pair = heapq.heappop(heap)
        weight = pair_weight.get(pair, 0)
        if weight <= 0 or len(pair[0] + pair[1]) > _LONGEST_TOKEN:
            continue
        if weight != -negative:
            heapq.heappush(heap, (-weight, pair))  # an outdated entry: back to its right place
            continue
        merges.append(pair)
        changed = _apply(pair, words, weights, pair_weight, words_with)
        for other in changed:
            if pair_weight[other] > 0:
                heapq.heappush(heap, (-pair_weight[other], other))
    return merges


def _apply(pair, words, weights, pair_weight, words_with) -> set:
    """Merges `pair` in every word that has it and keeps the pair counts right. Returns grown pairs."""
    grown = set()
    for index in sorted(words_with.pop(pair)):
        word, weight = words[index], weights[index]
        merged, k = [], 0
        while k < len(word):
            if k + 1 < len(word) and word[k] == pair[0] and word[k + 1] == pair[1]:
                merged.append(word[k] + word[k + 1])
                k += 2
            else:
                merged.append(word[k])
                k += 1
        if len(merged) == len(word):
            continue
        for old in zip(word, word[1:]):
            pair_weight[old] -= weight
        for new in zip(merged, merged[1:]):
            pair_weight[new] += weight
            words_with[new].add(index)
            grown.add(new)
        words[index] = merged
    return grown


def document(merges: list[tuple[bytes, bytes]]) -> dict:
    """The tokenizer.json for these merges. Two ways to the same bytes take two ranks but one id."""
    alphabet = byte_alphabet()
    shown = lambda raw: "".join(alphabet[byte] for byte in raw)
    vocab = {name: token_id for token_id, name in enumerate(FIRST_TOKENS)}
    for char in sorted(alphabet):
        vocab[char] = len(vocab)
    for left, right in merges:
        vocab.setdefault(shown(left + right), len(vocab))
    added = {name: token_id for token_id, name in enumerate(FIRST_TOKENS)}
    for name in LAST_TOKENS:
        added[name] = len(vocab) + len(added) - len(FIRST_TOKENS)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    splits = [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
              for regex in (pretokenize.NUMBER_REGEX, pretokenize.CJK_REGEX, pretokenize.WORD_REGEX)]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": token_id, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for name, token_id in added.items()],
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits + [byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                  "merges": [f"{shown(left)} {shown(right)}" for left, right in merges]},
    }


def train(seed: int = _TRAINING_SEED, amount: int = _TRAINING_CONVERSATIONS) -> dict:
    """Counts, learns and returns the finished tokenizer.json with exactly VOCABULARY entries."""
    counts = count_pieces(seed, amount)
    wanted = VOCABULARY - len(FIRST_TOKENS) - len(LAST_TOKENS) - 256
    merges = learn_merges(counts, wanted * 2)
    taken, entries = [], set()
    for left, right in merges:
        if len(entries) == wanted and left + right not in entries:
            break
        entries.add(left + right)
        taken.append((left, right))
    if len(entries) != wanted:
        raise ValueError(f"the training text gives {len(entries)} entries, wanted {wanted}")
    return document(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="configs/tiny/tokenizer.json")
    parser.add_argument("--conversations", type=int, default=_TRAINING_CONVERSATIONS)
    parser.add_argument("--seed", type=int, default=_TRAINING_SEED)
    arguments = parser.parse_args()
    result = train(arguments.seed, arguments.conversations)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file, ensure_ascii=False, indent=1)
        file.write("\n")
    print(f"{arguments.out}: {len(result['model']['vocab'])} base entries, {len(result['added_tokens'])} added tokens, "
          f"{len(result['model']['merges'])} merges")


if __name__ == "__main__":
    main()
