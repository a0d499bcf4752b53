"""The score against a scripted server: requests, streams, errors, exit codes and the table."""

import http.server
import json
import subprocess
import sys
import threading
import unittest

from paths import ROOT

from ops.tiny_model.scoring import rows
from ops.tiny_model.scoring.client import Client, ServerError


class ScriptedServer(http.server.BaseHTTPRequestHandler):
    """Answers 323, with reasoning where it is asked for; counts four tokens a draft round."""

    answer = "323"
    rounds = 0

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        steps = ScriptedServer.rounds
        pages = {"/health": "{}", "/v1/models": '{"data": [{"id": "tiny"}]}',
                 "/metrics": "# HELP x\nvllm:spec_decode_num_drafts_total{model=\"tiny\"} %d\n"
                             "vllm:spec_decode_num_accepted_tokens_total{model=\"tiny\"} %d\n" % (steps, 2 * steps)}
        self._send(200 if self.path in pages else 404, pages.get(self.path, "no such page").encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["messages"][-1]["content"] == "fail":
            self._send(400, b'{"error": {"message": "refused"}}')
            return
        ScriptedServer.rounds += 1
        reasoning = "17*19 = 323." if body["chat_template_kwargs"]["thinking"] else None
        self._send(200, self._stream(reasoning) if body.get("stream") else json.dumps(self._whole(reasoning)).encode())

    def _whole(self, reasoning):
        message = {"role": "assistant", "content": self.answer, "reasoning_content": reasoning}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"completion_tokens_details": {"reasoning_tokens": 9 if reasoning else 0}}}

    def _stream(self, reasoning):
        deltas = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": part} for part in (reasoning or "").split("|") if part]
        deltas += [{"content": char} for char in self.answer]
        deltas += [{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]},
                   {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}] if self.answer == "" else []
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop" if self.answer else "tool_calls"}]})
        chunks.append({"choices": [], "usage": {"completion_tokens_details": {"reasoning_tokens": 9}}})
        lines = ["data: " + json.dumps(chunk) for chunk in chunks] + [": keep-alive", "data: [DONE]"]
        return ("\n\n".join(lines) + "\n\n").encode()

    def _send(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Served(unittest.TestCase):
    def setUp(self):
        ScriptedServer.answer, ScriptedServer.rounds = "323", 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ScriptedServer)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def score(self, *arguments):
        command = [sys.executable, str(ROOT / "ops/tiny_model/score"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def test_a_server_that_is_right_scores_0(self):
        done = self.score("--url", self.url, "--kinds", "literal", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = {row["name"]: row for row in json.loads(done.stdout)}
        self.assertEqual(table["17*19 is 323, thinking on"]["measured"], "100.0 % (2/2)")
        self.assertEqual(table["tokens a step with drafts"]["measured"], "3.00")

    def test_a_server_that_is_wrong_scores_1_and_shows_the_answer(self):
        ScriptedServer.answer = "321"
        done = self.score("--url", self.url, "--kinds", "literal", "--wrong", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NO", done.stdout)
        self.assertIn("321", done.stderr)

    def test_no_server_and_no_program_exit_2_with_a_reason(self):
        self.assertEqual(self.score("--url", "http://127.0.0.1:1").returncode, 2)
        done = self.score("--binary", "/nonexistent/tandem")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent/tandem", done.stderr)

    def test_a_program_that_dies_at_once_exits_2(self):
        done = self.score("--binary", "/bin/false")
        self.assertEqual(done.returncode, 2)
        self.assertIn("exit 1", done.stderr)

    def test_a_streamed_answer_equals_the_whole_one(self):
        client = Client(self.url)
        client.find_model()
        body = {"messages": [{"role": "user", "content": "q"}], "chat_template_kwargs": {"thinking": True}}
        self.assertEqual(client.chat(body, True), client.chat(body, False))

    def test_streamed_call_fragments_are_joined(self):
        ScriptedServer.answer = ""
        body = {"messages": [{"role": "user", "content": "q"}], "chat_template_kwargs": {"thinking": False}}
        reply = Client(self.url).chat(body, True)
        self.assertEqual((reply.calls, reply.finish_reason), ([("f", "{}")], "tool_calls"))

    def test_a_refusal_carries_status_and_message(self):
        with self.assertRaisesRegex(ServerError, "400.*refused"):
            Client(self.url).chat({"messages": [{"role": "user", "content": "fail"}]}, False)


class Rows(unittest.TestCase):
    def test_a_share_below_its_target_is_not_reached(self):
        judged = [rows.Judged("products", "", number < 94) for number in range(100)]
        self.assertEqual([row.is_reached for row in rows.table(judged, {}, {})], [False])
        judged[94].is_right = True
        self.assertEqual([row.is_reached for row in rows.table(judged, {}, {})], [True])

    def test_equal_reasoning_lengths_do_not_count_as_rising(self):
        flat = [rows.Judged("reasoning", effort, True, 20) for effort in ("low", "high", "max")]
        steep = [rows.Judged("reasoning", effort, True, length) for effort, length in (("low", 20), ("high", 40), ("max", 60))]
        self.assertFalse(rows.table(flat, {}, {})[-1].is_reached)
        self.assertTrue(rows.table(steep, {}, {})[-1].is_reached)

    def test_without_drafts_the_step_row_says_so(self):
        row = rows.table([], {"x": 0.0}, {"x": 1.0})[-1]
        self.assertEqual((row.measured, row.is_reached), ("no drafts", False))

    def test_markdown_has_one_line_a_row_and_a_head(self):
        text = rows.as_text(rows.table([rows.Judged("products", "", True)], {}, {}), is_markdown=True)
        self.assertEqual(len(text.splitlines()), 3)


if __name__ == "__main__":
    unittest.main()
