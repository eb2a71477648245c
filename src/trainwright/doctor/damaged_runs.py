"""Verification of a run's files when reading them fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trainwright.core.errors import DamagedFile, StorageFailed, TrainwrightError
from trainwright.tracking.run_folder import RunFolder

_MOST_SHOWN = 10


@contextmanager
def verifying_on_error(
    *folders: RunFolder, passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """If reading these runs fails in the block and one of them does not verify, report the damage.

    An error on intact runs is a bug, and is raised unchanged, as are those that are `passing`.

    Raises:
        StorageFailed: a run is damaged.
    """
    try:
        yield
    except Exception as error:
        tells_itself = (*passing, TrainwrightError, MemoryError)
        if isinstance(error, DamagedFile) or not isinstance(error, tells_itself):
            _name_damage(folders, error)
        raise


def _name_damage(folders: Sequence[RunFolder], error: Exception) -> None:
    for folder in folders:
        if damage := _damage_of(folder):
            listed = "".join(f"\n    {line}" for line in damage[:_MOST_SHOWN])
            first = f"{error}\n" if isinstance(error, DamagedFile) else ""
            raise StorageFailed(
                f"{first}run {folder.name} is damaged:{listed}\nput back the files of this run; "
                f"trainwright runs verify {folder.path} checks them all"
            ) from error


def _damage_of(folder: RunFolder) -> list[str]:
    # Imported here: only what failed needs it.
    from trainwright.doctor.verify_run import verify_run

    found = verify_run(folder)
    return [f"{one.what}: {one.message}" for one in found if one.status == "broken"]
