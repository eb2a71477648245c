"""A run goes on only where it can have the same bits, if that is what its contract says.

Needs torch.
"""

from __future__ import annotations

from functools import partial

from trainwright.checkpoint.guard_loads import guard_loads
from trainwright.checkpoint.store import CheckpointStore, Loaded
from trainwright.contract.resume import Resume
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.engine.numeric_env import why_not_exact


def with_same_bits(store: CheckpointStore, section: Resume, inventory: Json) -> CheckpointStore:
    """The store, guarded where the contract promises bits and does not accept others: it gives no
    checkpoint to a process whose bits would be others than those of the process that wrote it."""
    if section.determinism != "bitwise" or section.numerics_changed == "record":
        return store
    return guard_loads(store, partial(_check_bits, inventory))


def _check_bits(inventory: Json, found: Loaded) -> None:
    """Refuse what another version of torch, number of threads, device or processor wrote."""
    if why := why_not_exact(found.inventory, inventory):
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
