"""Run folder: created, or reopened after checking that it is that of the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import Interrupted, Mistake, Problem, TrainwrightError
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, write_json, write_text
from trainwright.core.process import permission_words
from trainwright.data.dispatch import modality_of
from trainwright.data.sources.provenance import find_revisions
from trainwright.data.statistics.profile import distributions_of, distributions_to_json
from trainwright.planner.plan import Plan
from trainwright.run.folder.check_own_files import check_own
from trainwright.run.folder.model_files import write_trained_rows
from trainwright.run.opening.undo_refused import NewFolders, locked_new, restored_if_refused
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.request import Request
from trainwright.run.screen import LoggedScreen, Screen, labelled
from trainwright.tracking.checksums import remove_unfinished_of_run, write_checksums
from trainwright.tracking.clock import beating
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Noted, Observer, Observers
from trainwright.tracking.identity import Identity, RunIdentity, bind_request, read_identity
from trainwright.tracking.record import Ending, RunFacts, RunRecord
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.tracking.sinks.sink_process import Sinks


def start_record(folder: RunFolder, request: Request, ready: Ready) -> RunRecord:
    """Write the record of an attempt that starts now."""
    facts = RunFacts(
        command=request.command,
        source=ready.document.source.folder,
        data_version=ready.prepared.version,
        seeds={
            "contract": ready.plan.contract.seed,
            "split": ready.plan.contract.split_seed,
        },
        determinism={
            "level": ready.plan.contract.resume.determinism,
            "cost": dict(ready.plan.determinism_cost),
        },
        threads={"cores": ready.device.cores, "used": ready.plan.threads},
        price_per_hour=ready.plan.contract.budget.price_per_hour,
        budget=_budget(ready),
        gpus=[ready.device.name] if ready.device.kind == "cuda" else [],
        gpu_uuid=_gpu_uuid() if ready.device.kind == "cuda" else "",
    )
    return RunRecord.start(folder.record, facts)


def _gpu_uuid() -> str:
    """As NVML names the GPU that torch uses."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def _budget(ready: Ready) -> dict[str, Json]:
    """Record entry of an allotted budget."""
    allotment = ready.plan.allotment
    if not allotment.is_made:
        return {}
    return {
        "limit_seconds": allotment.limit_seconds,
        "seconds_before": ready.seconds_before,
        "planned": dict(allotment.planned),
    }


@final
@dataclass(frozen=True, slots=True)
class StartedRun:
    """Run folder owned by this process, with its record open."""

    folder: RunFolder
    record: RunRecord
    observers: tuple[Observer, ...]
    goes_on: bool
    identity: Identity
    plan: Plan
    """Contract of the run, with its new ending if it was extended."""
    sinks: Sequence[Sinks]
    """What sends the run to trackers; who ends the run finishes it."""

    def finish(self, verdict: str, reason: str, kept_step: int = 0) -> None:
        """Complete the record of a run with a verdict."""
        code = 0 if verdict == "met" else 3
        write_checksums(self.folder, self.identity)
        self.record.finish(Ending("finished", reason, verdict, code, kept_step))

    def finish_fit(self, reason: str, kept_step: int, validation: Mapping[str, float]) -> None:
        """Complete the record of a run whose models are fitted and not judged; `validation` is the
        contract's metric on the validation rows."""
        self.record.finish(Ending("fitted", reason, kept_step=kept_step, validation=validation))


