"""Messages to prompt segments: DeepSeek-V4.1's conversation format.

A prompt is a list of segments; each is markup (one token, looked up by name) or plain text that is
never searched for markup. What this file does not do: check roles, resolve switches of an HTTP
request, or images. The server refuses bad requests; training text has none.

Invariant: segments of the same conversation joined as strings are the format's exact text, and a
training target (`is_output`) changes only at markup, so masks never cut a BPE piece.
"""

import json
from dataclasses import dataclass
from typing import NamedTuple

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
SYSTEM = "<｜System｜>"
USER = "<｜User｜>"
ASSISTANT = "<｜Assistant｜>"
REMINDER = "<｜latest_reminder｜>"
THINK = "<think>"
END_THINK = "</think>"
DSML = "｜DSML｜"

EFFORTS = {"low": 50, "high": 75, "max": 100}

_EFFORT_LINE = "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
_SCHEMA_LINE = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
_TOOLS_HEAD = f"""

## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<{DSML} calls>" block like the following:

<{DSML} calls>
<{DSML} invoke name="$TOOL_NAME">
<{DSML} parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{DSML} parameter>
...
</{DSML} invoke>
<{DSML} invoke name="$TOOL_NAME2">
...
</{DSML} invoke>
</{DSML} calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

"""
_TOOLS_TAIL = "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n"
_TASK_TOKENS = {name: f"<｜{name}｜>" for name in ("title", "query", "authority", "domain", "read_url", "action")}


class Segment(NamedTuple):
    """One run of a prompt. Markup is exactly one token."""

    text: str
    is_markup: bool
    is_output: bool = False  # written by the model: a training target


@dataclass
class ChatOptions:
    """What besides the messages shapes a prompt."""

    thinking: bool = True
    effort: int = EFFORTS["high"]
    tools: list | None = None  # of {"type": "function", "function": {...}}
    schema: dict | None = None  # JSON schema of the response format
    keep_thinking: bool = False  # chat_template_kwargs.drop_thinking is false
    continue_final: bool = False  # the last assistant message goes on: no end token, no header
    open_turn: bool = True  # write the header of the answer to come; false for training text


def json_text(value) -> str:
    """JSON as the prompt writes it: keys as they came, `, ` and `: `, no ASCII escaping."""
    return json.dumps(value, ensure_ascii=False)


def encode_chat(messages: list[dict], options: ChatOptions) -> list[Segment]:
    """The prompt of a conversation as segments, neighbouring plain text of one kind joined."""
    return _Encoder(_normalise(messages, options), options).run()


def prompt_text(segments: list[Segment]) -> str:
    """The prompt as one string, the way the published encoder returns it."""
    return "".join(segment.text for segment in segments)


def segment_ids(segments: list[Segment], tokenizer) -> tuple[list[int], list[int]]:
    """Token ids and, for each, 1 where the model itself has to produce it."""
    ids, mask = [], []
    for segment in segments:
        new = [tokenizer.special(segment.text)] if segment.is_markup else tokenizer.encode(segment.text)
        ids += new
        mask += [int(segment.is_output)] * len(new)
    return ids, mask


def parse_arguments(arguments) -> dict:
    """Arguments of a call as an object; anything else becomes one parameter named `arguments`."""
    value = arguments
    for _ in range(2):
        if not isinstance(value, str):
            break
        if value == "":
            return {}
        try:
            value = json.loads(value)
        except ValueError:
            break
    return value if isinstance(value, dict) else {"arguments": arguments}


