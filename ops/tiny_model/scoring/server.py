"""Starts `tandem serve` on a free port for the time of a score and stops it again."""

import contextlib
import signal
import socket
import subprocess
import tempfile
import time

from .client import Client, ServerError

_READY_DEADLINE_S = 120
_STOP_DEADLINE_S = 20


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running_server(binary: str, model_folder: str):
    """Yields the URL of a server of our own; it is stopped by SIGTERM, its log shown if it fails."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        command = [binary, "serve", "--model", model_folder, "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_healthy(process, Client(f"http://127.0.0.1:{port}", timeout_s=5), log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_healthy(process, client: Client, log) -> None:
    deadline = time.monotonic() + _READY_DEADLINE_S
    while not client.is_healthy():
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            tail = log.read().decode(errors="replace")[-2000:]
            raise ServerError(f"the server did not become ready (exit {process.poll()}):\n{tail}")
        time.sleep(0.1)
