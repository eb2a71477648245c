"""What several ranks share between two steps: one validation, and the checkpoints of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import final

import torch

from trainwright.checkpoint.begin_elsewhere import Origin
from trainwright.checkpoint.files.shard_files import LocalBlock, write_shards
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.sharded_save import begin_shards, commit_shards
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import (
    Checkpoints,
    CheckpointStore,
    Kept,
    Loaded,
    NoCheckpoint,
    SaveOutcome,
)
from trainwright.checkpoint.store_calls import calls_of
from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json
from trainwright.distributed.strategy import Strategy
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.engine.job import NoValidation, Validate


def share_json(value: Json, strategy: Strategy) -> Json:
    """The value of rank 0 on every rank."""
    return json.loads(gather_text("" if strategy.rank else json.dumps(value), strategy))


def gather_text(own: str, strategy: Strategy) -> str:
    """The texts of all ranks, joined in their order."""
    data = own.encode()
    codes = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0).byte()
    return bytes(strategy.gather(codes.to(strategy.device)).tolist()).decode()


def share_validation(
    validate: Validate, strategy: Strategy, portions: AdaptiveEvalBatch
) -> Validate:
    """The validation, whose `portions` the ranks divide, with the values of rank 0 on every rank:
    so all take the same branch."""
    if strategy.world_size == 1 or isinstance(validate, NoValidation):
        return validate

    # All ranks that divide a model make each of its passes.
    is_divided = strategy.share.world_size < strategy.world_size

    def validate_together() -> Mapping[str, float]:
        with nullcontext() if is_divided else portions.share_among(strategy):
            own = dict(validate())
        values: Mapping[str, float] = share_json(own, strategy)
        return values

    return validate_together


def with_shards(checkpoints: Checkpoints, strategy: Strategy) -> CheckpointStore:
    """Store of the first rank, whose checkpoints hold the shards that the ranks have written. Every
    rank sees its folder."""

    def save(
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        if not _has_shards(parts):
            return checkpoints.save(step, parts, inventory, score)
        place = write_together(parts, strategy, lambda: begin_shards(checkpoints))
        whole = {name: part.without_shards() for name, part in parts.items()}
        ranks = strategy.world_size
        return commit_shards(checkpoints, place, ranks, step, whole, inventory, score)

    return replace(calls_of(checkpoints), save=save)


def _written_by_rank(part: Snapshot) -> dict[str, LocalBlock]:
    return {
        name: LocalBlock(part.tensors[name], place.offset, place.shape)
        for name, place in part.shards.items()
        if place.is_written
    }


def _has_shards(parts: Mapping[str, Snapshot]) -> bool:
    return any(part.shards for part in parts.values())


def write_together(
    parts: Mapping[str, Snapshot], strategy: Strategy, begin: Callable[[], Path] = Path
) -> Path:
    """Write the shards of each rank into the folder that the first one begins.

    Raises:
        StorageFailed: one of them could not; on every rank.
    """
    place, failed = "", ""
    try:
        place = str(begin())
    except StorageFailed as error:
        failed = str(error)
    place = share_json("" if failed else place, strategy)
    if place:
        own = {name: _written_by_rank(part) for name, part in parts.items()}
        try:
            write_shards(Path(place), strategy.rank, strategy.world_size, own)
        except StorageFailed as error:
            failed = f"rank {strategy.rank}: {error}"
    if failed := gather_text(failed, strategy):
        raise StorageFailed(failed)
    return Path(place)


@final
class SharedCheckpoints:
    """Checkpoints of a run on several ranks: the first writes them, with shards that each rank has
    written, and all read the one that it has found, from a folder that they share.

    Args:
        store: that of the first rank.
        own: where the checkpoints of the run lie.
        start: the checkpoint of another run that this one begins at, if it does.
    """

    def __init__(
        self, store: CheckpointStore, strategy: Strategy, own: Origin, start: Origin | None = None
    ) -> None:
        self._store = store
        self._strategy = strategy
        self._own, self._start = own, start
        self._is_first = strategy.rank == 0

    def taking(self) -> AbstractContextManager[None]:
        """That of the first rank."""
        return self._store.taking() if self._is_first else nullcontext()

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Write it on the first rank, once each rank has written its shards."""
        if self._is_first:
            return self._store.save(step, parts, inventory, score)
        if _has_shards(parts):
            with suppress(StorageFailed):  # the first rank says so
                write_together(parts, self._strategy)
        return SaveOutcome("", 0.0, 0, step, score)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """Those of the first rank."""
        return self._store.settled(wait=wait) if self._is_first else ()

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """The checkpoint that the first rank finds, on every rank.

        Raises:
            NoValidCheckpoint: this rank cannot read it.
        """
        found: Loaded | NoCheckpoint = NoCheckpoint()
        if self._is_first:
            found = self._store.newest_valid(up_to, further)
        named = [found.step, found.elsewhere] if isinstance(found, Loaded) else []
        named = share_json(named, self._strategy)
        if named and not self._is_first:
            step, elsewhere = named
            origin = self._start if elsewhere else replace(self._own, step=step)
            assert origin is not None, "it begins at the checkpoint of its plan"
            found = replace(origin.load(), elsewhere=elsewhere)
        share_json("all have read it", self._strategy)  # the first may remove it afterwards
        return found
