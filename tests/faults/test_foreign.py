"""Rows F-45 and S2: a foreign `.pt` is read by a process that can do nothing but compute."""

from __future__ import annotations

import errno
import gzip
import io
import json
import mmap
import os
import pickle
import resource
import signal
import socket
import sys
import time
import zipfile
from collections import UserDict
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from command import command, inside, with_layers, write_project  # noqa: E402
from faults.tiers import TIER, in_test  # noqa: E402
from made_pictures import tar_bytes  # noqa: E402
from trainwright.checkpoint.foreign import torch_import, torch_import_child  # noqa: E402
from trainwright.checkpoint.foreign.torch_import import (  # noqa: E402
    Limits,
    convert_foreign,
    lock_down,
)
from trainwright.core.errors import Mistake  # noqa: E402

pytestmark = pytest.mark.torch

TENSORS = {
    "a.weight": torch.arange(6.0).view(2, 3),
    "b": torch.ones(3, dtype=torch.bfloat16),
    "none": torch.empty(0, 4),
    "count": torch.tensor(7),
}


@pytest.mark.parametrize("nest", in_test(3, ["", "state_dict", "model"]))
@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_come_out_as_they_were(
    nest: str, zipped: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if nest and not TIER:
        request.getfixturevalue("quick_reader")
    kept = {nest: TENSORS} if nest else TENSORS
    torch.save(kept, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    assert convert_foreign(tmp_path / "x.pt", tmp_path / "x.safetensors") == sorted(TENSORS)
    found = load_file(tmp_path / "x.safetensors")
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


def tarred(content: bytes) -> bytes:
    """The oldest layout of `torch.save`."""
    return tar_bytes([(name, content) for name in ("storages", "tensors", "pickle")])


def zipped(content: bytes) -> bytes:
    """The present layout."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", content)
        archive.writestr("x/version", b"3\n")
        archive.writestr("x/byteorder", b"little")
    return stream.getvalue()


def array(value: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([value], dtype=object), allow_pickle=True)
    return stream.getvalue()


THIRD = Fraction(1, 3)
"""A value that is no tensor: to unpickle it, its class has to be called."""

PICKLES = [pickle.dumps({"a": THIRD}, protocol=protocol) for protocol in range(6)]
VALUES = {"date": date(2024, 2, 29), "path": PurePosixPath("a"), "function": len, "number": 1}


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


OTHERS = {
    **{f"protocol {protocol}": data for protocol, data in enumerate(PICKLES)},
    **{f"zip {protocol}": zipped(data) for protocol, data in enumerate(PICKLES)},
    **{name: pickle.dumps({"a": value}, protocol=2) for name, value in VALUES.items()},
    "tensors in a class of their own": saved(UserDict(TENSORS)),
    "tar": tarred(PICKLES[2]),
    "a zip in a zip": zipped(zipped(PICKLES[2])),
    "a zip cut short": zipped(PICKLES[2])[:-30],
    "an array of objects": array(THIRD),
    "packed": gzip.compress(PICKLES[2]),
    "cut short": PICKLES[2][:-3],
    "nothing": b"",
    "text": b"no pickle at all",
}
"""Files that hold no tensors, or more than tensors."""


class Forked:
    """The reader as a fork of this process, which has imported torch already. Everything else is
    as `subprocess.Popen` makes it."""

    def __init__(
        self, words: list[str], *, stdin: IO[bytes], stderr: IO[bytes], cwd: str, **_: object
    ) -> None:
        reading, writing = os.pipe()
        self.returncode = -1
        self._pid = os.fork()
        if self._pid == 0:
            try:
                for place, taken in enumerate((stdin.fileno(), writing, stderr.fileno())):
                    os.dup2(taken, place)
                os.closerange(3, 65536)
                os.chdir(cwd)
                sys.argv = ["reader", *words[-2:]]
                torch_import_child.main()
            finally:
                os._exit(9)
        os.close(writing)
        self.stdout = os.fdopen(reading, "rb")

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


WHOLE = "zip 2"
"""Read by a process of its own in every run of the tests; in `make faults` all are."""


@pytest.fixture
def quick_reader(monkeypatch: pytest.MonkeyPatch, good_is_read: object) -> None:
    """A fork reads in the place of a new process; it reads what is good."""
    monkeypatch.setattr(torch_import.subprocess, "Popen", Forked)


@pytest.fixture(scope="module")
def good_is_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    good = tmp_path_factory.mktemp("good") / "x.pt"
    torch.save(TENSORS, good)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_import.subprocess, "Popen", Forked)
        assert convert_foreign(good, good.with_suffix(".safetensors")) == sorted(TENSORS)


@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_file_of_tensors_is_refused(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not TIER and kind != WHOLE:
        request.getfixturevalue("quick_reader")
    (tmp_path / "x.pt").write_bytes(OTHERS[kind])
    with pytest.raises(Mistake, match="cannot be converted"):
        convert_foreign(tmp_path / "x.pt", tmp_path / "x.safetensors")
    assert {path.name for path in tmp_path.iterdir()} == {"x.pt"}


def save_view(file: Path) -> None:
    """One number, which a tensor of 40 MiB repeats."""
    torch.save({"w": torch.zeros(1).expand(10 * 2**20)}, file)
    assert file.stat().st_size < 2**12


@pytest.mark.row("F-45")
def test_what_grows_is_refused_at_a_lower_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_reader: object
) -> None:
    save_view(tmp_path / "x.pt")
    with monkeypatch.context() as patch:
        patch.setattr(torch_import, "_ROOM", 0)
        patch.setattr(torch_import, "_SMALL_BYTES", 2**20)
        with pytest.raises(Mistake, match=r"it grows to more than 1\.0 MiB"):
            convert_foreign(tmp_path / "x.pt", tmp_path / "x.safetensors")
    assert convert_foreign(tmp_path / "x.pt", tmp_path / "x.safetensors") == ["w"]


@pytest.mark.row("F-45")
def test_a_reader_without_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is below what a process holds once it has imported torch."""
    save_view(tmp_path / "x.pt")
    monkeypatch.setattr(torch_import, "_TORCH_BYTES", -127 * 2**20)
    with pytest.raises(Mistake, match=r"(?i)memory"):
        convert_foreign(tmp_path / "x.pt", tmp_path / "x.safetensors")


@pytest.mark.row("F-45")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "x.pt")
    (tmp_path / "link.pt").symlink_to(tmp_path / "x.pt")
    with pytest.raises(Mistake):
        convert_foreign(tmp_path / "link.pt", tmp_path / "x.safetensors")


# The wall itself: what code would find that got past `weights_only`.


def attempts(folder: Path) -> dict[str, Callable[[], object]]:
    return {
        "open a file": lambda: os.open(folder / "secret", os.O_RDONLY),
        "make a file": lambda: os.open(folder / "made", os.O_CREAT | os.O_WRONLY),
        "make a folder": lambda: (folder / "made").mkdir(),
        "remove": lambda: (folder / "secret").unlink(),
        "list": lambda: list(os.scandir(folder)),
        "connect": lambda: socket.socket(),
        "fork": os.fork,
        "start a program": lambda: os.execv("/bin/true", ["true"]),
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "lift a limit": lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 1)),
    }


