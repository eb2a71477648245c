"""A run goes on only where it can have the same bits, if that is what its contract says.

Needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import final

from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, NoCheckpoint
from trainwright.contract.resume import Resume
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.engine.inventory import why_not_exact


def with_same_bits(store: CheckpointStore, section: Resume, inventory: Json) -> CheckpointStore:
    """The store, guarded where the contract promises bits and does not accept others."""
    if section.determinism != "bitwise" or section.numerics_changed == "record":
        return store
    return SameBits(store, inventory)


@final
class SameBits:
    """A store that gives no checkpoint to a process whose bits would be others than those of the
    process that wrote it: nothing of it is restored then."""

    def __init__(self, store: CheckpointStore, inventory: Json) -> None:
        self._store = store
        self._inventory = inventory

    def taking(self) -> AbstractContextManager[None]:
        """As the store does it."""
        return self._store.taking()

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """As the store does it."""
        return self._store.save(step, parts, inventory, score)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """What the store says."""
        return self._store.settled(wait=wait)

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """What the store has.

        Raises:
            Mistake: another version of torch, number of threads, device or processor wrote it.
        """
        found = self._store.newest_valid(up_to, further)
        if isinstance(found, Loaded) and (why := why_not_exact(found.inventory, self._inventory)):
            raise Mistake(
                Problem(
                    "the run cannot go on with the same bits, which resume.determinism promises",
                    path="resume.determinism",
                    found=why,
                    expected=f"what wrote {found.name}",
                    fix="go on where it was started, for example with the same OMP_NUM_THREADS, or "
                    "accept other last bits: --set resume.numerics_changed=record",
                )
            )
        return found
