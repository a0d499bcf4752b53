"""A minimal OpenAI client over http.client: chat completions, streaming or not, models and metrics.

One connection a request: the score measures answers, not sockets. An HTTP error is raised as
ServerError with the body's message; the caller decides whether that is a wrong answer or the end.
"""

import http.client
import json
from urllib.parse import urlsplit

from ..corpus import Reply


class ServerError(Exception):
    """The server did not answer as the API says: status and message."""


class Client:
    """Requests to one server."""

    def __init__(self, url: str, key: str = "", timeout_s: float = 300):
        parts = urlsplit(url if "//" in url else "http://" + url)
        self._host, self._port = parts.hostname, parts.port or 80
        self._key, self._timeout_s = key, timeout_s
        self.model = ""

    def find_model(self) -> str:
        """The first served model; its name goes into every later request."""
        self.model = json.loads(self._get("/v1/models"))["data"][0]["id"]
        return self.model

    def is_healthy(self) -> bool:
        """Whether /health answers 200 now."""
        try:
            self._get("/health")
        except (OSError, http.client.HTTPException, ServerError):
            return False
        return True

    def metrics(self) -> dict[str, float]:
        """Sums of the Prometheus samples by metric name, labels folded."""
        sums: dict[str, float] = {}
        for line in self._get("/metrics").splitlines():
            if line and not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                name = sample.split("{", 1)[0]
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums

    def chat(self, body: dict, stream: bool) -> Reply:
        """One chat completion."""
        body = {"model": self.model, **body}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        connection, response = self._request("POST", "/v1/chat/completions", body)
        try:
            return _streamed(response) if stream else _whole(json.loads(response.read()))
        finally:
            connection.close()

    def _get(self, path: str) -> str:
        connection, response = self._request("GET", path)
        try:
            return response.read().decode()
        finally:
            connection.close()

    def _request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json"} if body else {}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ServerError(f"{path}: {response.status} {response.read(500).decode(errors='replace')}")
        except BaseException:
            connection.close()
            raise
        return connection, response


def _whole(document: dict) -> Reply:
    choice = document["choices"][0]
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return Reply(message.get("content") or "", message.get("reasoning_content") or message.get("reasoning") or "", calls,
                 choice["finish_reason"], _reasoning_tokens(document.get("usage")))


def _streamed(response) -> Reply:
    reply, calls, is_done = Reply(finish_reason=""), {}, False
    for line in response:
        if not line.startswith(b"data: "):
            continue
        data = line[6:].strip()
        if data == b"[DONE]":
            is_done = True
            break
        chunk = json.loads(data)
        if "error" in chunk:
            raise ServerError(f"error inside a stream: {chunk['error']}")
        if chunk.get("usage"):
            reply.reasoning_tokens = _reasoning_tokens(chunk["usage"])
        for choice in chunk["choices"]:
            _take_delta(reply, calls, choice["delta"])
            reply.finish_reason = choice["finish_reason"] or reply.finish_reason
    if not is_done:
        raise ServerError("the stream ended without [DONE]")
    reply.calls = [tuple(call) for _, call in sorted(calls.items())]
    return reply


def _take_delta(reply: Reply, calls: dict, delta: dict) -> None:
    reply.content += delta.get("content") or ""
    reply.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
    for part in delta.get("tool_calls") or []:
        call = calls.setdefault(part["index"], ["", ""])
        call[0] += part["function"].get("name") or ""
        call[1] += part["function"].get("arguments") or ""


def _reasoning_tokens(usage: dict | None) -> int:
    return ((usage or {}).get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