class _Encoder:
    """Writes the turns of one normalised conversation."""

    def __init__(self, turns: list[dict], options: ChatOptions):
        self._turns, self._options = turns, options
        self._keep_all = bool(options.tools) or options.keep_thinking
        self._last_user = max(
            (i for i, turn in enumerate(turns) if turn["role"] == "user" or (turn["role"] == "system" and i > 0)),
            default=-1,
        )
        self._segments: list[Segment] = []

    def run(self) -> list[Segment]:
        self._markup(BOS)
        if self._options.thinking or self._turns[0]["role"] == "system":
            self._markup(SYSTEM)
        if self._options.thinking:
            self._text(_EFFORT_LINE.format(self._options.effort))
        if self._turns[0]["role"] == "assistant":
            self._header(-1)
        for i, turn in enumerate(self._turns):
            getattr(self, "_" + turn["role"])(i, turn)
            is_last = i + 1 == len(self._turns)
            if self._options.continue_final and is_last:
                break
            opens = self._options.open_turn if is_last else self._turns[i + 1]["role"] == "assistant"
            if opens:
                self._header(i)
        return self._segments

    def _system(self, i: int, turn: dict) -> None:
        if i > 0:
            self._markup(SYSTEM)
        self._text(turn["text"])
        if i == 0 and self._options.tools:
            for k, part in enumerate(_split_markup(_TOOLS_HEAD)):
                self._markup(part) if k % 2 else self._text(part)
            self._text("\n".join(json_text(tool) for tool in tool_functions(self._options.tools)) + _TOOLS_TAIL)
        if i == 0 and self._options.schema is not None:
            self._text(_SCHEMA_LINE + json_text(self._options.schema))

    def _user(self, i: int, turn: dict) -> None:
        self._markup(USER)
        self._text("\n\n".join(turn["blocks"]))

    def _latest_reminder(self, i: int, turn: dict) -> None:
        self._markup(REMINDER)
        self._text(turn["text"])

    def _assistant(self, i: int, turn: dict) -> None:
        if self._options.thinking and (self._keep_all or i > self._last_user):
            self._text(turn["reasoning"], True)
            unfinished = self._options.continue_final and i + 1 == len(self._turns)
            if not (unfinished and turn["reasoning"] and not turn["text"] and not turn["calls"]):
                self._markup(END_THINK, True)
        self._text(turn["text"], True)
        if turn["calls"]:
            self._calls(turn["calls"])
        if not (self._options.continue_final and i + 1 == len(self._turns)):
            self._markup(EOS, True)

    def _calls(self, calls: list[tuple[str, dict]]) -> None:
        self._tag("\n\n<", " calls>\n")
        for k, (name, arguments) in enumerate(calls):
            self._tag("\n<" if k else "<", f' invoke name="{name}">\n')
            for n, (key, value) in enumerate(arguments.items()):
                is_string = isinstance(value, str)
                shown = value if is_string else json_text(value)
                kind = "true" if is_string else "false"
                self._tag("\n<" if n else "<", f' parameter name="{key}" string="{kind}">{shown}')
                self._tag("</", " parameter>")
            self._tag("\n</", " invoke>")
        self._tag("\n</", " calls>")

    def _header(self, i: int) -> None:
        task = self._turns[i].get("task") if i >= 0 else None
        if task and task != "action":
            self._markup(_TASK_TOKENS[task])
            return
        self._markup(ASSISTANT)
        thinks = self._options.thinking and (self._keep_all or i >= self._last_user) and i >= 0
        self._markup(THINK if thinks else END_THINK)
        if task:
            self._markup(_TASK_TOKENS[task])

    def _tag(self, before: str, after: str) -> None:
        self._text(before, True)
        self._markup(DSML, True)
        self._text(after, True)

    def _markup(self, name: str, is_output: bool = False) -> None:
        self._segments.append(Segment(name, True, is_output))

    def _text(self, text: str, is_output: bool = False) -> None:
        if not text:
            return
        last = self._segments[-1]
        if last.is_markup or last.is_output != is_output:
            self._segments.append(Segment(text, False, is_output))
        else:
            self._segments[-1] = Segment(last.text + text, False, is_output)


def _split_markup(text: str) -> list[str]:
    """Plain text at even places, markup at odd ones, for our own fixed texts."""
    parts = [text]
    for name in (DSML, THINK, END_THINK):
        cut = []
        for k, part in enumerate(parts):
            if k % 2:
                cut.append(part)
                continue
            pieces = part.split(name)
            for n, piece in enumerate(pieces):
                cut += ([name] if n else []) + [piece]
        parts = cut
    return parts


def _normalise(messages: list[dict], options: ChatOptions) -> list[dict]:
    """Turns with merged user blocks, sorted results, joined content parts and parsed calls."""
    turns: list[dict] = []
    call_order: dict[str, int] = {}
    for message in messages:
        role = {"developer": "system", "function": "tool"}.get(message["role"], message["role"])
        text = _content_text(message.get("content"))
        if role in ("user", "tool"):
            key = call_order.get(message.get("tool_call_id"), 0) if role == "tool" else None
            block = f"<tool_result>{text}</tool_result>" if role == "tool" else text
            if turns and turns[-1]["role"] == "user" and not turns[-1]["task"] and not message.get("task"):
                turns[-1]["raw"].append((key, block))
            else:
                turns.append({"role": "user", "raw": [(key, block)], "task": message.get("task")})
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if calls:
                call_order = {call.get("id"): k for k, call in enumerate(calls)}
            reasoning = next(
                (message[k] for k in ("reasoning_content", "reasoning", "reasoning_text") if message.get(k)), "")
            turns.append({"role": role, "text": text, "reasoning": reasoning,
                          "calls": [(_qualified(c), parse_arguments(c["function"]["arguments"])) for c in calls]})
        else:
            turns.append({"role": role, "text": text})
    for turn in turns:
        if turn["role"] == "user":
            turn["blocks"] = _sorted_blocks(turn.pop("raw"))
    if (options.tools or options.schema is not None) and turns[0]["role"] != "system":
        turns.insert(0, {"role": "system", "text": ""})
    return turns


def _sorted_blocks(blocks: list[tuple]) -> list[str]:
    """Result blocks in the order of their calls, in the places where results stood."""
    results = iter(sorted((b for b in blocks if b[0] is not None), key=lambda block: block[0]))
    return [text if key is None else next(results)[1] for key, text in blocks]


def _content_text(content) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n\n".join(part.get("text", part.get("refusal", "")) for part in content)


def _qualified(call: dict) -> str:
    namespace, name = call.get("namespace"), call["function"]["name"]
    return f"{namespace}::{name}" if namespace and "::" not in name else name


def tool_functions(tools: list[dict]) -> list[dict]:
    """The `function` objects that the prompt shows, names qualified by their namespace."""
    functions = []
    for tool in tools:
        function = dict(tool.get("function", tool))
        namespace = tool.get("namespace") or function.pop("namespace", None)
        function.pop("cache_control", None)
        if namespace:
            space = namespace if isinstance(namespace, dict) else {"name": namespace}
            if "::" not in function["name"]:
                function["name"] = f"{space['name']}::{function['name']}"
            if space.get("description"):
                about = space["description"] + "\n" + function.get("description", "")
                function = {"name": function.pop("name"), "description": about,
                            **{k: v for k, v in function.items() if k != "description"}}
        functions.append(function)
    return functions
