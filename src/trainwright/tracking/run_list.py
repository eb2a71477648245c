"""The runs of a folder: state, verdict and start of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainwright.core.files import Json, read_json
from trainwright.tracking.lock import read_holder
from trainwright.tracking.run_folder import REFITS, RunFolder, is_run_folder

STUDY = "study.json"
"""The file of a search in its folder, which is no run: what it was asked, its seconds so far and,
once it has ended, its result. Its runs are in the folder `trials`."""

RunState = Literal["finished", "fitted", "interrupted", "failed", "running"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run of a root. `verdict` is empty until there is one, `started` where it is unknown."""

    name: str
    state: RunState
    verdict: str
    started: str

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "name": self.name,
            "state": self.state,
            "verdict": self.verdict,
            "started": self.started,
        }


def list_runs(root: Path) -> list[RunSummary]:
    """The runs of `root`, oldest first; what is not a run folder is skipped, and what is hidden."""
    if not root.is_dir():
        return []
    runs = [
        summarise_run(RunFolder(path))
        for path in root.glob("[!.]*")
        if not path.is_symlink() and path.is_dir() and is_run_folder(path)
    ]
    return sorted(runs, key=lambda run: (run.started, run.name))


def summarise_run(folder: RunFolder) -> RunSummary:
    """State, verdict and start of a run, from its record and its lock."""
    try:
        record = read_json(folder.record)
    except (OSError, ValueError, RecursionError):
        record = {}
    record = record if isinstance(record, dict) else {}
    ending = record.get("ending")
    ending = ending if isinstance(ending, dict) else {}
    state: RunState
    match ending.get("state"):
        case "finished":
            state = "finished"
        case "fitted" | "failed" as ended:
            state = ended
        case _:
            # Without an ending the process is at work, or it died without a word.
            state = "interrupted"
    if read_holder(folder.lock_file).is_alive_here():
        state = "running"
    return RunSummary(
        folder.name, state, str(ending.get("verdict", "")), str(record.get("started", ""))
    )


def list_studies(root: Path) -> list[Path]:
    """The folders of searches in `root`; what is hidden is skipped."""
    return sorted(path.parent for path in root.glob(f"[!.]*/{STUDY}"))


def find_study(name: str, runs: Path) -> Path | None:
    """The folder of a search by its name in `runs` or its path; None if it is not one."""
    return next((path for path in (runs / name, Path(name)) if (path / STUDY).is_file()), None)


def inner_trainings(folder: RunFolder) -> tuple[tuple[str, Path], ...]:
    """Kind and folder of each training inside a run: of folds, other seeds and a refit."""
    kinds = (("fold", folder.folds), ("seed", folder.seeds), ("refit", folder.path / REFITS))
    return tuple((kind, path) for kind, within in kinds for path in sorted(within.glob("*")))
