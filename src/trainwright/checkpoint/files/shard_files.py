"""Shards: the blocks of tensors that several processes write into one checkpoint.

Each writer stores its blocks in files of its own, and then a list of them; the process that commits
reads the lists, and writes the manifest if every tensor is covered without gap or overlap. Blocks
are boxes with offset and shape, so that a checkpoint is read back onto any other number of
processes.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, final

from torch import Tensor

from trainwright.checkpoint.files.file_entry import Bytes, FileEntry, file_entry, read_file
from trainwright.checkpoint.files.tensor_file import (
    allocate,
    blocks,
    describe,
    dtype_of,
    read_tensors,
)
from trainwright.checkpoint.strict_json import Damaged, read_count, read_sealed, write_sealed
from trainwright.core.errors import Mistake, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, check_name, storage_errors, sync_folder, write_synced

_FORMAT = 1
_MOST_LIST_BYTES = 64 * 1024 * 1024
_MOST_SIDES = 16


@final
@dataclass(frozen=True, slots=True)
class Box:
    """Block of a tensor: first index and number of elements along each dimension."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    def slices(self) -> tuple[slice, ...]:
        """Index of the block in its tensor."""
        return tuple(slice(a, a + n) for a, n in zip(self.offset, self.shape, strict=True))

    def overlap(self, other: Box) -> Box:
        """Elements in both; without any, a side is 0."""
        pairs = zip(self.offset, self.shape, other.offset, other.shape, strict=True)
        ends = [(max(a, b), min(a + n, b + m)) for a, n, b, m in pairs]
        return Box(tuple(a for a, _ in ends), tuple(max(0, stop - a) for a, stop in ends))

    def within(self, outer: Box) -> Box:
        """The same elements, counted from the first one of `outer`."""
        return Box(tuple(a - b for a, b in zip(self.offset, outer.offset, strict=True)), self.shape)

    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Check that this is a block of the tensor of this name and shape.

        Raises:
            Damaged: it is not.
        """
        sides = {len(self.offset), len(self.shape), len(shape)}
        if len(sides) > 1 or self.overlap(Box((0,) * len(shape), shape)) != self:
            raise Damaged(f"{name}: {self} reaches beyond its shape {shape}")


@final
@dataclass(frozen=True, slots=True)
class LocalBlock:
    """A block of a tensor of this whole shape: its elements from `offset` on."""

    tensor: Tensor
    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> Box:
        """Place of the block."""
        return Box(self.offset, tuple(self.tensor.shape))


@final
@dataclass(frozen=True, slots=True)
class TensorShards:
    """Tensor of a checkpoint: dtype as in `describe`, whole shape, and its blocks by file."""

    dtype: str
    shape: tuple[int, ...]
    boxes: Mapping[str, Box]

    def to_json(self) -> Json:
        """Entry in the manifest."""
        return {
            "dtype": self.dtype,
            "shape": list(self.shape),
            "blocks": [
                {"file": file, "offset": list(box.offset), "shape": list(box.shape)}
                for file, box in self.boxes.items()
            ],
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Inverse of `to_json`.

        Raises:
            Damaged: its blocks do not cover the tensor. KeyError, TypeError, ValueError: no entry.
        """
        boxes = {
            check_name(one["file"], "a file"): Box(_sides(one["offset"]), _sides(one["shape"]))
            for one in value["blocks"]
        }
        found = cls(str(value["dtype"]), _sides(value["shape"]), boxes)
        found.check()
        return found

    def check(self) -> None:
        """Check that the blocks cover the tensor, each element once.

        Raises:
            Damaged: they do not.
        """
        dtype_of(self.dtype)
        whole = Box((0,) * len(self.shape), self.shape)
        boxes = list(self.boxes.values())
        if any(
            len(box.offset) != len(self.shape) or len(box.shape) != len(self.shape) for box in boxes
        ):
            raise Damaged("a block of another number of dimensions than its tensor")
        if any(box.overlap(whole) != box for box in boxes if box.count()):
            raise Damaged("a block reaches beyond its tensor")
        if sum(box.count() for box in boxes) != whole.count():
            raise Damaged("blocks are missing, or stand twice")
        # Of the right sum, blocks that overlap leave a gap elsewhere.
        pairs = ((one, two) for at, one in enumerate(boxes) for two in boxes[:at])
        if any(one.overlap(two).count() for one, two in pairs):
            raise Damaged("blocks overlap")


PartShards = Mapping[str, Mapping[str, TensorShards]]
"""Tensors that are stored in shards, by part and name."""


@final
@dataclass(frozen=True, slots=True)
class WrittenShards:
    """Shards of all writers, in the folder `place` of a save that was begun; none in a save of one
    process."""

    place: str = ""
    files: tuple[FileEntry, ...] = ()
    parts: PartShards = field(default_factory=dict)


NO_SHARDS: Final = WrittenShards()


def write_shards(
    folder: Path, writer: int, writers: int, parts: Mapping[str, Mapping[str, LocalBlock]]
) -> None:
    """Write the blocks of one writer into the folder of a save, and then the list of them; durable
    on return.

    Raises:
        StorageFailed: not writable.
    """
    assert 0 <= writer < writers, "writers are counted from 0"
    files: list[FileEntry] = []
    with storage_errors(f"saving shards into {folder}"):
        for part, shards in parts.items():
            local = {n: one.tensor.detach().cpu().contiguous() for n, one in shards.items()}
            if local:
                name = f"{check_name(part, 'a part')}.{writer:05d}-of-{writers:05d}.safetensors"
                files.append(_write(folder / name, name, local))
        layouts = {part: _describe(shards) for part, shards in parts.items() if shards}
        content = {
            "place": folder.name,
            "files": [file.to_json() for file in files],
            "parts": layouts,
        }
        reached("ckpt.manifest")
        write_synced(folder / list_of(writer, writers), write_sealed(content, _FORMAT))
        sync_folder(folder)


