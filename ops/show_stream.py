"""Reads a streamed chat completion (server-sent events) from stdin and shows it as it comes, the reasoning first.

Exits 1 with a message unless an answer came and the stream ended as the protocol says.
"""

import json
import sys

TITLES = {"reasoning_content": "  thinks: ", "content": "  answers: "}


def deltas(lines):
    """Yields (kind, text) for every piece; returns quietly at the end mark."""
    for line in lines:
        if line.startswith("{"):  # an error that came before the stream began
            raise ValueError(json.loads(line)["error"]["message"])
        if not line.startswith("data: "):
            continue
        data = line[len("data: "):].strip()
        if data == "[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            raise ValueError(event["error"]["message"])
        for choice in event["choices"]:
            for kind in TITLES:
                if text := choice["delta"].get(kind):
                    yield kind, text
    raise ValueError("the stream broke off")


def show(lines):
    """Prints the pieces as they come; returns whether a visible answer was among them."""
    current = None
    for kind, text in deltas(lines):
        if kind != current:
            print("\n" * (current is not None) + TITLES[kind], end="")
            current = kind
        print(text, end="", flush=True)
    print()
    return current == "content"


if __name__ == "__main__":
    try:
        sys.exit(0 if show(sys.stdin) else "quickstart: the stream held no answer")
    except (ValueError, KeyError) as error:
        sys.exit(f"\nquickstart: {error}")
