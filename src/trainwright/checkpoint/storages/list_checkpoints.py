"""Read-only listing of a checkpoint folder, which another process may own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from trainwright.checkpoint.files.file_names import LEDGER, POINTERS, TREES, step_of
from trainwright.checkpoint.keeping.pins import read_pins
from trainwright.checkpoint.keeping.score import NOT_SCORED, NotScored, score_to_json
from trainwright.checkpoint.storages.ledger import Ledger
from trainwright.core.files import Json, read_json, storage_errors


@final
@dataclass(frozen=True, slots=True)
class Listed:
    """Checkpoint recorded by the ledger, or file of saved trees, whose step is their number.
    `abandoned`: the run went back past it."""

    name: str
    step: int
    score: float | NotScored
    size_bytes: int
    newest: bool
    best: bool
    pinned: bool
    abandoned: bool

    def to_json(self) -> Json:
        """Strict JSON."""
        return {**asdict(self), "score": score_to_json(self.score)}


def list_checkpoints(folder: Path) -> list[Listed]:
    """Checkpoints ordered by step; without a ledger the saved trees, if any.

    Raises:
        StorageFailed: not readable.
    """
    with storage_errors(f"reading {folder}"):
        lines = {line.name: line for line in Ledger(folder / LEDGER).read().lines}
        pins = read_pins(folder)
        pointers = _pointers(folder / POINTERS)
        listed = [
            Listed(
                name=name,
                step=step_of(name),
                score=line.score,
                size_bytes=sum(path.stat().st_size for path in (folder / name).iterdir()),
                newest=name == pointers.get("newest"),
                best=name == pointers.get("best"),
                pinned=name in pins,
                abandoned=line.kind == "abandoned",
            )
            for name, line in lines.items()
            if line.is_kept and (folder / name).is_dir()
        ]
        listed += _trees(folder)
    return sorted(listed, key=lambda one: one.step)


def _trees(folder: Path) -> list[Listed]:
    paths = sorted(folder.glob("trees-*"))
    return [
        Listed(
            name=path.name,
            step=int(match[1]),
            score=NOT_SCORED,
            size_bytes=path.stat().st_size,
            newest=path == paths[-1],
            best=False,
            pinned=False,
            abandoned=False,
        )
        for path in paths
        if (match := TREES.fullmatch(path.name))
    ]


def _pointers(path: Path) -> dict[str, Json]:
    try:
        value = read_json(path)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
