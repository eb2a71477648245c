"""Checkpoints that somebody made on purpose, with hashes that fit. Row F-45."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.three_checkpoints import LAST, load, sign
from trainwright.checkpoint.strict_json import write_canonical
from trainwright.core.files import hash_bytes

pytestmark = pytest.mark.torch


def forge(folder: Path, name: str, data: bytes) -> None:
    """Put `data` in the place of a file and make manifest and ledger agree with it."""
    (folder / LAST / name).unlink(missing_ok=True)
    (folder / LAST / name).write_bytes(data)
    path = folder / LAST / "manifest.json"
    outer = json.loads(path.read_bytes())
    for file in outer["content"]["files"]:
        if file["name"] == name:
            file.update(size_bytes=len(data), sha256=hash_bytes(data))
    sign(path, outer)


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


class Canary:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("canary",)


def pickled() -> bytes:
    import pickle

    return pickle.dumps(Canary())


@pytest.fixture
def one_hostile_file(figure: Callable[..., None]) -> None:
    """Counted for the page."""
    figure(hostile_files=1, executions=0)


HOSTILE_TENSORS = {
    "pickle": pickled(),
    "huge header": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "header past the end": (10_000).to_bytes(8, "little") + b"{}",
    "deep header": safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "overlap": safetensors({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "hole": safetensors({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
    "past the end": safetensors({"a": tensor([100], 0, 400)}, bytes(4)),
    "negative": safetensors({"a": tensor([-1], 0, 4)}, bytes(4)),
    "overflow": safetensors({"a": tensor([2**62, 2**62], 0, 4)}, bytes(4)),
    "other tensors": safetensors({"a": tensor([1], 0, 4)}, bytes(4)),
    "not json": safetensors(b"\xff\xfe"),
    "empty": b"",
}
HOSTILE_VALUES = {
    "pickle": pickled(),
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "not a number": b'{"model": NaN}\n',
    "infinite": b'{"model": 1e999}\n',
    "long number": b'{"model": ' + b"9" * 10_000 + b"}\n",
    "twice": b'{\n  "model": null,\n  "model": null\n}\n',
    "not UTF-8": b'"\xff"',
    "a list": b"[]\n",
}


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", HOSTILE_TENSORS)
def test_hostile_tensors(
    three: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forge(three, "model.safetensors", HOSTILE_TENSORS[kind])
    assert load(three).step == 2
    assert not (tmp_path / "canary").exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", HOSTILE_VALUES)
def test_hostile_values(
    three: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forge(three, "values.json", HOSTILE_VALUES[kind])
    assert load(three).step == 2
    assert not (tmp_path / "canary").exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("poison", [[], "1", "x", {"$float": "nan", "more": 1}])
def test_a_number_that_is_none(three: Path, poison: object) -> None:
    values = json.loads((three / LAST / "values.json").read_bytes())
    part = next(iter(values))
    values[part] = poison if isinstance(poison, dict) else {"$float": poison}
    forge(three, "values.json", write_canonical(values))
    assert load(three).step == 2


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", HOSTILE_VALUES)
def test_hostile_manifest_and_ledger(three: Path, kind: str) -> None:
    (three / LAST / "manifest.json").write_bytes(HOSTILE_VALUES[kind])
    (three / "ledger.jsonl").write_bytes(HOSTILE_VALUES[kind].replace(b"\n", b"") + b"\n")
    assert load(three).step == 2


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("name", ["../three/x", "/etc/passwd", "a/b", "..", "a\0b", ".tmp-x", ""])
def test_a_manifest_with_names_that_lead_elsewhere(three: Path, name: str) -> None:
    path = three / LAST / "manifest.json"
    outer = json.loads(path.read_bytes())
    outer["content"]["files"][0]["name"] = name
    sign(path, outer)
    found = load(three)
    assert found.step == 2
    assert "safe name" in found.rejected[0]


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("name", ["model.safetensors", "values.json", "manifest.json"])
def test_links_are_not_followed(three: Path, tmp_path: Path, name: str) -> None:
    path = three / LAST / name
    path.rename(tmp_path / name)
    path.symlink_to(tmp_path / name)
    assert load(three).step == 2
    assert (tmp_path / name).exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
def test_a_linked_checkpoint_is_not_followed(three: Path, tmp_path: Path) -> None:
    (three / LAST).rename(tmp_path / "elsewhere")
    (three / LAST).symlink_to(tmp_path / "elsewhere")
    assert load(three).step == 2
    assert (tmp_path / "elsewhere" / "manifest.json").exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
def test_a_pipe_does_not_hang(three: Path) -> None:
    path = three / LAST / "values.json"
    path.unlink()
    os.mkfifo(path)
    assert load(three).step == 2