@final
@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Run folder owned by this process, with nothing left to do."""

    folder: RunFolder


@contextmanager
def open_run(
    request: Request, ready: Ready, screen: LoggedScreen
) -> Iterator[StartedRun | FinishedRun]:
    """Open the run's folder, locked for the block; an error inside is written into its record.

    In the folder of a finished run nothing is written.

    Raises:
        Mistake: the name is taken, or the run to resume is another one; nothing was written.
            DataChanged: the data has changed since the run was started. RunLocked: the folder is in
            use.
    """
    is_new = not request.resume or _starts(request)
    made = NewFolders.of(request.runs / request.name)
    folder = _new(request, ready) if is_new else find_resumed(request, ready)
    if is_new and not request.name:
        made = NewFolders((*made.missing, folder.path))
    locked = locked_new(folder, made) if is_new else folder.lock()
    with locked, _saying_how_to_go_on(request, folder):
        for watcher in request.watchers:
            watcher.opened(folder.path)
        reached("open")
        remove_unfinished_of_run(folder)
        goes_on = not is_new and not is_blank(folder)
        if request.resume and is_new:
            screen.say(labelled("note", f"there is no run {folder.name} yet: it begins"))
        notes = _notes_of_resume(folder, ready) if goes_on else []
        if goes_on and _is_finished(folder):
            check_own(folder)
            if not request.extend.count:
                yield FinishedRun(folder)
                return
        extended = request.extend.count > 0
        with restored_if_refused(folder, extended=extended) if goes_on else nullcontext():
            if extended:
                from trainwright.run.extend.reopen import extend_run

                ready, added = extend_run(folder, request.extend, ready, screen)
                notes = [*notes, *added]
            with _start(folder, request, ready, screen, notes, goes_on=goes_on) as started:
                # The caller may not have enough memory for its rows during training.
                del ready
                yield started


@contextmanager
def _start(
    folder: RunFolder,
    request: Request,
    ready: Ready,
    screen: LoggedScreen,
    notes: Sequence[Noted],
    *,
    goes_on: bool,
) -> Iterator[StartedRun]:
    """One attempt of a run, with its plan written and its record open."""
    cut = _cut(folder) if goes_on else []
    folder.checksums.unlink(missing_ok=True)
    identity = _identity(folder, ready, is_new=not goes_on)
    _write_plan(folder, request, ready, identity)
    reached("plan")
    observers = (*_observers(folder, screen), *request.watchers, *request.added.observers)
    record = start_record(folder, request, ready)
    screen.log_to(folder.path / "log.txt")
    tracking = ready.plan.contract.tracking
    sinks: list[Sinks] = []
    if tracking.sinks:
        # Imported here: most runs have no sinks.
        from trainwright.tracking.sinks.sink_process import Sinks

        sinks.append(Sinks.start(folder, tracking, lambda *said: screen.say(labelled(*said))))
    started = StartedRun(folder, record, observers, goes_on, identity, ready.plan, sinks)
    del ready
    for note in notes:
        screen.say(labelled("note", note.message))
    for event in (*cut, *notes):
        for observer in started.observers:
            observer.observe(event)
    try:
        with beating(record.beat):
            yield started
    except (TrainwrightError, KeyboardInterrupt, OSError, MemoryError) as error:
        started.record.finish(_ending(error))
        for running in sinks:
            running.leave()
        raise


@contextmanager
def _saying_how_to_go_on(request: Request, folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except Interrupted as error:
        how = resume_command(request, folder)
        raise Interrupted(f"{error}; go on with:\n    {how}") from None


def resume_command(request: Request, folder: RunFolder) -> str:
    """Command that resumes a run, with all of its original options."""
    if isinstance(request.contract, ContractText):
        return shlex.join(["trainwright", "resume", str(folder.path), *permission_words()])
    words = ["trainwright", "train", str(request.contract)]
    for override in request.overrides:
        words += ["--set", override]
    if request.runs != Path("runs"):
        words += ["--runs", str(request.runs)]
    return shlex.join([*words, "--run", folder.name, "--resume", *permission_words()])


def _starts(request: Request) -> bool:
    """Has a named run to resume not begun yet? A restarted job gives the same command every time,
    including the first."""
    return bool(request.name) and RunFolder.is_free(request.runs, request.name)


def check_run_name(request: Request) -> None:
    """Check the run's name before the data is read.

    Raises:
        Mistake: it is taken, unsafe, or names no run to resume.
    """
    if request.name and request.resume and not _starts(request):
        RunFolder.find(request.runs, request.name)
    elif request.name:
        RunFolder.check_free(request.runs, request.name)


def _new(request: Request, ready: Ready) -> RunFolder:
    if request.name:
        return RunFolder.create(request.runs, request.name)
    return RunFolder.create_next(request.runs, ready.plan.contract.name)


def find_resumed(request: Request, ready: Ready) -> RunFolder:
    """The run to resume.

    Raises:
        Mistake: there is none.
    """
    if request.name:
        return RunFolder.find(request.runs, request.name)
    contract_name = ready.plan.contract.name
    # Imported here: a run with a name looks for no other.
    from trainwright.tracking.run_list import list_runs

    for run in reversed(list_runs(request.runs)):
        stem, _, number = run.name.rpartition("-")
        if stem == contract_name and number.isdigit() and run.state != "finished":
            return RunFolder.find(request.runs, run.name)
    raise Mistake(
        Problem(
            f"there is no unfinished run of {contract_name} to resume",
            found=f"{request.runs}",
            fix="start one without --resume, or name one with --run NAME",
        )
    )


def find_begun(request: Request, ready: Ready) -> list[RunFolder]:
    """The run to resume, if there is one and it had begun.

    Raises:
        Mistake: as `find_resumed`.
    """
    if not request.resume or _starts(request):
        return []
    folder = find_resumed(request, ready)
    return [] if is_blank(folder) else [folder]


def is_blank(folder: RunFolder) -> bool:
    """Did the run die before its plan was written? Then it starts over, and nothing is lost."""
    begun = folder.plan.exists() or folder.record.exists()
    return not begun and not any(folder.checkpoints.glob("*"))


def _is_finished(folder: RunFolder) -> bool:
    # Imported here, and below: nothing comes before a new run.
    from trainwright.run.folder.interruption import is_finished

    return is_finished(folder)


def _cut(folder: RunFolder) -> list[Noted]:
    """How the earlier process ended, if it did not fit all models."""
    from trainwright.run.folder.interruption import is_fitted, note_cut

    return [] if is_fitted(folder) else [note_cut(folder)]


def _notes_of_resume(folder: RunFolder, ready: Ready) -> list[Noted]:
    """What has changed since the run was started, if it may."""
    # Imported here: a new run is compared with none.
    from trainwright.run.folder.interruption import note_lost_record
    from trainwright.run.opening.check_same_run import check_same_run

    return [*check_same_run(folder, ready), *note_lost_record(folder)]


def _identity(folder: RunFolder, ready: Ready, *, is_new: bool) -> Identity:
    """Identity of the plan that the run was started with."""
    if is_new:
        return RunIdentity.new(ready.plan.hash, ready.prepared.version)
    return read_identity(folder)


def _write_plan(folder: RunFolder, request: Request, ready: Ready, identity: Identity) -> None:
    """Write the plan and what belongs to it: at the start, and again at every resume.

    The plan comes last: if it exists, everything else does.
    """
    write_text(folder.contract, ready.document.source.text)
    plan = {
        **ready.plan.to_json(),
        "data": ready.prepared.version,
        "identity": identity.to_json(),
        **bind_request(_where_written(request), identity),
    }
    facts = ready.raw.facts.to_json()
    manifest = {
        "version": ready.prepared.version,
        "facts": facts,
        "notes": list(ready.raw.notes),
        "done": [one.to_json() for one in ready.prepared.done],
        **({"teacher": dict(ready.teacher)} if ready.teacher else {}),
        "revisions": [
            one.to_json()
            for one in find_revisions(ready.raw.facts.files, ready.document.source.folder)
        ],
    }
    write_json(folder.data / "manifest.json", manifest)
    write_json(folder.data / "split.json", ready.prepared.split.to_json())
    write_json(folder.plan, plan)


def _where_written(request: Request) -> dict[str, Json]:
    """Where a resume reads the contract, the original file or the copy in the run folder, and with
    which overrides."""
    overrides = list(request.overrides)
    if isinstance(request.contract, ContractText):
        return {"overrides": overrides, "contract_folder": str(request.contract.folder)}
    return {"overrides": overrides, "contract_path": str(request.contract.absolute())}


def describe_rows(folder: RunFolder, ready: Ready) -> None:
    """Write what the report, `data diff` and `evaluate` need of the rows once their files are
    overwritten. Opens the rows of all parts."""
    write_json(folder.distributions, distributions_to_json(distributions_of(ready.prepared)))
    section = ready.plan.contract.data
    modality_of(section.kind).keep_rows(ready.raw, section, folder.name, folder.data)
    on_both = ready.plan.contract.training.refit or ready.plan.contract.model.is_selection
    write_trained_rows(ready.prepared, folder.data, on_both=on_both)


def _observers(folder: RunFolder, screen: Screen) -> tuple[Observer, ...]:
    return (Observers([EventLog(folder.events)], screen.say),)


def _ending(error: BaseException) -> Ending:
    state: Literal["interrupted", "failed"] = "failed"
    code = error.exit_code if isinstance(error, TrainwrightError) else 1
    if isinstance(error, Interrupted | KeyboardInterrupt):
        state = "interrupted"
    return Ending(state, str(error) or type(error).__name__, exit_code=code)
