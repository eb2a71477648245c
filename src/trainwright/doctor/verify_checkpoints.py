"""Integrity of a checkpoint folder and of saved trees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np

from trainwright.core.files import Json, hash_bytes, hash_value, is_unchanged, read_json

WRONG_SHAPE = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""Exceptions raised on reading corrupt content."""

TREES = re.compile(r"trees-([0-9]{10})\.json")
_STEP = re.compile(r"step-([0-9]{10,18})")
_BASE = re.compile(r"base-[0-9a-f]{32}\.safetensors")
_WORDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


@final
@dataclass(frozen=True, slots=True)
class Checked:
    """One result: `whole` (intact), `note` (no damage) or `broken` (damaged)."""

    what: str
    status: Literal["whole", "note", "broken"]
    message: str

    def to_json(self) -> Json:
        """The fields by name."""
        return {"what": self.what, "status": self.status, "message": self.message}


def whole(what: str, message: str) -> Checked:
    """An intact item."""
    return Checked(what, "whole", message)


def note(what: str, message: str) -> Checked:
    """An informational note."""
    return Checked(what, "note", message)


def broken(what: str, message: str) -> Checked:
    """A damaged item."""
    return Checked(what, "broken", message)


def verify_trees(folder: Path, lineage: str = "") -> Iterator[Checked]:
    """Check every file; each must have the `lineage` of its run, if known."""
    found = [path for path in folder.glob("trees-*") if TREES.fullmatch(path.name)]
    for path in sorted(found):
        try:
            wrong = _wrong(path, lineage)
        except WRONG_SHAPE as error:
            wrong = f"unreadable: {error!r:.200}"
        if wrong:
            yield broken(path.name, wrong)
        else:
            yield whole(path.name, f"{path.stat().st_size:,} bytes")


def _wrong(path: Path, lineage: str) -> str:
    """The problem of a file, or empty."""
    if path.is_symlink() or not path.is_file():
        return "a link, or not a file"
    outer: Json = read_json(path)
    content = outer["content"]
    if hash_value(content) != outer["sha256"]:
        return "its hash does not match its content"
    if lineage and content["lineage"] != lineage:
        return "it belongs to another run"
    grown = content["grown"]
    if path.name != f"trees-{grown['trees']:010d}.json":
        return f"it holds {grown['trees']} trees"
    added = len(re.findall(r"^Tree=[0-9]+$", grown["text"], re.MULTILINE))
    if not added or added % grown["trees"]:
        return f"its text holds {added} trees, not {grown['trees']} a class"
    return ""


_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1}
_BYTES |= {"U8": 1, "BOOL": 1}


class _Broken(ValueError):
    """A checkpoint differs from what was written."""


def verify_checkpoints(folder: Path, lineage: str = "") -> Iterator[Checked]:
    """Check every checkpoint, the ledger, the pointers and other files. Each checkpoint must have
    the `lineage` of its run, if known."""
    if not folder.is_dir():
        return
    if all("trees-" in path.name for path in folder.iterdir()):  # a run without steps, or nothing
        yield from _others(folder, [])
        return
    lines, damaged = _ledger(folder)
    yield from damaged
    names = sorted(path.name for path in folder.iterdir() if _STEP.fullmatch(path.name))
    valid: list[str] = []
    bases: dict[str, bool] = {}
    for name in names:
        for checked in _checkpoint(folder, name, lines, lineage, bases):
            yield checked
            if checked.status == "whole":
                valid.append(name)
    for name, line in lines.items():
        if line["kind"] in ("committed", "abandoned") and name not in names:
            yield broken(name, "listed in the ledger, but not on disk")
    if (lines or names) and not valid:
        yield broken("checkpoints", "none verifies")
    yield from _pointers(folder, valid, lines)
    yield from _others(folder, names)


def newest_step(folder: Path) -> int:
    """Step of the newest checkpoint in the ledger, by its name; 0 without checkpoints."""
    lines, _ = _ledger(folder)
    kept = [line for line in lines.values() if line["kind"] == "committed"]
    newest = max(kept, key=lambda line: int(line["sequence"]), default={"name": "step-0"})
    return int(str(newest["name"]).removeprefix("step-"))


def _ledger(folder: Path) -> tuple[dict[str, dict[str, Json]], list[Checked]]:
    """Last ledger line of each checkpoint, and the problems of the file."""
    path = folder / "ledger.jsonl"
    if not path.exists():
        return {}, [note("ledger", "there is none: only the manifests are checked")]
    *texts, rest = path.read_bytes().split(b"\n")
    lines: dict[str, dict[str, Json]] = {}
    found: list[Checked] = []
    if rest.endswith(b"}", 0, -1):
        found.append(broken("ledger", "its last line does not end in a newline"))
    elif rest:
        found.append(note("ledger", "its last line is incomplete"))
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
            check = line.pop("check")
            if hash_value(line) != check:
                raise _Broken("its hash does not match its content")
            lines[line["name"]] = line
        except WRONG_SHAPE as error:
            found.append(broken("ledger", f"line {number}: {error}"))
    return lines, found


