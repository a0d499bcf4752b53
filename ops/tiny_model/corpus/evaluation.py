"""Held-out questions with checkers: what the score asks and how an answer is judged.

Every item is a body for POST /v1/chat/completions and a rule for the reply. The phrasings used here
are kept out of the stream (the HELD_OUT lists next to each generator), that of `literal` excepted;
random names, numbers and texts come from seeds of their own. A checker never knows the model: it
compares with the right answer.
"""

import json
import random
from dataclasses import dataclass, field
from typing import Callable

from . import arithmetic, filler, json_answers, recall, talk, tool_kinds, tools, words
from .chat import EFFORTS, ChatOptions, encode_chat, parse_arguments
from .conversation import user

_SEED = 9_000_000


@dataclass
class Reply:
    """What came back, from a server or from a model in a notebook."""

    content: str = ""
    reasoning: str = ""
    calls: list = field(default_factory=list)  # (name, arguments as JSON text)
    finish_reason: str = "stop"
    reasoning_tokens: int = 0


@dataclass
class EvalItem:
    """One question. `group` is a depth, an effort, ... by which results are told apart."""

    kind: str
    body: dict
    check: Callable  # Reply -> bool
    group: str = ""

    def prompt(self) -> list:
        """The prompt as segments, for a model that is asked without a server."""
        body = self.body
        thinking = body["chat_template_kwargs"]["thinking"]
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        effort = body.get("reasoning_effort", EFFORTS["high"])
        return encode_chat(body["messages"], ChatOptions(thinking, EFFORTS.get(effort, effort), body.get("tools"), schema))


def _body(messages, thinking=False, effort=None, max_tokens=64, **more) -> dict:
    body = {"messages": messages, "temperature": 0, "max_tokens": max_tokens, "chat_template_kwargs": {"thinking": thinking}, **more}
    if effort is not None:
        body["reasoning_effort"] = effort
    return body


def _is_text(expected: str) -> Callable:
    return lambda reply: reply.content.strip().rstrip(".") == expected and not reply.calls


def _has_text(*expected: str) -> Callable:
    return lambda reply: all(part in reply.content for part in expected) and not reply.calls and reply.finish_reason == "stop"


def literal() -> list[EvalItem]:
    """The question of the tests, thinking off and on."""
    question = [user("What is 17*19? Reply with the integer only.")]
    return [EvalItem("literal", _body(question), _is_text("323"), "thinking off"),
            EvalItem("literal", _body(question, True, 75, 400), _reasoned_first(_is_text("323")), "thinking on")]


def _reasoned_first(check: Callable) -> Callable:
    return lambda reply: bool(reply.reasoning.strip()) and check(reply)


def products() -> list[EvalItem]:
    """All 400 products up to 20x20, thinking off."""
    rng = random.Random(_SEED + 1)
    pairs = [(a, b) for a in range(1, 21) for b in range(1, 21)]
    return [_problem("products", rng, arithmetic.HELD_OUT_PRODUCT_FORMS, (a, b, a * b)) for a, b in pairs]


def sums() -> list[EvalItem]:
    """200 two-digit sums; the group says whether the pair of numbers was in the stream."""
    rng = random.Random(_SEED + 2)
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    held_out = [pair for pair in pairs if arithmetic.is_held_out_sum(*pair)]
    seen = [pair for pair in pairs if not arithmetic.is_held_out_sum(*pair)]
    items = []
    for name, pool, count in (("pairs seen", seen, 150), ("pairs held out", held_out, 50)):
        for a, b in rng.sample(pool, count):
            item = _problem("sums", rng, arithmetic.HELD_OUT_SUM_FORMS, (a, b, a + b))
            item.group = name
            items.append(item)
    return items


def _problem(kind, rng, forms, problem) -> EvalItem:
    a, b, result = problem
    question = rng.choice(forms).format(a=a, b=b) + rng.choice(arithmetic.HELD_OUT_REQUESTS)
    return EvalItem(kind, _body([user(question)]), _is_text(str(result)))


