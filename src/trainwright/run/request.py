"""Request for a training: a new one, one that resumes, one that extends a finished run."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, Self, final, get_args

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import ContractText
from trainwright.contract.sections.section import settled
from trainwright.core.errors import DataMistake, Mistake, Problem
from trainwright.core.files import Json, damage_in, read_json
from trainwright.core.formatting import many
from trainwright.core.process import world_size
from trainwright.data.sources.frames import Frame
from trainwright.run.folder.planned_contract import read_planned, read_started
from trainwright.tracking.events import Event, Observer
from trainwright.tracking.identity import changed_request
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.engine.stopping.stop_rules import StopRule

Unit = Literal["epoch", "step", "token"]
ScheduleRule = Literal["hold", "redraw"]

_WRITTEN = re.compile(r"\s*(\d[\d,_]{0,18})\s*(epoch|step|token)s?\s*", re.ASCII)
_REMOTE = "training.checkpointing.remote"
_MOST_SHOWN = 5


@final
@dataclass(frozen=True, slots=True)
class ExtensionRequest:
    """Additional epochs, steps or tokens; 0 for a run that keeps its ending. `schedule` says what
    happens to a learning rate scheduled over the first ending: `hold` keeps its final value,
    `redraw` schedules it over the whole new length."""

    count: int = 0
    unit: Unit = "epoch"
    schedule: ScheduleRule = "hold"

    @classmethod
    def read(cls, text: str | None, schedule: ScheduleRule) -> Self:
        """Parse `5 epochs`, `2,000 steps` or `1_000_000 tokens`; None means no new ending.

        Raises:
            Mistake: none of these, or a schedule without a new ending.
        """
        if text is None:
            if schedule == "hold":
                return cls()
            raise Mistake(_no_new_ending(schedule))
        match = _WRITTEN.fullmatch(text)
        count = int(re.sub("[,_]", "", match[1])) if match else 0
        for unit in get_args(Unit):
            if match and count and match[2] == unit:
                return cls(count, unit, schedule)
        raise Mistake(
            Problem(
                "by how much a run goes on is a number of epochs, steps or tokens",
                path="--for",
                found=text if text.strip() else "an empty text",
                expected="a whole number of at least 1 and its unit",
                fix='write for example --for "5 epochs"',
            )
        )

    def __str__(self) -> str:
        return many(self.count, self.unit)


def _no_new_ending(schedule: ScheduleRule) -> Problem:
    return Problem(
        "a schedule is drawn again only for a new ending",
        path="--schedule",
        found=schedule,
        fix='add for example --for "5 epochs", or remove it',
    )


NO_EXTENSION = ExtensionRequest()


class FolderObserver(Protocol):
    """Observer of the run that also needs its folder."""

    def opened(self, folder: Path) -> None:
        """The run's folder exists and is owned."""
        ...

    def observe(self, event: Event) -> None:
        """Take notice of one event."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Additions:
    """Stop rules and observers of the caller, next to those of the contract. In every training of
    the run the rules are asked between two steps; between two trees of boosting."""

    stop_rules: Sequence[StopRule] = ()
    observers: Sequence[Observer] = ()


@final
@dataclass(frozen=True, slots=True)
class Request:
    """Request for a training, with its time on the monotonic clock: a budget counts from then. An
    empty `name` takes the next free number; with `resume` and no name, the newest run of the
    contract's name is resumed. `frames` are those that the contract calls `frame://NAME`. `extend`
    gives a finished run a new ending; a new run begins at `start`, `RUN@STEP`; `added` are
    the caller's stop rules and observers."""

    contract: Path | ContractText
    overrides: Sequence[str] = ()
    runs: Path = Path("runs")
    name: str = ""
    resume: bool = False
    command: Sequence[str] = tuple(sys.argv)
    watchers: Sequence[FolderObserver] = ()
    start: str = ""
    frames: Mapping[str, Frame] = field(default_factory=dict)
    extend: ExtensionRequest = NO_EXTENSION
    added: Additions = field(default_factory=Additions)
    asked_at: float = field(default_factory=time.monotonic)


def refuse_script_run(folder: RunFolder, fix: str) -> None:
    """Refuse a run whose model only its script can build.

    Raises:
        Mistake: a script trained it.
    """
    if folder.has_own_model:
        raise Mistake(
            Problem(
                f"the model of run {folder.name} was trained by a script, which alone can build it",
                found=f"no {folder.bundle.name} in {folder.path}",
                fix=fix,
            )
        )