def list_of(writer: int, writers: int) -> str:
    """File name of the list of one writer's shards."""
    return f"shards.{writer:05d}-of-{writers:05d}.json"


def collect_shards(folder: Path, writers: int) -> WrittenShards:
    """Shards of all writers of a save, once all of them have returned from `write_shards`.

    Raises:
        StorageFailed: a writer has not written its shards, or they do not fit together.
    """
    files: list[FileEntry] = []
    tensors: dict[str, dict[str, TensorShards]] = {}
    absent = [one for one in range(writers) if not (folder / list_of(one, writers)).is_file()]
    if absent:
        raise StorageFailed(
            f"saving {folder}: of {writers} writers {', '.join(map(str, absent))} wrote no shards"
        )
    for writer in range(writers):
        name = list_of(writer, writers)
        try:
            content = read_sealed(bytes(read_file(folder, name, _MOST_LIST_BYTES)), _FORMAT)
            if content["place"] != folder.name:
                raise Damaged("the shards are of another save")
            own = [file_entry(file) for file in content["files"]]
            for file in own:
                if (folder / file.name).stat().st_size != file.size_bytes:
                    raise Damaged(f"{file.name}: it is not whole")
            _add(tensors, content["parts"], writer, writers)
        except (OSError, LookupError, TypeError, AttributeError, ValueError, Mistake) as error:
            raise StorageFailed(f"saving {folder}: {name}: {error}") from error
        files += own
    for part, shards in tensors.items():
        for name, one in shards.items():
            try:
                one.check()
            except Damaged as error:
                raise StorageFailed(f"saving {folder}: {part}/{name}: {error}") from error
    return WrittenShards(folder.name, tuple(files), tensors)


def read_shards(
    read: Callable[[str], Bytes],
    tensors: Mapping[str, TensorShards],
    wanted: Mapping[str, Box] | None = None,
) -> dict[str, Tensor]:
    """Tensors from their blocks, or only the wanted blocks of the named ones; files that hold none
    of their elements are not read.

    Raises:
        Damaged: a file is not the one of the manifest, or a wanted block is no part of its tensor.
    """
    whole = {name: Box((0,) * len(one.shape), one.shape) for name, one in tensors.items()}
    asked = whole if wanted is None else wanted
    found: dict[str, Tensor] = {}
    for name, box in asked.items():
        box.check(name, tensors[name].shape)
        found[name] = allocate(name, box.shape, dtype_of(tensors[name].dtype))
    for file in dict.fromkeys(file for name in asked for file in tensors[name].boxes):
        parts = {n: one.boxes[file] for n, one in tensors.items() if file in one.boxes}
        some = {n: box.overlap(asked[n]) for n, box in parts.items() if n in asked}
        if not any(box.count() for box in some.values()):
            continue
        stored = _read(read(file), file, tensors, parts)
        for name, box in some.items():
            from_file = stored[name][box.within(parts[name]).slices()]
            found[name][box.within(asked[name]).slices()] = from_file
    return found


def _read(
    data: Bytes, file: str, tensors: Mapping[str, TensorShards], parts: Mapping[str, Box]
) -> dict[str, Tensor]:
    layout = {n: {"dtype": tensors[n].dtype, "shape": list(box.shape)} for n, box in parts.items()}
    try:
        return read_tensors(data, layout)
    except Damaged as error:
        raise Damaged(f"{file}: {error}") from None


def _write(path: Path, name: str, tensors: Mapping[str, Tensor]) -> FileEntry:
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as stream:
        for block in blocks(tensors):
            digest.update(block)
            stream.write(block)
            size += len(block)
            reached("ckpt.write")
        stream.flush()
        reached("ckpt.fsync")
        os.fsync(stream.fileno())
    return FileEntry(name, size, digest.hexdigest())


def _describe(shards: Mapping[str, LocalBlock]) -> Json:
    local = describe({name: one.tensor for name, one in shards.items()})
    return {
        name: {
            "dtype": local[name]["dtype"],
            "shape": list(one.shape),
            "offset": list(one.offset),
            "block": list(one.tensor.shape),
        }
        for name, one in shards.items()
    }


def _add(
    tensors: dict[str, dict[str, TensorShards]], parts: Json, writer: int, writers: int
) -> None:
    """Add the blocks of one writer to those of the others."""
    for part, shards in parts.items():
        file = f"{check_name(part, 'a part')}.{writer:05d}-of-{writers:05d}.safetensors"
        for name, one in shards.items():
            dtype, shape = str(one["dtype"]), _sides(one["shape"])
            known = tensors.setdefault(part, {}).get(name, TensorShards(dtype, shape, {}))
            if (known.dtype, known.shape) != (dtype, shape):
                raise Damaged(f"{part}/{name}: {dtype} {list(shape)} here, other elsewhere")
            box = Box(_sides(one["offset"]), _sides(one["block"]))
            tensors[part][name] = TensorShards(dtype, shape, {**known.boxes, file: box})


def _sides(value: Sequence[Json]) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > _MOST_SIDES:
        raise ValueError("no list of sides")
    return tuple(read_count(one) for one in value)
