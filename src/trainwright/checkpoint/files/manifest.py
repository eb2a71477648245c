"""`manifest.json`: files of a checkpoint, with size and hash."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Self, final

from torch import Tensor

from trainwright.checkpoint.files.file_entry import (
    Bytes,
    FileEntry,
    ReadFile,
    file_entry,
    read_verified,
)
from trainwright.checkpoint.files.shard_files import (
    Box,
    PartShards,
    TensorShards,
    read_shards,
)
from trainwright.checkpoint.files.tensor_file import read_foreign, read_tensors
from trainwright.checkpoint.frozen_weights import BaseTensor
from trainwright.checkpoint.keeping.retention import NotScored, score_from_json, score_to_json
from trainwright.checkpoint.state import Adopt, Snapshot
from trainwright.checkpoint.strict_json import (
    Damaged,
    pack,
    read_canonical,
    read_count,
    read_sealed,
    unpack,
    write_sealed,
)
from trainwright.core.errors import Mistake, NoValidCheckpoint
from trainwright.core.files import Json, check_name, hash_bytes

FORMAT = 1
SHARED_FORMAT = 2
MANIFEST = "manifest.json"
VALUES = "values.json"
_MAX_MANIFEST_BYTES = 64 * 1024 * 1024
_READERS = 2

Frozen = Mapping[str, Mapping[str, BaseTensor]]
"""Tensors of each part that stand in a base, by name."""


def base_file_of(sha256: str) -> str:
    """File name of a base; a safe name has at most 64 characters."""
    return f"base-{sha256[:32]}.safetensors"


def tensor_file_of(part: str) -> str:
    """File name of a part's tensors."""
    return f"{part}.safetensors"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of a checkpoint.

    `lineage` is shared by all checkpoints of a run, `sequence` counts them, `parent` names the
    previous one. `layouts` gives each part's tensors with dtype and shape; a part without tensors
    has an empty layout and no file. `bases` are the files with frozen tensors, which checkpoints
    share, `shards` the blocks of the tensors that several processes wrote; one without either is of
    format 1.
    """

    lineage: str
    sequence: int
    step: int
    parent: str
    score: float | NotScored
    layouts: Mapping[str, Json]
    inventory: Json
    files: tuple[FileEntry, ...]
    bases: tuple[FileEntry, ...] = ()
    frozen: Frozen = field(default_factory=dict)
    shards: PartShards = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Bytes of the file: the content and its hash."""
        content: dict[str, Json] = {
            "lineage": self.lineage,
            "sequence": self.sequence,
            "step": self.step,
            "parent": self.parent,
            "score": score_to_json(self.score),
            "parts": dict(self.layouts),
            "inventory": pack(self.inventory),
            "files": [file.to_json() for file in self.files],
        }
        if not (self.bases or self.shards):
            return write_sealed(content, FORMAT)
        content["bases"] = [base.to_json() for base in self.bases]
        content["frozen"] = {
            part: {name: [at.base, at.name] for name, at in names.items()}
            for part, names in self.frozen.items()
        }
        content["shards"] = {
            part: {name: one.to_json() for name, one in tensors.items()}
            for part, tensors in self.shards.items()
        }
        return write_sealed(content, SHARED_FORMAT)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Inverse of `to_bytes`.

        Raises:
            Damaged: any bit has changed, or the format is another one.
        """
        content = read_sealed(data, FORMAT, SHARED_FORMAT)
        try:
            return cls(
                lineage=content["lineage"],
                sequence=read_count(content["sequence"]),
                step=read_count(content["step"]),
                parent=content["parent"],
                score=score_from_json(content["score"]),
                layouts={check_name(part, "a part"): x for part, x in content["parts"].items()},
                inventory=unpack(content["inventory"]),
                files=tuple(file_entry(file) for file in content["files"]),
                bases=tuple(_base_entry(file) for file in content.get("bases", [])),
                frozen=_frozen(content.get("frozen", {})),
                shards=_shards(content.get("shards", {})),
            )
        except (LookupError, TypeError, AttributeError, ValueError, Mistake) as error:
            raise Damaged(f"not the manifest of a checkpoint: {error}") from None


@final
class LostBase(Exception):
    """The frozen weights that a checkpoint refers to are missing, or are other ones."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name

    def refusal(self, checkpoint: str, storage: object) -> NoValidCheckpoint:
        """The error for the run whose checkpoint refers to it."""
        return NoValidCheckpoint(
            f"{checkpoint} needs the frozen weights of the run, {self.name}, from {storage}: "
            f"{self}. Put this file back, or start over as a new run"
        )


def read_manifest(read: ReadFile) -> tuple[Manifest, str]:
    """Manifest of a checkpoint and the SHA-256 of its bytes.

    Raises:
        Damaged: missing or corrupt. StorageFailed: it cannot be read at the moment.
    """
    data = bytes(read(MANIFEST, _MAX_MANIFEST_BYTES))
    try:
        return Manifest.from_bytes(data), hash_bytes(data)
    except Damaged as error:
        raise Damaged(f"{MANIFEST}: {error}") from None


