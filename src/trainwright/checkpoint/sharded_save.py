"""Checkpoints that several processes write together, and read back onto any number of processes.

One process, which owns the store, begins the save and gives its folder to all writers. Each writes
its shards; when all have returned (a barrier), the first commits, and only then is there a
checkpoint. Whatever fails before leaves none. Needs a file system that all writers share.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from torch import Tensor

from trainwright.checkpoint.files.manifest import LostBase, read_blocks, read_manifest
from trainwright.checkpoint.files.shard_files import Box, PartShards, collect_shards
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.checkpoint_files import base_reader
from trainwright.checkpoint.storages.local_storage import LocalStorage
from trainwright.checkpoint.store import Checkpoints
from trainwright.checkpoint.store_protocol import SaveOutcome
from trainwright.core.errors import NotAvailable, Problem, StorageFailed
from trainwright.core.files import Json


def begin_shards(checkpoints: Checkpoints) -> Path:
    """Folder that each writer of the next checkpoint passes to `write_shards`.

    Raises:
        NotAvailable: the storage is no folder. StorageFailed: not writable.
    """
    storage = checkpoints.storage
    if not isinstance(storage, LocalStorage):
        raise NotAvailable(
            Problem(
                "shards are written into a folder that all processes share",
                found=str(storage),
                fix="keep the checkpoints in such a folder",
            )
        )
    checkpoints.names()  # Opened first: opening removes what interrupted saves left.
    return storage.begin_shards()


def commit_shards(
    checkpoints: Checkpoints,
    place: Path,
    writers: int,
    step: int,
    parts: Mapping[str, Snapshot],
    inventory: Json,
    score: float | NotScored = NOT_SCORED,
) -> SaveOutcome:
    """Commit a checkpoint whose writers have all written their shards. `parts` are the values of
    every part, and the tensors that no writer has.

    Raises:
        StorageFailed: a shard is missing, they do not fit together, or `parts` hold a tensor of
            theirs; there is no checkpoint, and the next save can succeed.
    """
    try:
        shards = collect_shards(place, writers)
        assert not shards.parts.keys() - parts.keys(), "the values of each part are given"
        _check_once(shards.parts, parts)
        return checkpoints.save(step, parts, inventory, score, shards)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check_once(shards: PartShards, parts: Mapping[str, Snapshot]) -> None:
    """Check that no tensor is given as a whole that writers have written in shards."""
    for part, tensors in shards.items():
        whole = parts[part].tensors.keys() | parts[part].in_base.keys()
        if both := sorted(tensors.keys() & whole):
            raise StorageFailed(
                f"saving shards of {part}: {', '.join(both)} is given whole as well, and a "
                "checkpoint holds a tensor once: leave out what the writers have"
            )


def read_blocks_of(
    checkpoints: Checkpoints, name: str, part: str, wanted: Mapping[str, Box]
) -> dict[str, Tensor]:
    """Blocks of the tensors of a checkpoint, whatever the number of processes that wrote it, frozen
    ones included. Each file that holds some of their elements is verified.

    Raises:
        Damaged: it does not verify, or has no such tensor or block. NoValidCheckpoint: frozen
            weights of the run are missing. StorageFailed: not readable.
    """
    storage = checkpoints.storage
    read = partial(storage.read, name)
    manifest, _ = read_manifest(read)
    try:
        return read_blocks(read, manifest, part, wanted, base_reader(storage))
    except LostBase as lost:
        raise lost.refusal(name, storage) from None
