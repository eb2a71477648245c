"""A study and its trials as trackers receive them, from the files of the study's folder.

A part is a path in that folder: empty for the study, `trials/0003` for a trial, longer for a
training of a trial. The first training of a trial is in the folder of that name, or those of its
folds and seeds stand next to it, as in `trials/0003-fold-1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trainwright.core.files import Json, read_json
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import STUDY

TRIAL = re.compile(r"trials/\d+")
_TRAINING = re.compile(r"trials/[^/]+")
_OF_MANY = {"trials": "count", "best": "value", "expected": "worth", "p": "p"}
"""Names of the numbers of a study, with their keys in `study.json`."""


def read_or_empty(path: Path) -> dict[str, Json]:
    """A JSON object; empty without a file."""
    try:
        value = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return value if isinstance(value, dict) else {}


def find_trials(study: Path) -> list[str]:
    """The trials that train or have ended."""
    begun = {path.parent.name.partition("-")[0] for path in study.glob("trials/*/plan.json")}
    ended = {path.stem for path in study.glob("trials/*.json") if path.stem.isdigit()}
    return [f"trials/{name}" for name in sorted(begun | ended)]


def find_run_of(study: Path, part: str) -> RunFolder:
    """The run that a part has its record from: of a trial its first training, and of the study the
    judged one, before it is judged that of the contract as written."""
    if not part:
        judged = read_or_empty(study / STUDY).get("run")
        part = f"trials/{judged}" if judged else "trials/0000"
    training = _TRAINING.match(part)
    assert training is not None, "inside a study are trials"
    plans = sorted(study.glob(f"{training[0]}*/plan.json"))
    return RunFolder(plans[0].parent if plans else study / training[0])


def read_record_of(study: Path, part: str) -> dict[str, Json]:
    """What `record.json` of a run has, with the ending of the study or the trial."""
    record = read_or_empty(find_run_of(study, part).record)
    if not part:
        content = read_or_empty(study / STUDY)
        if "run" not in content:
            return {**record, "ended": "", "ending": {}}
        first = read_or_empty(find_run_of(study, "trials/0000").record)
        reason = f"trial {content['winner']['trial']} kept of {content['trials']}"
        ending = {**record.get("ending", {}), "reason": reason}
        return {**record, "started": first.get("started", ""), "ending": ending}
    if TRIAL.fullmatch(part):
        path = study / f"{part}.json"
        outcome = read_or_empty(path)
        if not outcome:
            return {**record, "ended": ""}
        if outcome["state"] == "failed":
            ended = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
            ending = {"state": "failed", "reason": outcome["reason"]}
            return {**record, "ended": ended, "ending": ending}
    return record


def read_numbers_of(study: Path, part: str) -> Iterator[tuple[str, float, int]]:
    """What came of a trial, or of the choice of a study, with the milliseconds since 1970 at which
    it was written."""
    path = study / (f"{part}.json" if part else STUDY)
    numbers = read_or_empty(path)
    names = {name: name for name in ("value", "seconds", "price", "megabytes")}
    if not part:
        numbers, names = numbers.get("winner", {}).get("best_of_many", {}), _OF_MANY
    for name, key in names.items():
        if (value := numbers.get(key)) is not None:
            moment = round(1000 * path.stat().st_mtime)
            yield f"{'trial' if part else 'study'}/{name}", float(value), moment
