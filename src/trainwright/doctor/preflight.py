"""Checks before budget is spent. Each looks at what is known and says what it found."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainwright.core.units import show_bytes
from trainwright.data.features import Features
from trainwright.data.leakage import find_leaks, find_suspicions
from trainwright.data.prepared import Prepared
from trainwright.data.quality.finding import Finding, worst_first
from trainwright.planner.plan import Plan

_SPARE_BYTES = 256 * 2**20
_FEW_TEST_ROWS = 100


def preflight(decided: Plan, prepared: Prepared, runs: Path) -> tuple[Finding, ...]:
    """Everything that was found, the worst first."""
    return worst_first(
        (
            *_leaks(prepared),
            *_duplicates(prepared),
            *_test_rows(prepared),
            _disk(decided, runs),
        )
    )


def _leaks(prepared: Prepared) -> tuple[Finding, ...]:
    if not isinstance(prepared.features, Features):
        return ()
    train = prepared.train.frame
    columns = prepared.features.columns
    target = train[prepared.target.column]
    fix = "list the column in data.exclude if it is not known when a prediction is made"
    leaks = [
        Finding("leak", "error", leak.message, len(leak.columns), columns=leak.columns, fix=fix)
        for leak in find_leaks(train, columns, target)
    ]
    suspicions = [
        Finding("suspicious_feature", "warning", each.message, 1, columns=(each.column,), fix=fix)
        for each in find_suspicions(train, columns, target)
    ]
    return (*leaks, *suspicions)


def _duplicates(prepared: Prepared) -> tuple[Finding, ...]:
    count = prepared.split.duplicate_rows
    if not count:
        return ()
    held = len(prepared.validation) + len(prepared.test)
    message = f"{count:,} of {held:,} validation and test rows equal a training row"
    return (Finding("exact_duplicates", "warning", message, count),)


def _test_rows(prepared: Prepared) -> tuple[Finding, ...]:
    rows = len(prepared.test)
    if rows >= _FEW_TEST_ROWS:
        return ()
    message = f"{rows:,} test rows for the verdict: the intervals will be wide"
    return (Finding("few_test_rows", "warning", message, rows, fix="give more rows to the test"),)


def _disk(decided: Plan, runs: Path) -> Finding:
    """Room for the weights, the optimizer's two moments and the kept checkpoints, in fp32."""
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    parameters = decided.estimate.parameters
    keeps = decided.contract.training.checkpointing.keep_top_k + 2
    needed = _SPARE_BYTES + (0 if parameters == "unknown" else parameters * 4 * 3 * keeps)
    if not os.access(folder, os.W_OK):
        return Finding("disk", "warning", f"{folder} cannot be written")
    message = f"{show_bytes(free)} free in {folder}, about {show_bytes(needed)} needed"
    return Finding("disk", "info" if free >= needed else "warning", message)