@pytest.mark.parametrize("name", list(attempts(Path())))
@pytest.mark.row("F-45")
def test_behind_the_wall_nothing_is_reached(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    attempt = attempts(tmp_path)[name]
    attempt_alone = os.fork()
    if attempt_alone == 0:
        try:
            lock_down(Limits(64 * 2**30, 20))
            attempt()
        except OSError as error:
            os._exit(7 if error.errno == errno.EPERM else 8)
        except ValueError:  # how the limits say that they may not be lifted
            os._exit(7)
        finally:
            os._exit(9)
    code = os.waitstatus_to_exitcode(os.waitpid(attempt_alone, 0)[1])
    assert code == 7, f"{name}: {code}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


def ended(work: Callable[[], object], limits: Limits) -> int:
    """The exit code of a process that works behind the wall: 7 without memory, 9 at its end."""
    child = os.fork()
    if child == 0:
        try:
            lock_down(limits)
            work()
        except OSError as error:
            os._exit(7 if error.errno == errno.ENOMEM else 8)
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def work_for_ten_seconds() -> None:
    while time.process_time() < 10:
        pass


def test_behind_the_wall_memory_and_time_end() -> None:
    assert ended(lambda: mmap.mmap(-1, 2**26), Limits(2**20, 20)) == 7
    assert ended(lambda: mmap.mmap(-1, 2**26), Limits(64 * 2**30, 20)) == 9
    killed = ended(work_for_ten_seconds, Limits(64 * 2**30, 1))
    assert killed in (-signal.SIGKILL, -signal.SIGXCPU)


# The verbs.


def test_the_weights_of_a_run(tmp_path: Path) -> None:
    network = with_layers("[8]")
    write_project(tmp_path, network + "training: {num_epochs: 2, batch_size: 64}\n")
    with inside(tmp_path):
        assert command("train", "small.yaml", "--run", "one").code in (0, 3)
        ran = command("weights", "export", "one", "-o", "model.safetensors")
        assert ran.code == 0, ran.err
        mine = load_file("runs/one/bundle/network.safetensors")
        found = load_file("model.safetensors")
        assert found.keys() == mine.keys()
        assert all(torch.equal(found[name], mine[name]) for name in mine)
        step = str(json.loads(command("runs", "checkpoints", "one", "--json").out)[0]["step"])
        assert b'"format":"pt"' in Path("model.safetensors").read_bytes()[:400]
        assert (
            command("weights", "export", "one", "--step", step, "-o", "first.safetensors").code == 0
        )
        first = load_file("first.safetensors")
        assert first.keys() == mine.keys()
        assert command("weights", "export", "one", "--step", "-1").code == 2
        absent = command("weights", "export", "one", "--step", "999")
        assert absent.code == 2
        assert "trainwright runs checkpoints runs/one" in absent.err
        torch.save(mine, "foreign.pt")
        assert command("weights", "convert", "foreign.pt", "-o", "out.safetensors").code == 0
        again = load_file("out.safetensors")
        assert all(torch.equal(again[name], mine[name]) for name in mine)


@pytest.mark.row("F-45")
def test_a_flipped_bit_of_an_archive_is_no_weight(tmp_path: Path, quick_reader: object) -> None:
    tensor = torch.arange(4096.0)
    torch.save({"w": tensor}, tmp_path / "x.pt")
    data = bytearray((tmp_path / "x.pt").read_bytes())
    data[data.index(tensor.numpy().tobytes()) + 8191] ^= 1
    (tmp_path / "x.pt").write_bytes(data)
    with pytest.raises(Mistake, match="checksum"):
        convert_foreign(tmp_path / "x.pt", tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()
