"""A rung of the ladder: what is known of a candidate, in `candidate.json` of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, final

from trainwright.core.files import Json, damage_in, read_json, write_json

_FORMAT = 1


@final
@dataclass(frozen=True, slots=True)
class Rung:
    """A candidate that is trained, or why it is not (`skipped`). `cut` says what the time has left
    of it.

    `seconds` are those of its trainings, `latency_ms` the given percentile of the time of a
    prediction of one row, `batch_ms` the time of one of `batch_rows` rows, `megabytes` the size of
    its bundles. `model` are the settings of its section, `version` what they were trained on.
    """

    name: str
    version: str
    model: Mapping[str, Json]
    skipped: str = ""
    cut: str = ""
    seconds: float = 0.0
    latency_ms: float = 0.0
    batch_ms: float = 0.0
    batch_rows: int = 0
    megabytes: float = 0.0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The fields by name."""
        return {"format": _FORMAT, **asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """Inverse of `to_json`."""
        content = {key: value for key, value in json.items() if key != "format"}
        return cls(**{**content, "notes": tuple(content["notes"])})


def read_rung(folder: Path, version: str) -> list[Rung]:
    """The finished rung of a candidate's folder; none if it is not finished, or of another
    version."""
    path = folder / "candidate.json"
    if not path.is_file():
        return []
    with damage_in(path):
        rung = Rung.from_json(read_json(path))
    return [rung] if rung.version == version else []


def write_rung(folder: Path, rung: Rung) -> None:
    """Write a finished rung.

    Raises:
        StorageFailed: the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "candidate.json", rung.to_json())