def request_again(
    folder: RunFolder, command: Sequence[str], extend: ExtensionRequest = NO_EXTENSION
) -> Request:
    """Request that resumes the run; `extend` gives it a new ending.

    The contract is read from its original path, because its data is relative to it; the checks of a
    resume detect changes.

    Raises:
        Mistake: the run was stopped before its plan was written, or the plan names another contract
            or other overrides than the run was given.
    """
    fix = "run the script again: it resumes from the newest checkpoint"
    if extend.count:
        fix = (
            "raise in the script what ends the job, such as tw.StepLimit(steps), and run it again "
            "with the same run="
        )
    refuse_script_run(folder, fix)
    with damage_in(folder.plan):
        plan = read_started(folder, _by_contract(folder))
        if changed := list(changed_request(plan)):
            raise Mistake(_edited(folder, key, found) for key, found in changed)
        return Request(
            contract=_contract_of(folder, plan),
            overrides=tuple(plan["overrides"]),
            runs=folder.path.parent,
            name=folder.name,
            resume=True,
            command=tuple(command),
            extend=extend,
        )


def _edited(folder: RunFolder, key: str, found: str) -> Problem:
    return Problem(
        f"{folder.plan} was edited: {key} is not what run {folder.name} was given",
        path=key,
        found=found,
        fix=f"put it back, or name the contract yourself: {_by_contract(folder)}",
    )


def _by_contract(folder: RunFolder) -> str:
    runs = shlex.quote(str(folder.path.parent))
    return f"trainwright train CONTRACT --runs {runs} --run {folder.name} --resume"


def _contract_of(folder: RunFolder, plan: Json) -> Path | ContractText:
    if "contract_path" in plan:
        return Path(plan["contract_path"])
    text = folder.contract.read_text(encoding="utf-8")
    return ContractText(text, Path(plan["contract_folder"]))


def request_recovered(folder: RunFolder, url: str, command: Sequence[str]) -> Request:
    """As `request_again`, but copies continue where these came from, and the contract is the copied
    one, regardless of local files; its data is at its original path, or in the working folder.

    Raises:
        DataMistake: the data is at neither place; the run folder stays, and can be resumed.
    """
    request = request_again(folder, command)
    remote = url.rstrip("/").rpartition("/")[0]
    if read_planned(folder).training.checkpointing.remote.rstrip("/") != remote:
        others = [one for one in request.overrides if not one.startswith(f"{_REMOTE}=")]
        request = replace(request, overrides=(*others, f"{_REMOTE}={remote}"))
    contract = request.contract
    place = contract.folder if isinstance(contract, ContractText) else contract.parent
    text = folder.contract.read_text(encoding="utf-8")
    for around in (place, Path.cwd()):
        if not _missing(folder, around):
            return replace(request, contract=ContractText(text, around))
    raise _no_data(folder, place)


def _missing(folder: RunFolder, around: Path) -> list[str]:
    """Data files of the run that are not where its contract names them."""
    manifest: Json = read_json(folder.data / "manifest.json")
    names = [str(file["path"]) for file in manifest["facts"]["files"]]
    return [name for name in names if "://" not in name and not (around / name).exists()]


def _no_data(folder: RunFolder, place: Path) -> DataMistake:
    names = _missing(folder, place)
    listed = ", ".join(str(place / name) for name in names[:_MOST_SHOWN])
    more = len(names) - _MOST_SHOWN
    return DataMistake(
        Problem(
            f"run {folder.name} is back in {folder.path}, but its data is not on this machine",
            found=f"nothing at {listed}" + (f" and {more:,} more" if more > 0 else ""),
            expected="the files that the run was started with; copies do not hold them",
            fix=f"put them there and give: trainwright resume {shlex.quote(str(folder.path))}; or, "
            "where contract and data lie elsewhere: trainwright train CONTRACT "
            f"--run {folder.name} --runs {shlex.quote(str(folder.path.parent))} --resume",
        )
    )


def need_ranks(contract: Contract) -> None:
    """Refuse to train with another number of processes than the plan counts on.

    Raises:
        Mistake: they were not started, or another number of them.
    """
    section = contract.distributed
    wanted, there = settled(section.num_gpus), world_size()
    if section.strategy != "single" and wanted != there:
        raise Mistake(
            Problem(
                "the processes that are to train together are not there",
                path="distributed.num_gpus",
                found=f"{there} of {wanted}",
                fix="train with the command trainwright train, which starts them, or start as many "
                "with torchrun",
            )
        )
