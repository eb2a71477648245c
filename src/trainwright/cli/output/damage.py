"""Verification of a run's files when a verb fails on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from trainwright.tracking.run_folder import RunFolder


@contextmanager
def naming_damage(*folders: RunFolder) -> Iterator[None]:
    """`verifying_on_error` for a verb, which may end by an exit."""
    from trainwright.doctor.damaged_runs import verifying_on_error

    with verifying_on_error(*folders, passing=(typer.Exit,)):
        yield
