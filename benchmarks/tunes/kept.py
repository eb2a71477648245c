"""Measured pieces in files, so that a long benchmark may run in several goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from trainwright.core.files import read_json, write_json


class Unfinished(Exception):
    """As many pieces as were asked for are measured, and some are left."""


@final
class Kept:
    """JSON of measured pieces in a folder, of which at most `most` are measured this time."""

    def __init__(self, folder: Path, most: float) -> None:
        self.folder, self._left = folder, most
        folder.mkdir(parents=True, exist_ok=True)

    def read_or(self, name: str, measure: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The piece of this name, measured if it is not there.

        Raises:
            Unfinished: it would be one too many.
        """
        path = self.folder / f"{name}.json"
        if not path.is_file():
            if not self._left:
                raise Unfinished
            self._left -= 1
            write_json(path, measure())
            print(f"{name}: {read_json(path)}", flush=True)
        return dict(read_json(path))
