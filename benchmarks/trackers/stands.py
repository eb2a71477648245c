"""Stands for tracking servers that are down, slow, fail, are full or never answer."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWERS = {
    "failing": (500, "out of order"),
    "full": (500, "database or disk is full"),
    "wrong token": (401, "Invalid token"),
    "never answers": (0, ""),
}
"""Status and message of every answer; 0 for none."""

STATES = ("down", "wrong address", *ANSWERS)


class Refusing(BaseHTTPRequestHandler):
    """Answers everything with an error, or not at all."""

    status = 500
    message = ""
    is_closed = threading.Event()

    def _answer(self) -> None:
        if not self.status:
            self.is_closed.wait()
            return
        body = json.dumps({"error_code": "INTERNAL_ERROR", "message": self.message}).encode()
        send(self, self.status, "application/json", body)

    do_GET = do_POST = do_PUT = do_PATCH = _answer

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


class Slow(BaseHTTPRequestHandler):
    """Passes every request on to a server after some seconds."""

    port = 0
    seconds = 5.0

    def _answer(self) -> None:
        time.sleep(self.seconds)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        server.request(self.command, self.path, body, dict(self.headers.items()))
        answer = server.getresponse()
        content = answer.read()
        send(self, answer.status, answer.getheader("Content-Type", ""), content)
        server.close()

    do_GET = do_POST = do_PUT = do_PATCH = _answer

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def send(handler: BaseHTTPRequestHandler, status: int, kind: str, body: bytes) -> None:
    with suppress(OSError):  # the client may have gone
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def closed_port() -> str:
    """An address at which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def stand_in(state: str) -> Iterator[str]:
    """The address of a server in one of `STATES`."""
    if state == "down":
        yield closed_port()
    elif state == "wrong address":
        yield "http://no-such-host.invalid:5000"
    else:
        status, message = ANSWERS[state]
        closed = threading.Event()
        settings = {"status": status, "message": message, "is_closed": closed}
        with serving(type("Stand", (Refusing,), settings)) as address:
            try:
                yield address
            finally:
                closed.set()


@contextmanager
def slow_server(port: int, seconds: float) -> Iterator[str]:
    """The address of a server that needs some seconds more for each answer of the one at `port`."""
    with serving(type("Stand", (Slow,), {"port": port, "seconds": seconds})) as address:
        yield address


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
