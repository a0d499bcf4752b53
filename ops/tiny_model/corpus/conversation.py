"""One training conversation and how reasoning follows the effort.

Every generator returns a Conversation: OpenAI-style messages whose assistant turns are the targets.
The one rule that all generators share lives here: the effort decides how much is written inside
<think>, in four steps, so that a reader sees the difference.
"""

import json
from dataclasses import dataclass, field

from .chat import EFFORTS, ChatOptions, encode_chat, segment_ids


@dataclass
class Mode:
    """How the answer is to be given: with reasoning or without, and how much of it."""

    thinking: bool
    effort: int


@dataclass
class Conversation:
    """Messages in the HTTP API's shape; assistant messages are what the model learns to write."""

    messages: list[dict]
    mode: Mode
    tools: list[dict] | None = None
    schema: dict | None = None
    keep_thinking: bool = False
    task: str = field(default="", compare=False)

    def options(self, open_turn: bool = False) -> ChatOptions:
        """What the encoder needs to know besides the messages."""
        return ChatOptions(self.mode.thinking, self.mode.effort, self.tools, self.schema, self.keep_thinking,
                           open_turn=open_turn)

    def texts(self) -> list[str]:
        """Everything that a reader of the conversation sees: what is said, thought, called and answered."""
        parts = [message.get(key) for message in self.messages for key in ("content", "reasoning_content")]
        calls = [call["function"]["arguments"] for message in self.messages for call in message.get("tool_calls", [])]
        return [part if isinstance(part, str) else json.dumps(part) for part in parts + calls if part]

    def ids(self, tokenizer) -> tuple[list[int], list[int]]:
        """Token ids and mask: 1 where the model has to produce the token itself."""
        return segment_ids(encode_chat(self.messages, self.options()), tokenizer)


def draw_mode(rng, thinking_share: float = 0.45) -> Mode:
    """Thinking on or off; efforts are mostly the three named ones, else any number from 1 to 100."""
    if rng.random() >= thinking_share:
        return Mode(False, EFFORTS["high"])
    draw = rng.random()
    if draw < 0.28:
        return Mode(True, EFFORTS["low"])
    if draw < 0.58:
        return Mode(True, EFFORTS["high"])
    if draw < 0.82:
        return Mode(True, EFFORTS["max"])
    return Mode(True, rng.randint(1, 100))


def by_effort(effort: int, brief: str, detail: str, check: str) -> str:
    """Reasoning text: below 63 the brief line, from 63 on the details too, from 90 on a check at the end."""
    lines = [brief]
    if effort >= 63 and detail:
        lines.append(detail)
    if effort >= 90 and check:
        lines.append(check)
    return "\n".join(lines)


def user(text: str) -> dict:
    """A user message."""
    return {"role": "user", "content": text}


def system(text: str) -> dict:
    """A system message."""
    return {"role": "system", "content": text}


def assistant(text: str, mode: Mode, reasoning: str = "") -> dict:
    """An answer; the reasoning is kept only where the mode shows it."""
    message = {"role": "assistant", "content": text}
    if mode.thinking:
        message["reasoning_content"] = reasoning
    return message


def exchange(question: str, answer: str, mode: Mode, reasoning: str = "") -> list[dict]:
    """One question and its answer."""
    return [user(question), assistant(answer, mode, reasoning)]
