"""Byte-level BPE over a tokenizer.json of DeepSeek's shape: text to ids and back.

`encode` never looks for added tokens: text that somebody wrote is text, even when it spells
`</think>`. Markup becomes ids only where the prompt encoder says so (`special`). This is the
training side's own small implementation; the server's is compared with it by tests.
"""

import heapq
import json
import re

from . import pretokenize

_CACHED_PIECES = 400_000
_surrogates = re.compile("[\ud800-\udfff]")


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte, indexed by the byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in chars:
            chars[byte] = chr(256 + len(chars) - len(printable))
    return [chars[byte] for byte in range(256)]


class Tokenizer:
    """Vocabulary, merges and added tokens of one tokenizer.json. Not shared between threads."""

    def __init__(self, document: dict):
        model = document["model"]
        self.vocab: dict[str, int] = model["vocab"]
        self.added: dict[str, int] = {t["content"]: t["id"] for t in document["added_tokens"]}
        self.size = 1 + max(max(self.vocab.values()), max(self.added.values()))
        alphabet = byte_alphabet()
        self._byte_ids = [self.vocab[char] for char in alphabet]
        self._ranks = {}
        for rank, merge in enumerate(model["merges"]):
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            pair = (self.vocab[left], self.vocab[right])
            self._ranks[pair] = (rank, self.vocab[left + right])
        byte_of = {char: byte for byte, char in enumerate(alphabet)}
        self._bytes = [b""] * self.size
        for token, token_id in self.vocab.items():
            if token not in self.added:
                self._bytes[token_id] = bytes(byte_of[char] for char in token)
        self._special_text = {token_id: text for text, token_id in self.added.items()}
        self._cache: dict[str, tuple[int, ...]] = {}

    def special(self, name: str) -> int:
        """The id of an added token, by its text. KeyError when the file has none of that name."""
        return self.added[name]

    def encode(self, text: str) -> list[int]:
        """Ids of plain text. Lone surrogates count as U+FFFD."""
        ids: list[int] = []
        cache = self._cache
        if not text.isascii():
            text = _surrogates.sub("\ufffd", text)
        for piece in pretokenize.split(text):
            known = cache.get(piece)
            ids += self._encode_piece(piece) if known is None else known
        return ids

    def decode(self, ids, with_special: bool = False) -> str:
        """Text of ids; added tokens are left out unless `with_special`."""
        out = bytearray()
        for token_id in ids:
            if token_id in self._special_text:
                if with_special:
                    out += self._special_text[token_id].encode()
            else:
                out += self._bytes[token_id]
        return out.decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one ordinary token; empty for added tokens."""
        return self._bytes[token_id]

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        raw = piece.encode()
        ids = tuple(self._merge([self._byte_ids[byte] for byte in raw]))
        if len(raw) <= 64 and len(self._cache) < _CACHED_PIECES:
            self._cache[piece] = ids
        return ids

    def _merge(self, ids: list[int]) -> list[int]:
        """Merges the pair of lowest rank, leftmost first, until none is left: a heap over a linked list."""
        count = len(ids)
        after = list(range(1, count + 1))
        before = list(range(-1, count - 1))
        heap = []

        def offer(left: int) -> None:
            right = after[left]
            if right < count:
                merge = self._ranks.get((ids[left], ids[right]))
                if merge:
                    heapq.heappush(heap, (merge[0], left, right, ids[left], ids[right], merge[1]))

        for left in range(count - 1):
            offer(left)
        while heap:
            _, left, right, left_id, right_id, merged = heapq.heappop(heap)
            if ids[left] != left_id or after[left] != right or ids[right] != right_id:
                continue  # an older offer: one of the two has been merged meanwhile
            ids[left], ids[right] = merged, -1
            after[left] = after[right]
            if after[left] < count:
                before[after[left]] = left
            if before[left] >= 0:
                offer(before[left])
            offer(left)
        return [token_id for token_id in ids if token_id >= 0]


def load_tokenizer(path) -> Tokenizer:
    """Reads a tokenizer.json."""
    with open(path, encoding="utf-8") as file:
        return Tokenizer(json.load(file))