def read_parts(
    read: ReadFile,
    manifest: Manifest,
    read_base: ReadFile | None = None,
    adopt: Adopt | None = None,
) -> dict[str, Snapshot]:
    """All parts, each file checked against the manifest; `read_base` reads the bases. The parts
    report to `adopt` what was restored from a base.

    Raises:
        Damaged: a file is missing or corrupt. LostBase: a base is. StorageFailed: as
            `read_manifest`.
    """
    bases = {base.sha256: _read_base(read_base, base) for base in manifest.bases}
    files = {file.name: file for file in manifest.files}
    values = read_canonical(bytes(_verified(read, files, VALUES)))
    if not isinstance(values, dict) or set(values) != set(manifest.layouts):
        raise Damaged(f"{VALUES}: other parts than the manifest names")
    layouts = {part: layout for part, layout in manifest.layouts.items() if layout}
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as pool:
        # Hashing is most of the work; the files are hashed in parallel.
        read_part = partial(_read_part, read, files)
        found = dict(zip(layouts, pool.map(read_part, layouts, layouts.values()), strict=True))
    parts: dict[str, Snapshot] = {}
    for part in manifest.layouts:
        frozen = manifest.frozen.get(part, {})
        of_base = {name: _tensor_of(bases, at) for name, at in frozen.items()}
        sharded = read_shards(partial(_verified, read, files), manifest.shards.get(part, {}))
        tensors = {**of_base, **sharded, **found.get(part, {})}
        parts[part] = Snapshot.owning(tensors, unpack(values[part]), frozen, adopt)
    return parts


def _read_base(read_base: ReadFile | None, base: FileEntry) -> dict[str, Tensor]:
    try:
        if read_base is None:
            raise Damaged("this storage keeps no base")
        return read_foreign(read_verified(read_base, base))
    except Damaged as error:
        raise LostBase(base.name, str(error)) from None


def _tensor_of(bases: Mapping[str, Mapping[str, Tensor]], at: BaseTensor) -> Tensor:
    if at.name not in bases.get(at.base, {}):
        raise Damaged(f"{MANIFEST}: {at.name} is in none of its bases")
    return bases[at.base][at.name]


def _read_part(
    read: ReadFile, files: Mapping[str, FileEntry], part: str, layout: Json
) -> dict[str, Tensor]:
    name = tensor_file_of(part)
    data = _verified(read, files, name)
    try:
        return read_tensors(data, layout)
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None


def _verified(read: ReadFile, files: Mapping[str, FileEntry], name: str) -> Bytes:
    entry = files.get(name)
    if entry is None:
        raise Damaged(f"{name}: not in the manifest")
    return read_verified(read, entry)


def read_blocks(
    read: ReadFile,
    manifest: Manifest,
    part: str,
    wanted: Mapping[str, Box],
    read_base: ReadFile | None = None,
) -> dict[str, Tensor]:
    """Blocks of a part's tensors, of any number of writers: only files that hold some are read;
    `read_base` reads the bases, for frozen tensors.

    Raises:
        Damaged: a file is missing or corrupt, or the part has no such tensor or block. LostBase: a
            base is. StorageFailed: as `read_manifest`.
    """
    files = {file.name: file for file in manifest.files}
    sharded = manifest.shards.get(part, {})
    layout = manifest.layouts.get(part, {})
    frozen = manifest.frozen.get(part, {})
    if unknown := sorted(wanted.keys() - sharded.keys() - layout.keys() - frozen.keys()):
        raise Damaged(f"{part}: there is no tensor {', '.join(unknown)}")
    of_shards = {name: box for name, box in wanted.items() if name in sharded}
    found = read_shards(partial(_verified, read, files), sharded, of_shards)
    rest = {name: box for name, box in wanted.items() if name not in sharded}
    whole = _read_part(read, files, part, layout) if rest.keys() & layout.keys() else {}
    of_base = {name: frozen[name] for name in rest if name not in layout}
    needed = {at.base for at in of_base.values()}
    bases = {
        one.sha256: _read_base(read_base, one) for one in manifest.bases if one.sha256 in needed
    }
    whole |= {name: _tensor_of(bases, at) for name, at in of_base.items()}
    for name, box in rest.items():
        box.check(name, tuple(whole[name].shape))
        found[name] = whole[name][box.slices()].clone()
    return found


def _shards(value: Json) -> PartShards:
    return {
        part: {name: TensorShards.from_json(one) for name, one in tensors.items()}
        for part, tensors in value.items()
    }


def _frozen(value: Json) -> Frozen:
    return {
        part: {name: BaseTensor(str(at[0]), str(at[1])) for name, at in names.items()}
        for part, names in value.items()
    }


def _base_entry(value: Json) -> FileEntry:
    base = file_entry(value)
    if base.name != base_file_of(base.sha256):
        raise ValueError(f"{base.name!r} is not the name of a base")
    return base