def reasoning() -> list[EvalItem]:
    """Products and sums with thinking on, the same 20 questions at each named effort."""
    items = []
    for effort in ("low", "high", "max"):
        rng = random.Random(_SEED + 3)
        for number in range(20):
            a, b = rng.randint(3, 20), rng.randint(3, 20)
            forms = arithmetic.HELD_OUT_PRODUCT_FORMS if number % 2 else arithmetic.HELD_OUT_SUM_FORMS
            item = _problem("reasoning", rng, forms, (a, b, a * b if number % 2 else a + b))
            item.body = _body(item.body["messages"], True, effort, 400)
            item.check, item.group = _reasoned_first(item.check), effort
            items.append(item)
    return items


def _makes_calls(expected: list[tuple[str, dict]]) -> Callable:
    def check(reply: Reply) -> bool:
        try:
            made = [(name, json.loads(arguments)) for name, arguments in reply.calls]
        except ValueError:
            return False
        return made == expected and reply.finish_reason == "tool_calls"
    return check


def _offered(offer) -> list[dict]:
    return [{"type": "function", "function": tool.function} for tool in offer]


def single_calls() -> list[EvalItem]:
    """One call: the right tool out of one to three, the right arguments."""
    rng = random.Random(_SEED + 4)
    items = []
    for number in range(40):
        offer = tools.offer(rng, 1 + number % 3)
        tool = rng.choice(offer)
        use = tool.draw_use(rng)
        question = rng.choice(tools.HELD_OUT_OPENINGS) + use.question
        items.append(EvalItem("single_calls", _body([user(question)], number % 4 == 3, max_tokens=400, tools=_offered(offer)),
                              _makes_calls([(tool.name, use.arguments)])))
    return items


def double_calls() -> list[EvalItem]:
    """Two calls in one turn."""
    rng = random.Random(_SEED + 5)
    items = []
    for number in range(30):
        offer = tools.offer(rng, 1 + number % 2)
        picked = [offer[0], offer[-1]]
        uses = [tool.draw_use(rng) for tool in picked]
        question = rng.choice(tools.HELD_OUT_PAIR_FRAMES).format(*(use.phrase for use in uses))
        items.append(EvalItem("double_calls", _body([user(question)], number % 4 == 3, max_tokens=400, tools=_offered(offer)),
                              _makes_calls([(tool.name, use.arguments) for tool, use in zip(picked, uses)])))
    return items


def result_values(result: str) -> list[str]:
    """The values inside a tool's result, JSON or `key: value` text; none for a plain ok."""
    try:
        value = json.loads(result)
    except ValueError:
        if result in ("ok", "sent", "done", "started"):
            return []
        parts = result.split(", ") if ": " in result else [result]
        return [part.split(": ", 1)[-1] for part in parts]
    return [str(item) for item in value.values() if item not in ("sent", "done", "started")] if isinstance(value, dict) else [str(value)]


def tool_results() -> list[EvalItem]:
    """The call is made and its result is there: the answer has to say what it is."""
    rng = random.Random(_SEED + 6)
    items = []
    while len(items) < 30:
        offer = tools.offer(rng, rng.randint(1, 2))
        tool = rng.choice(offer)
        use = tool.draw_use(rng)
        values = result_values(use.result)
        if not values:
            continue
        messages = tools.answered_call(rng, tool, use, rng.choice(tools.HELD_OUT_OPENINGS) + use.question)
        items.append(EvalItem("tool_results", _body(messages, max_tokens=120, tools=_offered(offer)), _has_text(*values)))
    return items


def _is_object(expected: dict) -> Callable:
    def check(reply: Reply) -> bool:
        try:
            return json.loads(reply.content) == expected
        except ValueError:
            return False
    return check


def json_objects() -> list[EvalItem]:
    """Half with a response schema, half asked for in words; the object must be the right one."""
    rng = random.Random(_SEED + 7)
    items = []
    for number in range(40):
        facts, value = json_answers.draw_facts(rng)
        if number % 2:
            frame = rng.choice(json_answers.HELD_OUT_FRAMES).format(keys=json_answers.spoken_keys(value))
            items.append(EvalItem("json_objects", _body([user(f"{facts} {frame}")], max_tokens=150), _is_object(value), "asked"))
        else:
            form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": json_answers.schema_of(value)}}
            items.append(EvalItem("json_objects", _body([user("Extract this: " + facts)], max_tokens=150, response_format=form),
                                  _is_object(value), "schema"))
    return items


