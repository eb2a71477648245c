"""Unfinished writes that processes which died have left."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from trainwright.core.files import storage_errors
from trainwright.tracking.run_folder import RunFolder

_UNFINISHED = re.compile(r"\.tmp-([0-9]+)-")


def remove_unfinished_of_run(folder: RunFolder) -> None:
    """Remove unfinished writes that dead processes have left in a run folder that is locked.

    Raises:
        StorageFailed: the folder cannot be read or changed.
    """
    remove_unfinished(folder.path, folder.data, folder.path / "baselines")


def remove_unfinished(*places: Path) -> None:
    """Remove unfinished writes that dead processes have left in these folders.

    Raises:
        StorageFailed: a folder cannot be read or changed.
    """
    with storage_errors(f"tidying {places[0]}"):
        for path in (path for place in places for path in place.glob(".tmp-*")):
            match = _UNFINISHED.match(path.name)
            if match is None or _is_of_another(int(match[1])):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _is_of_another(pid: int) -> bool:
    """Whether another process of this number is alive: it may be writing just now."""
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()