def _checkpoint(
    folder: Path,
    name: str,
    lines: Mapping[str, Mapping[str, Json]],
    lineage: str,
    bases: dict[str, bool],
) -> Iterator[Checked]:
    line = lines.get(name, {"kind": "unknown"})
    if line["kind"] == "removed":
        yield note(name, "its removal was interrupted: the next start completes it")
        return
    try:
        manifest, sha256 = _manifest(folder / name)
        if line["kind"] == "unknown" or manifest["sequence"] > line["sequence"]:
            yield note(name, "not yet in the ledger")
        elif sha256 != line["manifest_sha256"]:
            raise _Broken("its manifest does not match the ledger")
        if f"step-{manifest['step']:010d}" != name:
            raise _Broken(f"its manifest is of step {manifest['step']}")
        if lineage and manifest["lineage"] != lineage:
            raise _Broken("it belongs to another run")
        size = _files(folder / name, manifest)
        _check_bases(folder, manifest, bases)
    except WRONG_SHAPE as error:
        yield broken(name, str(error) or repr(error))
        return
    yield whole(name, f"{len(manifest['files'])} files, {size:,} bytes")


def _manifest(folder: Path) -> tuple[dict[str, Json], str]:
    data = (folder / "manifest.json").read_bytes()
    outer = json.loads(data)
    content = outer["content"]
    if hash_value(content) != outer["sha256"]:
        raise _Broken("manifest.json: its hash does not match its content")
    return content, hash_bytes(data)


def _files(folder: Path, manifest: Mapping[str, Json]) -> int:
    """Check every file; returns the total bytes."""
    listed = {file["name"]: file for file in manifest["files"]}
    there = {path.name for path in folder.iterdir()} - {"manifest.json"}
    if there != set(listed):
        raise _Broken(f"files differ from the manifest: {sorted(there ^ set(listed))}")
    for name, file in listed.items():
        path = folder / name
        if path.is_symlink():
            raise _Broken(f"{name}: a link")
        if not is_unchanged(path, file["size_bytes"], file["sha256"]):
            raise _Broken(f"{name}: content differs from what was written")
        part = name.removesuffix(".safetensors")
        if part != name:
            layout = _layout_of_shards(manifest, name) or manifest["parts"][part]
            _check_tensors(name, path.read_bytes(), layout)
    return sum(file["size_bytes"] for file in listed.values())


def _layout_of_shards(manifest: Mapping[str, Json], name: str) -> dict[str, Json]:
    """Tensors of a file that one of several writers wrote; none of any other file."""
    return {
        key: {"dtype": one["dtype"], "shape": block["shape"]}
        for tensors in manifest.get("shards", {}).values()
        for key, one in tensors.items()
        for block in one["blocks"]
        if block["file"] == name
    }


def _check_bases(folder: Path, manifest: Mapping[str, Json], known: dict[str, bool]) -> None:
    """Check the frozen weights that a checkpoint refers to; each file is read once."""
    for base in manifest.get("bases", []):
        path, sha256 = folder / base["name"], base["sha256"]
        if sha256 not in known:
            known[sha256] = (
                path.is_file()
                and not path.is_symlink()
                and is_unchanged(path, base["size_bytes"], sha256)
            )
        if not known[sha256]:
            raise _Broken(f"{base['name']}: its frozen weights are missing or other ones")


def _check_tensors(name: str, data: bytes, layout: Mapping[str, Json]) -> None:
    """Names, dtypes and shapes as in the manifest, no gap between tensors, and no NaN in them."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    said = {key: {"dtype": one["dtype"], "shape": one["shape"]} for key, one in header.items()}
    if said != layout:
        raise _Broken(f"{name}: tensors differ from the manifest")
    body = data[8 + length :]
    place = 0
    for key, one in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = one["data_offsets"]
        count = int(np.prod(one["shape"], dtype=np.int64))
        if start != place or stop - start != count * _BYTES[one["dtype"]]:
            raise _Broken(f"{name}: {key} has another offset than its header says")
        if _has_nan(body[start:stop], one["dtype"]):
            raise _Broken(f"{name}: {key} holds NaN")
        place = stop
    if place != len(body):
        raise _Broken(f"{name}: {len(body) - place} bytes belong to no tensor")


def _has_nan(data: bytes, dtype: str) -> bool:
    if dtype == "BF16":
        # The upper half of an fp32: exponent all ones and a non-zero fraction.
        words = np.frombuffer(data, "<u2") & 0x7FFF
        return bool((words > 0x7F80).any())
    return dtype in _WORDS and bool(np.isnan(np.frombuffer(data, _WORDS[dtype])).any())


def _pointers(
    folder: Path, valid: list[str], lines: Mapping[str, Mapping[str, Json]]
) -> Iterator[Checked]:
    path = folder / "pointers.json"
    if not path.exists():
        yield note("pointers", "there are none: the next start writes them")
        return
    for what, name in read_json(path).items():
        if name and name not in valid:
            yield broken("pointers", f"{what} names {name}, which is damaged")
    committed = [line for line in lines.values() if line["kind"] == "committed"]
    newest = max(committed, key=lambda line: int(line["sequence"]), default={"name": ""})["name"]
    if newest and read_json(path).get("newest") != newest:
        yield note("pointers", f"newest is {newest} by the ledger: the next start updates it")


def _others(folder: Path, names: list[str]) -> Iterator[Checked]:
    for path in sorted(folder.iterdir()):
        name = path.name
        if name in (*names, "ledger.jsonl", "pointers.json", "lock") or name.startswith(".tmp-"):
            continue
        if TREES.fullmatch(name) or _BASE.fullmatch(name):
            continue
        if name.startswith("pinned-"):
            if name.removeprefix("pinned-") not in names:
                yield broken(name, "the pinned checkpoint is missing")
        elif name.startswith("quarantine-"):
            yield note(name, "it was damaged and set aside")
        elif name.startswith("replaced-"):
            yield note(name, "an interrupted save: the next start restores or removes it")
        else:
            yield note(name, "not part of a run's checkpoints")
