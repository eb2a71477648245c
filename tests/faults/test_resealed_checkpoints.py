"""Checkpoints of other content, with hashes that were written anew and fit. Row F-45."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from faults.three_checkpoints import LAST, load, sign
from trainwright.checkpoint import strict_json
from trainwright.checkpoint.files import tensor_file
from trainwright.checkpoint.strict_json import Damaged, write_canonical
from trainwright.core.files import hash_bytes

pytestmark = [pytest.mark.torch, pytest.mark.row("F-45")]


def put(folder: Path, name: str, data: bytes) -> None:
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


class Note:
    """Says when it is unpickled, which it never is here."""

    unpickled: ClassVar[list[object]] = []

    def __init__(self) -> None:
        self.state = "of an object"

    def __setstate__(self, state: object) -> None:
        Note.unpickled.append(state)


PICKLED = pickle.dumps(Note())
OTHER_TENSORS = {
    "pickle": PICKLED,
    "header past the end": (10_000).to_bytes(8, "little") + b"{}",
    "deep header": safetensors(b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}"),
    "overlap": safetensors({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "hole": safetensors({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
    "past the end": safetensors({"a": tensor([100], 0, 400)}, bytes(4)),
    "negative": safetensors({"a": tensor([-1], 0, 4)}, bytes(4)),
    "other tensors": safetensors({"a": tensor([1], 0, 4)}, bytes(4)),
    "not json": safetensors(b"\xff\xfe"),
    "empty": b"",
}
OTHER_VALUES = {
    "pickle": PICKLED,
    "deep": b"[" * 1000 + b"]" * 1000,
    "not a number": b'{"model": NaN}\n',
    "infinite": b'{"model": 1e999}\n',
    "long number": b'{"model": ' + b"9" * 5000 + b"}\n",
    "twice": b'{\n  "model": null,\n  "model": null\n}\n',
    "not UTF-8": b'"\xff"',
    "a list": b"[]\n",
}


@pytest.mark.parametrize("kind", OTHER_TENSORS)
def test_other_tensors(three: Path, kind: str) -> None:
    put(three, "model.safetensors", OTHER_TENSORS[kind])
    assert load(three).step == 2
    assert not Note.unpickled


@pytest.mark.parametrize("kind", OTHER_VALUES)
def test_other_values(three: Path, kind: str) -> None:
    put(three, "values.json", OTHER_VALUES[kind])
    assert load(three).step == 2
    assert not Note.unpickled


@pytest.mark.parametrize("other", [[], "1", "x", {"$float": "nan", "more": 1}])
def test_a_number_that_is_none(three: Path, other: object) -> None:
    values = json.loads((three / LAST / "values.json").read_bytes())
    part = next(iter(values))
    values[part] = other if isinstance(other, dict) else {"$float": other}
    put(three, "values.json", write_canonical(values))
    assert load(three).step == 2


@pytest.mark.parametrize("kind", OTHER_VALUES)
def test_other_manifest_and_ledger(three: Path, kind: str) -> None:
    (three / LAST / "manifest.json").write_bytes(OTHER_VALUES[kind])
    (three / "ledger.jsonl").write_bytes(OTHER_VALUES[kind].replace(b"\n", b"") + b"\n")
    assert load(three).step == 2


@pytest.mark.parametrize("name", ["../three/x", "/x", "a/b", "..", "a\0b", ".tmp-x", ""])
def test_a_manifest_with_names_that_lead_elsewhere(three: Path, name: str) -> None:
    path = three / LAST / "manifest.json"
    outer = json.loads(path.read_bytes())
    outer["content"]["files"][0]["name"] = name
    sign(path, outer)
    found = load(three)
    assert found.step == 2
    assert "safe name" in found.rejected[0]


@pytest.mark.parametrize("name", ["model.safetensors", "values.json", "manifest.json"])
def test_links_are_not_followed(three: Path, tmp_path: Path, name: str) -> None:
    path = three / LAST / name
    path.rename(tmp_path / name)
    path.symlink_to(tmp_path / name)
    assert load(three).step == 2
    assert (tmp_path / name).exists()


def test_a_linked_checkpoint_is_not_followed(three: Path, tmp_path: Path) -> None:
    (three / LAST).rename(tmp_path / "elsewhere")
    (three / LAST).symlink_to(tmp_path / "elsewhere")
    assert load(three).step == 2
    assert (tmp_path / "elsewhere" / "manifest.json").exists()


def test_a_pipe_does_not_hang(three: Path) -> None:
    path = three / LAST / "values.json"
    path.unlink()
    os.mkfifo(path)
    assert load(three).step == 2


def test_the_header_of_foreign_tensors_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(bytes(block) for block in tensor_file.blocks({"a": torch.ones(2)}))
    assert tensor_file.read_foreign(data).keys() == {"a"}
    monkeypatch.setattr(tensor_file, "MOST_SAFETENSORS_HEADER_BYTES", 10)
    with pytest.raises(Damaged, match="longer than the file or the limit"):
        tensor_file.read_foreign(data)


def test_the_values_of_a_checkpoint_have_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = write_canonical([1, 2, 3])
    assert strict_json.read_strict(data) == [1, 2, 3]
    monkeypatch.setattr(strict_json, "MOST_CHECKPOINT_JSON_BYTES", 10)
    with pytest.raises(Damaged, match="more than the limit of 10"):
        strict_json.read_strict(data)