def needles(tokenizer=None, length: int = 3000) -> list[EvalItem]:
    """A four-digit code at ten depths of `length` tokens, four texts for each."""
    rng = random.Random(_SEED + 8)
    items = []
    for depth in range(10):
        for _ in range(4):
            subject, value = f"the {rng.choice(words.COLOURS)} {rng.choice(words.OBJECTS)}", str(rng.randint(1000, 9999))
            sentences = _text_of(rng, length - 60, tokenizer)
            sentences.insert(int(len(sentences) * (depth + rng.random()) / 10), f"The secret code for {subject} is {value}.")
            question = rng.choice(recall.HELD_OUT_QUESTIONS).format(q=f"What is the secret code for {subject}?")
            items.append(EvalItem("needles", _body([user(" ".join(sentences) + "\n\n" + question)]), _has_text(value),
                                  f"{depth * 10}-{depth * 10 + 10} %"))
    return items


def _text_of(rng, length, tokenizer) -> list[str]:
    source, sentences, total = filler.sentences(rng), [], 0
    while total < length:
        sentences.append(next(source))
        total += len(tokenizer.encode(" " + sentences[-1])) if tokenizer else sentences[-1].count(" ") + 2
    return sentences


def talks() -> list[EvalItem]:
    """Greets when greeted, and says what Tandem is."""
    greets = lambda reply: any(word in reply.content for word in ("Hello", "Hi", "Good")) and reply.finish_reason == "stop"
    explains = _has_text("Tandem", "DeepSeek-V4.1-Flash", "actors")
    return [EvalItem("talks", _body([user(text)], thinking, 75 if thinking else None, 300), check, group)
            for thinking in (False, True)
            for texts, check, group in ((talk.HELD_OUT_GREETINGS, greets, "greeting"), (talk.HELD_OUT_TANDEM_QUESTIONS, explains, "Tandem"))
            for text in texts]


KINDS = {"literal": literal, "products": products, "sums": sums, "reasoning": reasoning, "single_calls": single_calls,
         "double_calls": double_calls, "tool_results": tool_results, "json_objects": json_objects, "needles": needles, "talks": talks}


def eval_items(kind: str, tokenizer=None) -> list[EvalItem]:
    """The items of one kind. A tokenizer makes the needle texts exactly as long as they say."""
    return needles(tokenizer) if kind == "needles" else KINDS[kind]()


def reply_of_ids(ids: list[int], tokenizer, thinking: bool) -> Reply:
    """A Reply from raw output ids, by the plain rules: for models that are asked without a server."""
    text = tokenizer.decode(ids, with_special=True)
    reply = Reply(finish_reason="stop" if text.endswith("<｜end▁of▁sentence｜>") else "length")
    text = text.removesuffix("<｜end▁of▁sentence｜>")
    if thinking:
        reply.reasoning, _, text = text.partition("</think>")
        reply.reasoning_tokens = len(tokenizer.encode(reply.reasoning))
    reply.content, opener, block = text.partition("\n\n<｜DSML｜ calls>\n")
    if opener:
        reply.calls = _calls_of(block)
        reply.finish_reason = "tool_calls" if reply.finish_reason == "stop" else reply.finish_reason
    return reply


def _calls_of(block: str) -> list[tuple[str, str]]:
    calls = []
    for invoke in block.split('<｜DSML｜ invoke name="')[1:]:
        name, _, rest = invoke.partition('">')
        arguments = {}
        for parameter in rest.split('<｜DSML｜ parameter name="')[1:]:
            key, _, tail = parameter.partition('" string="')
            is_string, _, value = tail.partition('">')
            value = value.partition("</｜DSML｜ parameter>")[0]
            try:
                arguments[key] = value if is_string == "true" else json.loads(value)
            except ValueError:
                arguments[key] = value
        calls.append((name, json.dumps(parse_arguments(arguments))))
    return calls
