"""Whether a finished run can be extended, where its training ended, and its earlier endings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.training.scheduler import Swa
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, damage_in, read_json, storage_errors, write_json
from trainwright.run.request import ExtensionRequest
from trainwright.tracking.event_log import read_events
from trainwright.tracking.run_folder import RunFolder

_LONGER = "start a new run with more training.num_epochs"


class End(NamedTuple):
    """Where a training ended, and why."""

    step: int
    samples: int
    kind: str
    reason: str


def find_end(folder: RunFolder, contract: Contract, wanted: ExtensionRequest) -> End:
    """Find the step at which a finished run reached its length.

    Raises:
        Mistake: it cannot be extended.
    """
    if problems := list(_problems(folder, contract, wanted)):
        raise Mistake(problems)
    end = _last_end(folder)
    if end.kind != "finished":
        raise Mistake(_ended_by_rule(folder, end))
    return end


def describe_further(folder: RunFolder, contract: Contract) -> str:
    """How a finished run is trained further, or why it cannot be although its kind could."""
    try:
        find_end(folder, contract, ExtensionRequest(1, "epoch"))
    except Mistake:
        return ""
    if not any(folder.checkpoints.glob("step-*")):
        return (
            f"; its model is whole, but it cannot be trained further: {folder.checkpoints} holds "
            "no checkpoint"
        )
    return (
        f'; to train it further: trainwright resume {shlex.quote(str(folder.path))} --for "1 epoch"'
    )


def _problems(folder: RunFolder, contract: Contract, wanted: ExtensionRequest) -> Iterator[Problem]:
    what = f"run {folder.name} cannot be given a new ending"
    model, training = contract.model, contract.training
    if not model.is_loop_trained:
        fix = "start a new run"
        if limit := model.traits.rounds:
            fix = f"{fix} with more model.{limit}"
        found = f"{model.kind}, which is not trained by steps"
        yield Problem(what, "model.kind", found, "a network", fix)
        return
    if fold_count(contract.data):
        found, expected = "a training for each fold", "one training"
        yield Problem(what, "data.split.folds", found, expected, _LONGER)
    if training.seeds > 1:
        yield Problem(
            what, "training.seeds", f"{training.seeds} trainings", "one training", _LONGER
        )
    if training.refit:
        found, fix = "true, a second training of the same length", _LONGER
        yield Problem(what, "training.refit", found, "one training", fix)
    if isinstance(training.average, Swa):
        found = "swa, whose mean ends with the schedule"
        yield Problem(what, "training.average", found, "off or ema", _LONGER)
    if not training.checkpointing.save_optimizer_state:
        path = "training.checkpointing.save_optimizer_state"
        yield Problem(what, path, "false", "true", "start a new run: its checkpoints lack it")
    if wanted.unit == "token" and not contract.data.has_tokens:
        fix = "name epochs or steps"
        yield Problem("only a text has tokens", "--for", str(wanted), "epochs or steps", fix)


def _last_end(folder: RunFolder) -> End:
    ended = [event for event in read_events(folder.events) if event.get("event") == "ended"]
    if not ended:
        raise Mistake(
            Problem(
                f"run {folder.name} does not say where its training ended",
                found=f"no event 'ended' in {folder.events}",
                fix="start a new run",
            )
        )
    last = ended[-1]
    return End(int(last["step"]), int(last["samples"]), str(last["kind"]), str(last["reason"]))


def _ended_by_rule(folder: RunFolder, end: End) -> Problem:
    what = "the budget" if end.kind == "budget" else "the rule that ended it"
    return Problem(
        f"run {folder.name} was not ended by its length: {what} would end it again at once",
        path="--for",
        found=end.reason,
        expected="a run that made all its epochs, steps or tokens",
        fix="start a new run with a contract that allows more",
    )


def keep_evaluation(folder: RunFolder, step: int) -> None:
    """Keep the evaluation of the ending at a step where the next one does not replace it.

    Raises:
        StorageFailed: the disk.
    """
    with storage_errors(f"making {folder.endings}"):
        folder.endings.mkdir(exist_ok=True)
    write_json(folder.endings / f"step-{step:010d}.json", read_json(folder.evaluation))
    with storage_errors(f"removing {folder.evaluation}"):
        folder.evaluation.unlink()


def read_opened(folder: RunFolder) -> list[Json]:
    """All openings of a run's test rows, by this ending and earlier ones."""
    kept = sorted(folder.endings.glob("step-*.json")) if folder.endings.is_dir() else []
    written = [path for path in (*kept, folder.evaluation) if path.is_file()]
    if not written:
        return []
    with damage_in(written[-1]):
        return list(read_json(written[-1])["opened"])


def describe_extensions(plan: Json) -> list[str]:
    """`by 1 epoch after step 40, where the verdict was met` for each extension in a plan."""
    return [
        f"by {one['by']} after step {int(one['step']):,}, where the verdict was {one['verdict']}"
        for one in plan.get("extensions", [])
    ]


def describe_start(plan: Json) -> str:
    """`step 8 of long-1`, of a run that began at a checkpoint of another one; else empty."""
    start = plan.get("start", {})
    if not start:
        return ""
    return f"step {int(start['step']):,} of {str(start['run']).rpartition('/')[2]}"


def doubt_of_extensions(extensions: int) -> list[str]:
    """Caveat on the verdict of an extended run."""
    if not extensions:
        return []
    return [
        f"the run went on after a verdict was known: this is verdict {extensions + 1} on the same "
        "test rows, and the intervals are those of a single one"
    ]
