"""What a tracker has taken of a training: one file for each sink in the training's folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json, read_json, to_json, write_atomic

BEFORE_ALL = -1

FINISHED = "finished"
"""Entry of `sent` with the end of the run that the tracker knows."""


@dataclass(slots=True)
class Cursor:
    """Last step sent of each file, by which a resume goes on where the tracker is.

    `address` is the tracker's, `run` its own id of the run. `signals`, `windows`, `validated` and
    `curve` are steps, as the files of a run are cut when steps are repeated; `sequence` is that of
    the last event. `sent` holds the SHA-256 of what is sent as a whole, by name; `tags` what the
    numbers themselves say; `names` those that it refuses, with what they are
    sent as; `files` the sizes of files that a sink writes.
    """

    address: str = ""
    run: str = ""
    signals: int = BEFORE_ALL
    windows: int = BEFORE_ALL
    validated: int = BEFORE_ALL
    curve: int = BEFORE_ALL
    sequence: int = 0
    sent: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Last step of which something was sent."""
        return max(self.signals, self.windows, self.validated)

    def rewind(self, step: int) -> bool:
        """Go back to `step`, from which the steps are repeated; whether some had been sent."""
        had_sent = self.last > step
        if had_sent:
            rewound = [*filter(None, self.tags.get("rewound", "").split(", ")), str(step)]
            self.tags["rewound"] = ", ".join(rewound)
        self.signals = min(self.signals, step)
        self.windows = min(self.windows, step)
        self.validated = min(self.validated, step)
        return had_sent

    def restart(self, address: str, run: str) -> None:
        """Nothing is sent yet to this run at this address."""
        new = Cursor(address, run)
        for name in Cursor.__slots__:
            setattr(self, name, getattr(new, name))

    @classmethod
    def read(cls, path: Path) -> Self:
        """The cursor of a file, or a new one.

        Raises:
            StorageFailed: the file is not readable, or not one that `write` has written.
        """
        try:
            return TypeAdapter(cls).validate_python(read_json(path))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise StorageFailed(f"{path} is not the cursor of a sink: {error}") from error

    def write(self, path: Path) -> None:
        """Replace the file.

        Raises:
            StorageFailed: the file is as it was.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        value: Json = TypeAdapter(Cursor).dump_python(self)
        write_atomic(path, to_json(value).encode(), by_clock=True)


def cursor_path(sink_folder: Path, kind: str) -> Path:
    """The file of a sink's cursor."""
    return sink_folder / "sinks" / f"{kind}.json"
