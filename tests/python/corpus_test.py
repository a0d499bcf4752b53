"""The stream of training samples and the held-out questions: deterministic, bounded, truly held out."""

import itertools
import json
import random
import re
import unittest

from paths import ROOT

from ops.tiny_model import corpus
from ops.tiny_model.corpus import arithmetic, evaluation, json_answers, mixture, recall, stories, talk, tool_kinds, tools, words
from ops.tiny_model.corpus.chat import parse_arguments


def take(seed: int, count: int) -> list:
    return list(itertools.islice(corpus.conversations(seed), count))


def form_pattern(form: str) -> re.Pattern:
    """Finds a form anywhere in a message, also behind an opening: {a} and {b} are numbers, other fields any text."""
    parts = re.split(r"\{([a-z]*)\}", form)
    fields = [r"\d+" if name in ("a", "b") else ".+" for name in parts[1::2]] + [""]
    return re.compile("".join(re.escape(text) + field for text, field in zip(parts[::2], fields)))


class Stream(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = corpus.load_tokenizer(ROOT / "configs/tiny/tokenizer.json")

    def test_the_same_seed_gives_the_same_samples_and_another_seed_others(self):
        draw = lambda seed: list(itertools.islice(corpus.stream(seed, self.tokenizer, 512), 60))
        self.assertEqual(draw(3), draw(3))
        self.assertNotEqual(draw(3), draw(4))

    def test_samples_start_with_begin_fit_the_length_and_train_something_last(self):
        for ids, mask in itertools.islice(corpus.stream(1, self.tokenizer, 700), 1500):
            self.assertEqual(ids[0], 0)
            self.assertLessEqual(len(ids), 700)
            self.assertEqual(len(ids), len(mask))
            self.assertEqual((ids[-1], mask[-1]), (1, 1))

    def test_every_task_is_drawn_and_the_long_end_of_the_context_is_reached(self):
        seen, longest = set(), 0
        for conversation in take(2, 6000):
            seen.add(conversation.task)
            longest = max(longest, len(conversation.ids(self.tokenizer)[0]))
        self.assertEqual(seen, {mixture.task_name(task) for task in mixture.WEIGHTS})
        self.assertGreater(longest, 3200)

    def test_more_effort_never_means_less_reasoning(self):
        for a, b in ((17, 19), (3, 4), (20, 20), (1, 9), (12, 10)):
            for reasoning in (arithmetic.product_reasoning, arithmetic.sum_reasoning):
                lengths = [len(reasoning(a, b, effort)) for effort in (1, 50, 75, 100)]
                self.assertEqual(lengths, sorted(lengths))
                self.assertLess(lengths[1] * 1.5, lengths[2])

    def test_worked_reasoning_is_right(self):
        for conversation in take(8, 3000):
            if conversation.task in ("arithmetic.product", "arithmetic.total") and conversation.mode.thinking:
                for line in conversation.messages[-1]["reasoning_content"].replace(". ", ".\n").splitlines():
                    left, _, right = line.rstrip(".").partition(" = ")
                    if right and all(char in "0123456789 +*-" for char in left + right):
                        self.assertEqual(eval(left), eval(right), line)

    def test_calls_obey_the_offered_schema(self):
        kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
        checked = 0
        for conversation in take(11, 3000):
            schemas = {t["function"]["name"]: t["function"]["parameters"] for t in conversation.tools or []}
            for message in conversation.messages:
                for call in message.get("tool_calls", []):
                    arguments = parse_arguments(call["function"]["arguments"])
                    schema = schemas[call["function"]["name"]]
                    self.assertLessEqual(set(schema["required"]), set(arguments))
                    for key, value in arguments.items():
                        self.assertIsInstance(value, kinds[schema["properties"][key]["type"]])
                    checked += 1
        self.assertGreater(checked, 300)


class Askable(unittest.TestCase):
    """A question that does not say what it wants would teach guessing."""

    def test_every_argument_of_a_use_is_spoken_in_its_question_and_in_its_phrase(self):
        rng = random.Random(12)
        for kind in set(tool_kinds.KINDS) - {tool_kinds.light}:
            for _ in range(150):
                use = kind(rng).draw_use(rng)
                for value in use.arguments.values():
                    shown = value if isinstance(value, str) else json.dumps(value)
                    for text in (use.question, use.phrase):
                        spoken = text.replace(" times ", " * ").replace(" plus ", " + ").replace(" minus ", " - ")
                        self.assertIn(shown, spoken, kind.__name__)

    def test_every_value_of_an_answer_stands_in_its_result_or_question(self):
        rng = random.Random(13)
        for kind in set(tool_kinds.KINDS):
            for _ in range(150):
                use = kind(rng).draw_use(rng)
                for value in evaluation.result_values(use.result):
                    self.assertIn(value, use.answer, kind.__name__)

    def test_the_needle_stands_once_at_its_depth(self):
        for item in corpus.eval_items("needles"):
            text = item.body["messages"][0]["content"]
            self.assertEqual(text.count("The secret code for"), 1)
            share = 100 * text.index("The secret code for") / len(text)
            low, high = (int(part) for part in item.group.rstrip(" %").split("-"))
            self.assertTrue(low - 3 <= share <= high + 3, (item.group, share))


class HeldOut(unittest.TestCase):
    def test_the_stream_shows_no_held_out_phrasing(self):
        exact = set(talk.HELD_OUT_GREETINGS) | set(talk.HELD_OUT_TANDEM_QUESTIONS)
        forms = arithmetic.HELD_OUT_PRODUCT_FORMS + arithmetic.HELD_OUT_SUM_FORMS + tools.HELD_OUT_PAIR_FRAMES
        forms += json_answers.HELD_OUT_FRAMES + [text for text in arithmetic.HELD_OUT_REQUESTS if text]
        held_out = [form_pattern(form) for form in forms]
        stems = set(tools.HELD_OUT_OPENINGS) | {frame.split("{")[0] for frame in recall.HELD_OUT_QUESTIONS}
        for conversation in take(21, 8000):
            for message in conversation.messages:
                if message["role"] == "user":
                    self.assertNotIn(message["content"], exact)
                    self.assertFalse(message["content"].startswith(tuple(stems)), message["content"][:80])
                    for form in held_out:
                        self.assertIsNone(form.search(message["content"]), message["content"][:200])

    def test_the_stream_shows_no_held_out_sum_in_any_text(self):
        """Also not inside the working of another problem: "Check: 38 + 41 = 79"."""
        written = re.compile(r"(?<!\d)(\d+)\s*(?:\+|plus)\s*(\d+)(?!\d)", re.IGNORECASE)
        shown = 0
        for conversation in take(31, 5000):
            whole = json.dumps(conversation.messages, ensure_ascii=False).replace("\\n", "\n")
            for a, b in written.findall(whole):
                shown += 1
                self.assertFalse(arithmetic.is_held_out_sum(int(a), int(b)), (conversation.task, a, b))
        self.assertGreater(shown, 1000)

    def test_working_that_shows_a_held_out_sum_is_recognised(self):
        for text in ("Check: 38 + 41 = 79", "41+38 = 79.", "Ones: 2 + 3 = 5", "38 Plus 41"):
            self.assertTrue(arithmetic.shows_held_out_sum(text), text)
        for text in ("38 + 42 = 80", "138 + 4100", "38 * 41", "38 41"):
            self.assertFalse(arithmetic.shows_held_out_sum(text), text)

    def test_held_out_sums_are_two_per_cent_and_never_drawn(self):
        share = sum(arithmetic.is_held_out_sum(a, b) for a in range(100) for b in range(100)) / 10_000
        self.assertTrue(0.01 < share < 0.03)
        rng = random.Random(6)
        for _ in range(4000):
            digits = "".join(c if c.isdigit() else " " for c in arithmetic.total(rng).messages[0]["content"]).split()
            self.assertFalse(arithmetic.is_held_out_sum(int(digits[0]), int(digits[1])))

    def test_every_item_has_a_right_answer_and_refuses_an_empty_one(self):
        for kind in corpus.KINDS:
            for item in corpus.eval_items(kind):
                self.assertEqual(item.kind, kind)
                self.assertFalse(item.check(corpus.Reply()))
        self.assertTrue(corpus.eval_items("literal")[0].check(corpus.Reply("323")))
        self.assertFalse(corpus.eval_items("literal")[1].check(corpus.Reply("323")))
        self.assertTrue(corpus.eval_items("literal")[1].check(corpus.Reply("323", "17*19 = 323.")))

    def test_a_prompt_writes_the_effort_as_its_number(self):
        low = next(item for item in corpus.eval_items("reasoning") if item.group == "low")
        self.assertIn("Reasoning Effort: 50 ", corpus.prompt_text(low.prompt()))

    def test_items_are_the_same_every_time(self):
        bodies = lambda: [item.body for kind in corpus.KINDS for item in corpus.eval_items(kind)]
        self.assertEqual(bodies(), bodies())

    def test_a_call_written_as_trained_passes_its_check(self):
        tokenizer = corpus.load_tokenizer(ROOT / "configs/tiny/tokenizer.json")
        rng = random.Random(3)
        tool = tool_kinds.convert(rng)
        use = tool.draw_use(rng)
        messages = tools.answered_call(rng, tool, use, use.question)[:2]
        offered = [{"type": "function", "function": tool.function}]
        ids, mask = corpus.segment_ids(corpus.encode_chat(messages, corpus.ChatOptions(False, tools=offered, open_turn=False)), tokenizer)
        reply = corpus.reply_of_ids([i for i, wanted in zip(ids, mask) if wanted], tokenizer, False)
        self.assertEqual([(name, json.loads(text)) for name, text in reply.calls], [(tool.name, use.arguments)])
        self.assertEqual((reply.content, reply.finish_reason), ("", "tool_calls"))

    def test_result_values_are_the_ones_that_an_answer_must_hold(self):
        self.assertEqual(evaluation.result_values('{"temp": 31, "sky": "sunny"}'), ["31", "sunny"])
        self.assertEqual(evaluation.result_values("temp: 31, sky: sunny"), ["31", "sunny"])
        self.assertEqual(evaluation.result_values("12:24"), ["12:24"])
        self.assertEqual(evaluation.result_values('{"status": "sent"}'), [])
        self.assertEqual(evaluation.result_values("ok"), [])


class Words(unittest.TestCase):
    def test_plurals_and_number_words(self):
        self.assertEqual([words.plural(w) for w in ("box", "story", "day", "child", "cat")],
                         ["boxes", "stories", "days", "children", "cats"])
        self.assertEqual([words.count_word(n) for n in (0, 20, 21, 90, 99)],
                         ["zero", "twenty", "twenty-one", "ninety", "ninety-nine"])

    def test_a_story_follows_from_its_request(self):
        self.assertEqual(stories.story_text("fox", "forest", "lamp", 4), stories.story_text("fox", "forest", "lamp", 4))


if __name__ == "__main__":
    unittest.main()
