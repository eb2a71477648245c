"""Places elsewhere: what goes wrong there is told as such, and what people see holds no secret."""

from __future__ import annotations

import io
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, StorageFailed
from trainwright.data.sources.find_source import read_source

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

SECRET = "hf_abcdefghijklmnopqrstuvwx"


class Broken(io.BytesIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def read(self, size: int | None = -1) -> bytes:
        raise self.error


class Flaky(MemoryFileSystem):  # type: ignore[misc]
    """A store whose connection breaks while a file is read, or that wants a password."""

    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    trouble: Exception | None = None
    wants: str = ""

    def __init__(self, **given: object) -> None:
        if self.wants:
            raise ValueError(self.wants)
        super().__init__(**given)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("flaky:", "memory:")))

    def _open(self, path: str, mode: str = "rb", **given: object) -> Any:
        if mode == "rb" and self.trouble is not None:
            return Broken(self.trouble)
        return super()._open(path, mode, **given)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> type[Flaky]:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(
        "trainwright.data.sources.remote_store._WITHOUT_PACKAGE", frozenset({"flaky"})
    )
    monkeypatch.setattr(Flaky, "store", {})
    Flaky(skip_instance_cache=True).pipe_file("/rows.csv", b"a,y\n1,no\n2,yes\n")
    return Flaky


@pytest.mark.parametrize("cache", ["off", "kept"])
@pytest.mark.parametrize(
    "trouble", [TimeoutError("timed out"), ConnectionResetError("reset"), OSError("broken pipe")]
)
def test_a_connection_that_breaks_is_no_fault_of_the_disk(
    trouble: Exception,
    cache: str,
    store: type[Flaky],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "trouble", trouble)
    with pytest.raises(DataMistake) as caught:
        read_source("flaky://rows.csv", tmp_path, reading=Reading(cache=cache))
    (problem,) = caught.value.problems
    assert problem.message == "the place cannot be reached"
    assert problem.found.startswith(f"{type(trouble).__name__}: ")
    monkeypatch.setattr(store, "trouble", None)
    assert read_source("flaky://rows.csv", tmp_path).frame.height == 2


def test_a_full_disk_is_no_fault_of_the_place(
    store: type[Flaky], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "trouble", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    opened = Path.open

    def full(path: Path, mode: str = "r", **given: Any) -> Any:
        if "w" in mode:
            raise OSError(28, "No space left on device")
        return opened(path, mode, **given)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StorageFailed, match=r"keeping flaky://rows\.csv: No space"):
        read_source("flaky://rows.csv", tmp_path, reading=Reading(cache="off"))


def test_a_store_that_wants_credentials_is_a_known_place(
    store: type[Flaky], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "wants", "Must provide either a connection_string or account_name")
    with pytest.raises(DataMistake) as caught:
        read_source("flaky://rows.csv", tmp_path)
    (problem,) = caught.value.problems
    assert "connection_string" in problem.found
    assert "credentials" in problem.fix
    with pytest.raises(DataMistake, match="no place that is known"):
        read_source("nowhere://rows.csv", tmp_path)


@pytest.mark.parametrize("name", [f"{SECRET}.csv", "signature=1/part.csv"])
@pytest.mark.parametrize("pattern", [False, True])
def test_a_format_is_told_by_the_name_and_people_are_shown_no_secret(
    name: str, pattern: bool, store: type[Flaky], tmp_path: Path
) -> None:
    Flaky(skip_instance_cache=True).pipe_file(f"/deep/{name}", b"a,y\n1,no\n2,yes\n")
    named = "flaky:///deep/**/*.csv" if pattern else f"flaky:///deep/{name}"
    source = read_source(named, tmp_path)
    assert source.frame.height == 2
    (file,) = source.files
    assert "***" in file.path
    assert SECRET not in file.path


class Refusing(BaseHTTPRequestHandler):
    """Answers everything with the status that the path names."""

    def do_GET(self) -> None:
        self.send_error(int(self.path[1:4]))

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "said"), [(404, "there is no such file"), (403, "the place cannot be reached")]
)
def test_a_file_that_may_not_be_read_is_not_called_missing(
    tmp_path: Path, status: int, said: str
) -> None:
    pytest.importorskip("aiohttp")
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(DataMistake) as caught:
            read_source(f"http://127.0.0.1:{server.server_port}/{status}.csv", tmp_path)
        server.shutdown()
    assert caught.value.problems[0].message == said


def test_a_server_that_is_down_has_no_missing_file(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(DataMistake) as caught:
            read_source(f"http://127.0.0.1:{port}/a.csv", tmp_path)
    assert caught.value.problems[0].message == "the place cannot be reached"
    assert "127.0.0.1" in caught.value.problems[0].found
