"""Web servers that say nothing, or hardly anything: left within a time that is documented."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deadlines import within
from trainwright.core import limits
from trainwright.core.errors import DataMistake
from trainwright.data.sources.find_source import read_source

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.row("F-63")

ROWS = b"a,y\n" + b"1,0\n2,1\n" * 1000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
Answer = Callable[[socket.socket, bytes], None]


def _silent(connection: socket.socket, request: bytes) -> None:
    time.sleep(30)


def _silent_later(connection: socket.socket, request: bytes) -> None:
    connection.sendall(HEAD % len(ROWS))
    if not request.startswith(b"HEAD"):
        connection.sendall(ROWS[:100])
        time.sleep(30)


def _drips(connection: socket.socket, request: bytes) -> None:
    connection.sendall(HEAD % len(ROWS))
    if not request.startswith(b"HEAD"):
        for byte in ROWS:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)


def _drips_its_head(connection: socket.socket, request: bytes) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def _slow_but_moving(connection: socket.socket, request: bytes) -> None:
    connection.sendall(HEAD % len(ROWS))
    if not request.startswith(b"HEAD"):
        for start in range(0, len(ROWS), 800):
            connection.sendall(ROWS[start : start + 800])
            time.sleep(0.15)


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The URL of a file of a server that answers so."""

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            answer(connection, connection.recv(65_536))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/rows.csv"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_ANSWER_SECONDS", "HTTP_SILENT_SECONDS", "HTTP_RATE_SECONDS"):
        monkeypatch.setattr(limits, name, within(0.6))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (_silent, "has not answered within"),
        (_silent_later, "Timeout"),
        (_drips, "bytes a second|a second are waited for"),
        (_drips_its_head, "has not answered within"),
    ],
    ids=["silent", "silent-later", "drips", "drips-its-head"],
)
def test_a_server_that_says_hardly_anything_is_left(
    answer: Answer, says: str, tmp_path: Path
) -> None:
    with serving(answer) as url, pytest.raises(DataMistake, match=says) as caught:
        read_source(url, tmp_path)
    (problem,) = caught.value.problems
    assert problem.message == "the place cannot be reached"
    assert "check the URL, the network" in problem.fix


@pytest.mark.timeout(30)
def test_a_server_that_is_slow_but_moves_is_read(tmp_path: Path) -> None:
    with serving(_slow_but_moving) as url:
        assert read_source(url, tmp_path).frame.height == 2000
