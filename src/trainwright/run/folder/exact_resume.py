"""Exact-resume guard: a run resumes only where it can be bit-exact, if its contract requires that.

Needs torch.
"""

from __future__ import annotations

from functools import partial

from trainwright.checkpoint.store import CheckpointStore, Loaded
from trainwright.checkpoint.store_calls import guard_loads
from trainwright.contract.sections.run_settings import Resume
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.engine.execution.numeric_env import why_not_exact

_AXES = ("tensor", "pipeline")


def with_same_bits(store: CheckpointStore, section: Resume, inventory: Json) -> CheckpointStore:
    """Guarded store, if the contract requires exact bits and does not accept others: it refuses
    checkpoints written in another numeric environment."""
    if section.determinism != "bitwise" or section.numerics_changed == "record":
        return store
    return guard_loads(store, partial(_check_bits, inventory))


def _check_bits(inventory: Json, found: Loaded) -> None:
    """Refuse checkpoints of another torch version, number of threads or ranks, device or
    processor."""
    if why := why_not_exact(found.inventory, inventory):
        before = {**inventory, **found.inventory}
        where = "where it was started"
        if before["ranks"] != inventory["ranks"]:
            where = f"with the same number of ranks, {before['ranks']}"
        elif changed := [axis for axis in _AXES if before[axis] != inventory[axis]]:
            settings = [f"--set distributed.{axis}={before[axis]}" for axis in changed]
            where = f"as it was divided: {' '.join(settings)}"
        elif before["threads"] != inventory["threads"]:
            where = f"with the same threads: --set compute.threads={before['threads']}"
        raise Mistake(
            Problem(
                "the run cannot resume bit-exactly, which resume.determinism promises",
                path="resume.determinism",
                found=why,
                expected=f"what wrote {found.name}",
                fix=f"resume {where}, or accept other last bits: "
                "--set resume.numerics_changed=record",
            )
        )
