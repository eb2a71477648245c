"""What several ranks share between two steps: one validation, and the checkpoints of the first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import final

import torch

from trainwright.checkpoint.begin_elsewhere import Origin
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, NoCheckpoint, SaveOutcome
from trainwright.core.files import Json
from trainwright.distributed.strategy import Strategy
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.engine.job import NoValidation, Validate


def share_json(value: Json, strategy: Strategy) -> Json:
    """The value of rank 0 on every rank."""
    data = b"" if strategy.rank else json.dumps(value).encode()
    own = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0).byte()
    return json.loads(bytes(strategy.gather(own.to(strategy.device)).tolist()))


def share_validation(
    validate: Validate, strategy: Strategy, portions: AdaptiveEvalBatch
) -> Validate:
    """The validation, whose `portions` the ranks divide, with the values of rank 0 on every rank:
    so all take the same branch."""
    if strategy.world_size == 1 or isinstance(validate, NoValidation):
        return validate

    def validate_together() -> Mapping[str, float]:
        with portions.share_among(strategy):
            own = dict(validate())
        values: Mapping[str, float] = share_json(own, strategy)
        return values

    return validate_together


@final
class SharedCheckpoints:
    """Checkpoints of a run on several ranks: the first writes them, and all read the one that it
    has found, from a folder that they share.

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
        """Write it on the first rank."""
        if self._is_first:
            return self._store.save(step, parts, inventory, score)
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
