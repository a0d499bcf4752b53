"""The training side's tokenizer: pieces, merges, special tokens, and the shape of configs/tiny/tokenizer.json."""

import json
import random
import unittest

from paths import ROOT, golden

from ops.tiny_model import bpe, corpus
from ops.tiny_model.corpus import pretokenize

TOKENIZER_FILE = ROOT / "configs/tiny/tokenizer.json"


class Pieces(unittest.TestCase):
    def test_every_golden_text_is_cut_into_the_golden_pieces(self):
        for case in golden("pretokenize.json")["cases"]:
            with self.subTest(case["name"]):
                self.assertEqual(pretokenize.split(case["text"]), case["pieces"])

    def test_pieces_join_to_the_text_for_any_characters(self):
        rng = random.Random(5)
        ranges = ((0, 128), (0x80, 0x800), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xFF00, 0xFFFF), (0x1F000, 0x1FAFF))
        for _ in range(2000):
            text = "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(40)))
            self.assertEqual("".join(pretokenize.split(text)), text)


class Training(unittest.TestCase):
    def test_merges_follow_the_counts_and_ties_go_to_smaller_bytes(self):
        merges = bpe.learn_merges({"abab": 4, "cd": 4, "ef": 1}, 3)
        self.assertEqual(merges[0], (b"a", b"b"))
        self.assertEqual(merges[1:], [(b"ab", b"ab"), (b"c", b"d")])

    def test_no_merge_holds_a_digit(self):
        self.assertEqual(bpe.learn_merges({"12": 9, "345": 9, "x": 9}, 5), [])

    def test_a_run_of_one_letter_merges_from_the_left(self):
        merges = bpe.learn_merges({"aaaaa": 10}, 2)
        self.assertEqual(merges, [(b"a", b"a"), (b"aa", b"a")])


class ShippedFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.document = json.loads(TOKENIZER_FILE.read_text(encoding="utf-8"))
        cls.tokenizer = corpus.load_tokenizer(TOKENIZER_FILE)

    def test_ids_are_4096_without_a_gap(self):
        ids = set(self.document["model"]["vocab"].values()) | set(self.tokenizer.added.values())
        self.assertEqual(ids, set(range(4096)))

    def test_begin_end_and_padding_are_0_1_2_and_the_other_special_tokens_come_last(self):
        self.assertEqual([self.tokenizer.special(name) for name in bpe.FIRST_TOKENS], [0, 1, 2])
        self.assertEqual([self.tokenizer.special(name) for name in bpe.LAST_TOKENS],
                         list(range(4096 - len(bpe.LAST_TOKENS), 4096)))

    def test_every_named_token_of_the_released_file_is_there(self):
        self.assertEqual(set(golden("tokenizer_v41.json")["added_tokens"]), set(self.tokenizer.added))

    def test_every_byte_is_a_token_and_every_merge_gives_an_entry(self):
        vocab = self.document["model"]["vocab"]
        self.assertEqual({self.tokenizer.token_bytes(i) for i in range(3, 259)}, {bytes([b]) for b in range(256)})
        for merge in self.document["model"]["merges"]:
            left, right = merge.split(" ")
            self.assertIn(left + right, vocab)

    def test_the_splits_are_those_of_the_released_file_character_for_character(self):
        steps = self.document["pre_tokenizer"]["pretokenizers"]
        self.assertEqual(steps[0]["pattern"]["Regex"], "\\p{N}{1,3}")
        self.assertEqual(steps[2]["pattern"]["Regex"], (
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"))
        self.assertEqual((steps[3]["type"], steps[3]["use_regex"], steps[3]["add_prefix_space"]), ("ByteLevel", False, False))

    def test_numbers_are_single_digits(self):
        self.assertEqual(len(self.tokenizer.encode("1234567")), 7)

    def test_decode_undoes_encode(self):
        texts = ["", " ", "Hello  world\r\n\n", "größer 你好 🙂👋 нет", "a" * 5000, "=" * 3001, "\x00\x01\u0301é"]
        texts += [case["text"] for case in golden("pretokenize.json")["cases"]]
        for text in texts:
            self.assertEqual(self.tokenizer.decode(self.tokenizer.encode(text)), text)

    def test_a_long_piece_gets_the_ids_of_the_plain_quadratic_merge(self):
        ranks = self.tokenizer._ranks
        for text in ("aaaaaaaaaaaab" * 9, "international" * 5, "thethethe" * 7):
            ids = [self.tokenizer._byte_ids[byte] for byte in text.encode()]
            while True:
                found = [(ranks[pair][0], k) for k, pair in enumerate(zip(ids, ids[1:])) if pair in ranks]
                if not found:
                    break
                rank, k = min(found)
                ids[k : k + 2] = [ranks[(ids[k], ids[k + 1])][1]]
            self.assertEqual(self.tokenizer.encode(text), ids)

    def test_text_that_spells_a_special_token_stays_text(self):
        ids = self.tokenizer.encode("</think><｜User｜>｜DSML｜")
        self.assertFalse(set(ids) & set(self.tokenizer.added.values()))

    def test_a_lone_surrogate_counts_as_the_replacement_character(self):
        self.assertEqual(self.tokenizer.encode("a\ud83d b"), self.tokenizer.encode("a\ufffd b"))


if __name__ == "__main__":
    unittest.main()
