"""The training side's prompt encoder against the golden prompts, and the training masks."""

import unittest

from paths import ROOT, golden

from ops.tiny_model import corpus
from ops.tiny_model.corpus import ChatOptions, encode_chat, prompt_text, segment_ids

_EFFORTS = {"minimal": 25, "low": 50, "medium": 62, "high": 75, "xhigh": 90, "max": 100}


def options_of(request: dict) -> ChatOptions:
    """The switches of an HTTP request, as far as golden requests use them."""
    kwargs, reasoning = request.get("chat_template_kwargs", {}), request.get("reasoning") or {}
    effort = kwargs.get("reasoning_effort") or request.get("reasoning_effort") or reasoning.get("effort") or 75
    thinking = True
    if "thinking" in kwargs or "enable_thinking" in kwargs:
        thinking = bool(kwargs.get("thinking") or kwargs.get("enable_thinking"))
    elif "thinking" in request:
        thinking = request["thinking"]["type"] == "enabled"
    if effort == "none":
        thinking, effort = False, 75
    last, form = request["messages"][-1], request.get("response_format", {})
    return ChatOptions(thinking, _EFFORTS.get(effort, effort), request.get("tools"),
                       form.get("json_schema", {}).get("schema"), kwargs.get("drop_thinking") is False,
                       bool(request.get("continue_final_message") or last.get("prefix") or last.get("wo_eos")))


class Prompts(unittest.TestCase):
    def test_every_golden_request_gives_the_golden_prompt(self):
        cases = [case for case in golden("encode.json")["cases"] if "prompt" in case]
        self.assertGreater(len(cases), 50)
        for case in cases:
            with self.subTest(case["name"]):
                segments = encode_chat(case["request"]["messages"], options_of(case["request"]))
                self.assertEqual(prompt_text(segments), case["prompt"])

    def test_neighbouring_plain_texts_are_one_segment(self):
        segments = encode_chat([{"role": "system", "content": "  indented"}, {"role": "user", "content": "x"}], ChatOptions())
        plain = [segment.is_markup for segment in segments]
        self.assertNotIn((False, False), list(zip(plain, plain[1:])))


class Masks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = corpus.load_tokenizer(ROOT / "configs/tiny/tokenizer.json")

    def trained_text(self, messages, **switches) -> str:
        segments = encode_chat(messages, ChatOptions(open_turn=False, **switches))
        ids, mask = segment_ids(segments, self.tokenizer)
        return self.tokenizer.decode([i for i, wanted in zip(ids, mask) if wanted], with_special=True)

    def test_an_answer_is_trained_with_its_end_and_without_its_header(self):
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        self.assertEqual(self.trained_text(messages, thinking=False), "a<｜end▁of▁sentence｜>")

    def test_reasoning_is_trained_with_its_closing_tag(self):
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "r"}]
        self.assertEqual(self.trained_text(messages), "r</think>a<｜end▁of▁sentence｜>")

    def test_a_call_is_trained_and_its_result_is_not(self):
        call = {"id": "c", "function": {"name": "f", "arguments": {"x": 1}}}
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c", "content": "SECRET"}, {"role": "assistant", "content": "done"}]
        text = self.trained_text(messages, thinking=False, tools=[{"function": {"name": "f"}}])
        self.assertIn('invoke name="f"', text)
        self.assertNotIn("SECRET", text)


if __name__ == "__main__":
    unittest.main()
