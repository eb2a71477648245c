"""Checks before budget is spent. Each looks at what is known and says what it found."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from trainwright.core.files import Json
from trainwright.core.units import show_bytes
from trainwright.data.features import Features
from trainwright.data.leakage import find_leaks, find_suspicions
from trainwright.data.prepared import Prepared
from trainwright.planner.plan import Plan

_SPARE_BYTES = 256 * 2**20
_FEW_TEST_ROWS = 100


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. A `warning` does not stop a run; a person should look at it."""

    check: str
    status: Literal["ok", "warning"]
    message: str

    def to_json(self) -> Json:
        """The fields by name."""
        return {"check": self.check, "status": self.status, "message": self.message}


def preflight(decided: Plan, prepared: Prepared, runs: Path) -> tuple[Finding, ...]:
    """All findings, one or more for each check."""
    return (
        *_leaks(prepared),
        _duplicates(prepared),
        _test_rows(prepared),
        _disk(decided, runs),
    )


def _leaks(prepared: Prepared) -> tuple[Finding, ...]:
    if not isinstance(prepared.features, Features):
        return ()
    train = prepared.train.frame
    columns = prepared.features.columns
    target = train[prepared.target.column]
    leaks = find_leaks(train, columns, target)
    suspicions = find_suspicions(train, columns, target)
    found = [f"leak: {leak.message}" for leak in leaks]
    found += [f"suspicious: {suspicion.message}" for suspicion in suspicions]
    if not found:
        return (Finding("leakage", "ok", "no column gives the target away"),)
    return tuple(Finding("leakage", "warning", message) for message in found)


def _duplicates(prepared: Prepared) -> Finding:
    count = prepared.split.duplicate_rows
    if not count:
        return Finding("duplicates", "ok", "no validation or test row equals a training row")
    held = len(prepared.validation) + len(prepared.test)
    return Finding(
        "duplicates",
        "warning",
        f"{count:,} of {held:,} validation and test rows equal a training row",
    )


def _test_rows(prepared: Prepared) -> Finding:
    rows = len(prepared.test)
    status: Literal["ok", "warning"] = "warning" if rows < _FEW_TEST_ROWS else "ok"
    wide = ": the intervals will be wide" if status == "warning" else ""
    return Finding("test rows", status, f"{rows:,} rows for the verdict{wide}")


def _disk(decided: Plan, runs: Path) -> Finding:
    """Room for the weights, the optimizer's two moments and the kept checkpoints, in fp32."""
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    parameters = decided.estimate.parameters
    keeps = decided.contract.training.checkpointing.keep_top_k + 2
    needed = _SPARE_BYTES + (0 if parameters == "unknown" else parameters * 4 * 3 * keeps)
    writable = os.access(folder, os.W_OK)
    message = f"{show_bytes(free)} free in {folder}, about {show_bytes(needed)} needed"
    if not writable:
        return Finding("disk", "warning", f"{folder} cannot be written")
    return Finding("disk", "ok" if free >= needed else "warning", message)
