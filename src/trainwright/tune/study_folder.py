"""The folder of a study: what it was asked, its trials, its prepared rows and its result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from trainwright.contract.reading.read_contract import Document
from trainwright.contract.sections.run_settings import Tune
from trainwright.core.errors import DataChanged, Mistake, Problem
from trainwright.core.files import Json, check_name, child_of, damage_in, read_json, write_json
from trainwright.run.request import Request
from trainwright.tracking.lock import RunLock
from trainwright.tracking.run_folder import RunFolder, make_root
from trainwright.tracking.run_list import STUDY
from trainwright.tune.trial import ASKED, TrialFiles

_FREE = ("trials", "storage")
"""Keys of `tune` that may differ when a study goes on."""


@final
@dataclass(frozen=True, slots=True)
class StudyFolder:
    """Files of a study. What is not here is in the folders of its trials."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.path.name

    @property
    def trials(self) -> Path:
        """A run folder for each training."""
        return self.path / "trials"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    def files(self, number: int) -> TrialFiles:
        """Those of a trial."""
        return TrialFiles(self.trials, number)

    def plan_of(self, number: int) -> Json:
        """The plan of a trial's first training, which may be one of a fold; empty before it has
        one."""
        for path in sorted(self.trials.glob(f"{self.files(number).name}*/")):
            if (plan := RunFolder(path).plan).is_file():
                with damage_in(plan):
                    return read_json(plan)
        return {}

    def numbers(self) -> list[int]:
        """Those of the trials that were asked for."""
        return sorted(int(path.name.split(".")[0]) for path in self.trials.glob(f"*{ASKED}"))

    def lock(self) -> RunLock:
        """Take the study for this process.

        Raises:
            RunLocked: another process owns it.
        """
        return RunLock.acquire(self.path / "lock")

    @classmethod
    def open(
        cls,
        request: Request,
        document: Document,
        section: Tune,
        version: str,
        known: Sequence[Json] = (),
    ) -> Self:
        """The folder of a new study on data of this version, which knows these trials, or of the
        one that goes on, with those that it was begun with.

        Raises:
            Mistake: the name is taken or unsafe, or the study to go on with was asked otherwise.
            DataChanged: it was begun on other data.
        """
        asked = _asked(request, document, section)
        name = request.name or _next_name(request, document.contract.name)
        folder = cls(child_of(request.runs, check_name(name, "the study's name"), "the name"))
        if (folder.path / STUDY).is_file():
            _check_same(folder, request, asked, section)
            if folder.read()["data"] != version:
                raise DataChanged(
                    f"the data of study {folder.name} has changed since it was begun: its trials "
                    "cannot be compared with further ones. Put the files back and go on, or start "
                    "another study"
                )
            return folder
        if folder.path.exists():
            raise Mistake(
                Problem(
                    f"{folder.path} is no study",
                    path="--study",
                    fix="choose another name",
                )
            )
        make_root(request.runs)
        folder.trials.mkdir(parents=True)
        write_json(
            folder.path / STUDY, {"asked": asked, "data": version, "seconds": 0.0, "start": known}
        )
        return folder

    def read(self) -> Json:
        """The content of `study.json`."""
        return read_json(self.path / STUDY)

    def write(self, **changed: Json) -> None:
        """Write `study.json` with these keys."""
        write_json(self.path / STUDY, {**self.read(), **changed})


def is_study(path: Path) -> bool:
    """Is there a study in a folder?"""
    return (path / STUDY).is_file()


def _asked(request: Request, document: Document, section: Tune) -> Json:
    tune = {key: one for key, one in section.model_dump(mode="json").items() if key not in _FREE}
    return {
        "contract": document.source.text,
        "overrides": [one for one in request.overrides if not one.startswith("tune.")],
        "tune": tune,
    }


def _check_same(folder: StudyFolder, request: Request, asked: Json, section: Tune) -> None:
    if not request.resume:
        raise Mistake(
            Problem(
                f"there is a study {folder.name} already",
                path="--study",
                found=str(folder.path),
                fix="go on with it by --resume, or choose another name",
            )
        )
    content = folder.read()
    if changed := [key for key in asked if content["asked"].get(key) != asked[key]]:
        raise Mistake(
            Problem(
                f"study {folder.name} was begun with another {' and '.join(changed)}",
                path=changed[0],
                fix="put it back, or start a study under another name; only tune.trials may change",
            )
        )
    if "winner" in content and content["trials"] != section.trials:
        raise Mistake(
            Problem(
                f"study {folder.name} has opened the test rows for its winner, of "
                f"{content['trials']} trials",
                path="tune.trials",
                found=str(section.trials),
                expected="no further trials: a second winner would have been chosen among two that "
                "know the test rows",
                fix=f"start another study that knows these trials: tune.start: {folder.path}",
            )
        )


def _next_name(request: Request, contract: str) -> str:
    """The next free name; to go on, that of the newest study of the contract."""
    pattern = re.compile(re.escape(contract) + r"-study-([0-9]{1,5})")
    numbers = [0]
    if request.runs.is_dir():
        matches = (pattern.fullmatch(path.name) for path in request.runs.iterdir())
        numbers += [int(match[1]) for match in matches if match]
    newest = max(numbers)
    if request.resume and newest:
        return f"{contract}-study-{newest}"
    if request.resume:
        raise Mistake(
            Problem(
                f"there is no study of {contract} to go on with",
                found=str(request.runs),
                fix="start one without --resume, or name one with --study NAME",
            )
        )
    return f"{contract}-study-{newest + 1}"
