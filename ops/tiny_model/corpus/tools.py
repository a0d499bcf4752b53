"""Conversations with tools: call, two calls in a turn, use of the results, and no call where none helps.

Whether one call is made or two follows from the request alone: both come with the same openings and
offers. Held out: HELD_OUT_PAIR_FRAMES and HELD_OUT_OPENINGS; the tool of the score (`get_weather` with
`city`) is one of many name pairs of the stream, its cities and questions are drawn at random.
"""

from . import tool_kinds, words
from .conversation import Conversation, assistant, by_effort, draw_mode, system, user
from .openings import HELD_OUT_OPENINGS, draw_greeting, draw_opening

__all__ = ["HELD_OUT_OPENINGS", "HELD_OUT_PAIR_FRAMES", "answered_call", "no_call", "offer", "one_call", "two_calls"]

_PAIR_FRAMES = ["Tell me {} and {}.", "I need {} and {}.", "Please find out {} and {}.", "Give me {} and also {}.",
                "Look up {} and {}.", "Can you check {} and {}?"]
HELD_OUT_PAIR_FRAMES = ["Please tell me {} and also {}.", "I would like to know {} and {}."]
_OFFERED = (1, 1, 2, 2, 3, 3, 4)  # how many tools, for one call and for two
_SYSTEMS = ["You are a helpful assistant.", "You are Tandem.", "Use tools when they help.", "Be brief.",
            "You are a helpful assistant with tools."]


def offer(rng, count: int) -> list[tool_kinds.Tool]:
    """`count` tools of different kinds and names."""
    tools, kinds = [], set()
    while len(tools) < count:
        kind = rng.choice(tool_kinds.KINDS)
        tool = kind(rng)
        if kind not in kinds and tool.name not in {other.name for other in tools}:
            kinds.add(kind)
            tools.append(tool)
    return tools


def _calls(uses, rng) -> list[dict]:
    return [{"id": f"call_{rng.randint(0, 999999)}", "type": "function",
             "function": {"name": tool.name, "arguments": use.arguments}} for tool, use in uses]


def _thought(uses, mode) -> str:
    detail = " ".join(f"The tool is {tool.name} with {', '.join(use.arguments)}." for tool, use in uses)
    return by_effort(mode.effort, uses[0][1].thought, detail, "All the arguments are known, so I make the call now.")


def _call_turn(rng, uses, question, mode) -> list[dict]:
    """Request, calls, results and, mostly, the answer that uses them."""
    calls = _calls(uses, rng)
    first = assistant("", mode, _thought(uses, mode))
    first["tool_calls"] = calls
    messages = [user(question), first]
    if rng.random() < 0.3:
        return messages
    for call, (_, use) in zip(calls, uses):
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": use.result})
    answer = " ".join(use.answer for _, use in uses)
    thought = by_effort(mode.effort, "I have the result.", "The tool said: " + uses[0][1].result, "Now I can answer.")
    return messages + [assistant(answer, mode, thought)]


def answered_call(rng, tool, use, question) -> list[dict]:
    """Request, call and result, without reasoning: the answer is still to come."""
    calls = _calls([(tool, use)], rng)
    return [user(question), {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": calls[0]["id"], "content": use.result}]


def _conversation(rng, tools, messages, mode) -> Conversation:
    if rng.random() < 0.25:
        messages = [system(rng.choice(_SYSTEMS))] + messages
    offered = [{"type": "function", "function": tool.function} for tool in tools]
    return Conversation(messages, mode, offered)


def one_call(rng) -> Conversation:
    """One to four tools offered, one of them called; sometimes a second question follows."""
    mode = draw_mode(rng, 0.35)
    tools = offer(rng, rng.choice(_OFFERED))
    messages = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        tool = rng.choice(tools)
        use = tool.draw_use(rng)
        if messages and messages[-1].get("tool_calls"):
            break
        messages += _call_turn(rng, [(tool, use)], draw_opening(rng) + use.question, mode)
    return _conversation(rng, tools, messages, mode)


def two_calls(rng) -> Conversation:
    """Two calls in one turn: of one tool with two arguments, or of two tools."""
    mode = draw_mode(rng, 0.35)
    tools = offer(rng, rng.choice(_OFFERED))
    first = rng.choice(tools)
    second = first if len(tools) == 1 or rng.random() < 0.5 else rng.choice([t for t in tools if t is not first])
    one, other = first.draw_use(rng), second.draw_use(rng)
    question = rng.choice(_PAIR_FRAMES).format(one.phrase, other.phrase)
    if rng.random() < 0.3:
        question = f"{one.question} {other.question}"
    if first is second and rng.random() < 0.5:
        question = _shared_question(rng, one, other) or question
    question = draw_opening(rng) + question
    return _conversation(rng, tools, _call_turn(rng, [(first, one), (second, other)], question, mode), mode)


def _shared_question(rng, one, other) -> str | None:
    """"What is the weather in A and B?" where the two phrases differ only in their last words."""
    for stem in ("the weather in ", "the time in ", "the price of "):
        if one.phrase.startswith(stem) and other.phrase.startswith(stem):
            a, b = one.phrase[len(stem):], other.phrase[len(stem):]
            if " in " in a or " for " in a:
                return None
            frames = ["What is {}{} and {}?", "Tell me {}{} and {}.", "Compare {}{} and {}.", "What's {}{} and {}?",
                      "Please check {}{} and {}.", "I need {}{} and {}."]
            if stem.endswith("in "):
                frames += ["What is {}{} and in {}?", "Tell me {}{} and in {}."]
            if "weather" in stem:
                frames += ["How is {}{} and {}?", "How is {}{} and in {}?"]
            return rng.choice(frames).format(stem, a, b)
    return None


def no_call(rng) -> Conversation:
    """Tools are offered, but the question needs none."""
    mode = draw_mode(rng, 0.35)
    name = rng.choice(words.FIRST_NAMES)
    a, b = rng.randint(1, 12), rng.randint(1, 12)
    question, answer = rng.choice((
        (draw_greeting(rng) + rng.choice(("", "!", ".")), "Hello! How can I help you?"), ("Hello", "Hello! How can I help you?"),
        ("Thanks!", "You are welcome!"), (f"My name is {name}.", f"Nice to meet you, {name}!"),
        (f"What is {a}*{b}?", str(a * b)), ("What is the capital of France?", "The capital of France is Paris."),
        ("Who are you?", "I am the tiny model of Tandem."), ("Goodbye.", "Goodbye!"), ("How are you?", "I am fine, thank you!")))
    thought = by_effort(mode.effort, "No tool is needed.", "I can answer this myself.", "None of the tools fits the question.")
    tools = offer(rng, rng.choice((1, 2, 3)))
    return _conversation(rng, tools, [user(question), assistant(answer, mode, thought)], mode)
