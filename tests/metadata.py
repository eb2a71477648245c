"""The metadata services of three clouds, as far as spot notices go, on a port of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

TOKEN_PATH = "/latest/api/token"
ACTION_PATH = "/latest/meta-data/spot/instance-action"
PREEMPTED_PATH = "/computeMetadata/v1/instance/preempted"
EVENTS_PATH = "/metadata/scheduledevents?api-version=2020-07-01"
NAME_PATH = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
AWS_NOTICE = {"action": "terminate", "time": "2026-01-02T03:04:05Z"}


def azure_event(kind: str = "Preempt", machine: str = "vm_1") -> dict[str, object]:
    return {
        "EventId": "1",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": [machine],
        "EventStatus": "Scheduled",
        "NotBefore": "Mon, 19 Sep 2026 18:29:47 GMT",
    }


class Metadata:
    """Answers as the services are documented to: a token that is counted and can be made old, a
    header that must be there, an action that is absent until there is one."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {
            PREEMPTED_PATH: "FALSE",
            NAME_PATH: "vm_1",
            EVENTS_PATH: json.dumps({"DocumentIncarnation": 1, "Events": []}),
        }
        self.tokens = 0
        self.asked: list[str] = []
        self.broken = False

    def interrupt(self) -> None:
        self.answers[ACTION_PATH] = json.dumps(AWS_NOTICE)

    def preempt(self) -> None:
        self.answers[PREEMPTED_PATH] = "TRUE"

    def schedule(self, *events: object) -> None:
        self.answers[EVENTS_PATH] = json.dumps({"DocumentIncarnation": 2, "Events": events})

    def break_down(self) -> None:
        self.broken = True

    def make_token_old(self) -> None:
        self.tokens += 1

    def answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        self.asked.append(f"{method} {path}")
        if self.broken:
            return 500, "broken"
        if path == TOKEN_PATH:
            lasts = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
            if method != "PUT" or not lasts.isdigit():
                return 400, ""
            self.tokens += 1
            return 200, f"token-{self.tokens}"
        if path == ACTION_PATH and headers.get("x-aws-ec2-metadata-token") != (
            f"token-{self.tokens}"
        ):
            return 401, ""
        if path == PREEMPTED_PATH and headers.get("metadata-flavor") != "Google":
            return 403, ""
        if path in (EVENTS_PATH, NAME_PATH) and headers.get("metadata") != "true":
            return 400, ""
        return (200, self.answers[path]) if path in self.answers else (404, "")


@contextmanager
def serve_metadata() -> Iterator[tuple[Metadata, str]]:
    """The services, and the address of all three."""
    metadata = Metadata()

    class Answering(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = metadata.answer(self.command, self.path, headers)
            self.send_response(status)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    # Not an HTTPServer, which asks for the name of the machine and may wait for it.
    with ThreadingTCPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield metadata, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
