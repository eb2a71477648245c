"""Features in pairs: every pair of choices is in some run, each run is killed twice and resumed.

Bugs of training systems come in pairs (a batch found by itself x resume, accumulation x schedule,
early stopping x resume). The cases are a covering design of strength two: for any two fields and
any two of their choices there is a run that has both, wired from its contract as any other.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import Killed  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from comparing import differences  # noqa: E402
from faults.tiers import each  # noqa: E402
from trainwright.core.progress import StopFlag  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.engine.job import Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.run.compose.compose_job import compose  # noqa: E402
from trainwright.run.prepare.prepare_run import (  # noqa: E402
    Ready,
    make_ready,
)
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.run_context import RunContext  # noqa: E402
from trainwright.run.screen import StageTimes, StreamScreen  # noqa: E402
from trainwright.tracking.events import Ended, StepOutcome  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402
from trainwright.tracking.signals import read_signals  # noqa: E402

pytestmark = pytest.mark.torch

ROWS, BATCH, EPOCHS = 120, 16, 5
NETWORK = (
    with_layers("[12, 8]\n  dropout: 0.2")
    + f"training:\n  num_epochs: {EPOCHS}\n  batch_size: {BATCH}\n"
)

Choice = tuple[str, ...]
"""What is set in the contract."""

FIELDS: Mapping[str, Mapping[str, Choice]] = {
    "optimizer": {
        "adamw": ("training.optimizer={name: adamw, learning_rate: 0.01, layer_decay: 0.8}",),
        "momentum": ("training.optimizer={name: sgd, learning_rate: 0.05}",),
        "muon": ("training.optimizer={name: muon, learning_rate: 0.01}",),
    },
    "schedule": {
        "cosine": (),
        "plateau": ("training.scheduler={name: reduce_on_plateau, patience: 1}",),
        "stable": ("training.scheduler={name: warmup_stable_decay, warmup_steps: 3}",),
    },
    "accumulation": {
        "one": (),
        "three, uneven": ("training.gradient_accumulation_steps=3",),
    },
    "average": {
        "off": (),
        "ema": ("training.average={kind: ema, decay: 0.8}",),
        "swa": ("training.average={kind: swa, start_ratio: 0.3, every_n_steps: 2}",),
    },
    "clipping": {
        "norm": (),
        "zclip": ("training.gradient_clipping={kind: zclip, warmup_steps: 3}",),
        "autoclip": ("training.gradient_clipping={kind: autoclip, percentile: 60}",),
    },
    "precision": {
        "fp32": (),
        "bf16": ("training.mixed_precision=bf16",),
        "fp16": ("training.mixed_precision=fp16",),
    },
    "bad batch": {
        "none": (),
        "skipped": ("training.guard.non_finite=skip",),
        "rolled back": ("training.guard.non_finite=rollback",),
    },
    "stop": {
        "early": ("training.early_stopping={patience: 2}",),
        "plateau": ("training.early_stopping=off", "training.stop.loss_plateau={steps: 12}"),
    },
    "freezing": {
        "none": (),
        "staged": ("training.freeze={columns: 1}",),
    },
    "saving": {
        "in turn": (),
        "in the background": ("training.checkpointing.asynchronous=true",),
    },
    "activations": {
        "kept": (),
        "made again": (
            "model={kind: tabular_resnet, width: 12, blocks: 2}",
            "training.memory.activation_checkpointing=full",
        ),
    },
    "ramp": {
        "none": (),
        "rows": (
            "training.ramps.batch={start: 3, growth: linear, ratio: 0.15}",
            "training.optimizer.batch_scaling=sqrt",
        ),
    },
}

Case = tuple[str, ...]


def covering(fields: Mapping[str, Mapping[str, Choice]]) -> list[Case]:
    """Cases such that each pair of choices of two fields is in one: always the case that covers
    the most pairs that are still open."""
    names = list(fields)
    opened = {
        ((i, a), (j, b))
        for i, j in itertools.combinations(range(len(names)), 2)
        for a in fields[names[i]]
        for b in fields[names[j]]
    }
    cases: list[Case] = []
    while opened:
        chosen: dict[int, str] = dict(min(opened))
        for i, name in enumerate(names):
            if i not in chosen:
                chosen[i] = max(
                    fields[name],
                    key=lambda a, i=i: sum(
                        ((i, a), (j, b)) in opened or ((j, b), (i, a)) in opened
                        for j, b in chosen.items()
                    ),
                )
        case = tuple(chosen[i] for i in range(len(names)))
        cases.append(case)
        pairs = itertools.combinations(enumerate(case), 2)
        opened -= set(pairs)
    return cases


CASES = covering(FIELDS)


def test_each_pair_of_choices_is_in_a_case() -> None:
    for (i, one), (j, other) in itertools.combinations(enumerate(FIELDS.values()), 2):
        wanted = set(itertools.product(one, other))
        assert {(case[i], case[j]) for case in CASES} == wanted


class Died:
    """The step, until the process dies at an attempt; and one batch that is not finite."""

    def __init__(self, job: Job, dies_at: float, poisoned: float) -> None:
        self._job = job
        self._dies_at = dies_at
        self._poisoned = poisoned

    def __call__(self, work: StepBatches) -> StepOutcome:
        if work.samples == self._dies_at:
            raise Killed
        if work.samples == self._poisoned:
            (first, *others) = work.micro_batches
            numbers, *rest = first
            bad = numbers.clone()
            bad[0, 0] = math.nan
            work = work._replace(micro_batches=[(bad, *rest), *others])
        return self._job.step(work)


def prepared(folder: Path, case: Case) -> Ready:
    contract = write_project(folder, NETWORK, ROWS)
    chosen = [s for name, choice in zip(FIELDS, case, strict=True) for s in FIELDS[name][choice]]
    request = Request(contract, tuple(chosen), folder / "runs")
    return make_ready(request, StageTimes(), StreamScreen(io.StringIO()))


def start(ready: Ready, folder: RunFolder, case: Case, dies_at: float) -> tuple[Job, Ended]:
    """One process: everything is built anew, other random numbers were drawn before."""
    torch.manual_seed(int(min(dies_at, 1000)))
    context = RunContext(folder, (), StreamScreen(io.StringIO()), StopFlag())
    composed = compose(ready.plan.contract.model, ready.plan, ready.prepared, context)
    job = composed.job
    rows = ready.plan.estimate.train_rows
    poisoned = math.inf if case[6] == "none" else rows + _step_rows(ready)
    job = replace(job, step=Died(job, dies_at, poisoned))
    return job, fit(job)


def _step_rows(ready: Ready) -> int:
    training = ready.plan.contract.training
    return int(training.batch_size) * int(training.gradient_accumulation_steps)


def everything(job: Job, ended: Ended, folder: RunFolder) -> dict[str, object]:
    found: dict[str, object] = {"ending": (ended.kind, ended.reason), "progress": ended.progress}
    for part, stateful in job.state.items():
        if part != "clock":
            snapshot = stateful.snapshot()
            found[f"{part} values"] = snapshot.packed_values
            for name, tensor in snapshot.tensors.items():
                found[f"{part} {name}"] = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    columns = read_signals(folder.signals)
    for name in ("step", "loss", "learning_rate", "gradient_norm", "clipped"):
        found[f"signal {name}"] = [value.hex() for value in columns[name]]
    return found


def deaths(ready: Ready) -> Iterator[int]:
    """Cursors at which a process dies: in the middle of an epoch, and right behind the bad batch.

    A checkpoint falls on the end of each epoch, so steps are lost and made again."""
    rows = ready.plan.estimate.train_rows
    step = _step_rows(ready)
    yield rows + min(2 * step, rows)
    yield 2 * rows + step


@pytest.mark.parametrize("case", each(3, [(case,) for case in CASES]), ids=", ".join)
def test_a_run_that_is_killed_twice_ends_with_the_same_bits(case: Case, tmp_path: Path) -> None:
    ready = prepared(tmp_path, case)
    whole = RunFolder.create(tmp_path / "runs", "whole")
    job, ended = start(ready, whole, case, math.inf)
    expected = everything(job, ended, whole)
    if case[6] != "none":
        assert ended.progress.attempted > ended.progress.step, "the bad batch was met"
    broken = RunFolder.create(tmp_path / "runs", "broken")
    for at in deaths(ready):
        with pytest.raises(Killed):
            start(ready, broken, case, at)
    found = everything(*start(ready, broken, case, math.inf), broken)
    assert differences(expected, found) == []
