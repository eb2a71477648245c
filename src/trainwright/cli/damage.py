"""Damaged files of a run, named where a verb stumbles over one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from trainwright.core.errors import StorageFailed, TrainwrightError
from trainwright.tracking.run_folder import RunFolder

_MOST_SHOWN = 10


@contextmanager
def naming_damage(*folders: RunFolder) -> Iterator[None]:
    """The block reads these runs: where it fails and a run does not verify, that is the cause.

    An error on runs that are whole is one of this program, and is raised unchanged.

    Raises:
        StorageFailed: a run is damaged.
    """
    try:
        yield
    except (TrainwrightError, typer.Exit, MemoryError):
        raise
    except Exception as error:
        for folder in folders:
            if damage := _damage_of(folder):
                listed = "".join(f"\n    {line}" for line in damage[:_MOST_SHOWN])
                raise StorageFailed(
                    f"run {folder.name} is damaged:{listed}\nput back the files of this run; "
                    f"trainwright runs verify {folder.path} checks them all"
                ) from error
        raise


def _damage_of(folder: RunFolder) -> list[str]:
    # Imported here: no verb needs it but one that failed.
    from trainwright.doctor.verify_run import verify_run

    found = verify_run(folder)
    return [f"{one.what}: {one.message}" for one in found if one.status == "broken"]
