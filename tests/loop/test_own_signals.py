"""A user's own numbers stand among the signals: of each applied step once, exact over
micro-batches, and read with the others of their window."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Batch, Feed  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.signals.custom_signals import OwnMeans, OwnSignals  # noqa: E402
from trainwright.engine.signals.telemetry import Windows  # noqa: E402
from trainwright.engine.stopping.stop_rules import StepLimit  # noqa: E402
from trainwright.engine.update.oom_policy import SplitOnOutOfMemory  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.tracking.events import OwnNumbers, StepKept, StepOutcome  # noqa: E402
from trainwright.tracking.signals import (  # noqa: E402
    SignalRecorder,
    read_each,
    read_own_signals,
    read_signals,
    version_of,
)
from trainwright.tracking.telemetry_file import WindowFile, read_windows  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = torch.arange(35, dtype=torch.float64)[:, None] / 35
OUTCOME = StepOutcome(0.5, 0.1, 1.0, 0.0, 0.0, 0.0, 4, 4, 0)


class Own:
    """A run that names the sum of its rows, and a number of every second step alone."""

    def __init__(self, folder: Path, steps: int, micro: int = 4, fails_above: int = 99) -> None:
        torch.manual_seed(1)
        self.model = nn.Linear(1, 1).double()
        self.own = OwnSignals()
        self.fails_above = fails_above
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.windows = Windows(5, [OwnMeans()], lines=WindowFile(folder / "windows.jsonl"))
        step = OptimizerStep(self.model, self.objective, optimizer).recording(self.own)
        self.feed = Feed([ROWS], micro, 12 // micro, seed=3)
        self.job = Job(
            model=self.model,
            feed=self.feed,
            step=step.handling_memory(SplitOnOutOfMemory()),
            stop_rules=(StepLimit(steps),),
            state={
                "model": ModuleState(self.model),
                "optimizer": OptimizerState(optimizer, self.model.named_parameters()),
                "windows": self.windows,
            },
            observers=(SignalRecorder(folder / "signals.jsonl", 4), self.windows),
        )

    def objective(self, model: nn.Module, batch: Batch) -> LossSum:
        (x,) = batch
        self.own("mean_row", x.sum(), len(x))
        if self.feed.samples % 24 == 12:
            self.own("now_and_then", model(x).mean())
        if len(x) > self.fails_above:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return LossSum(model(x).square().sum(), len(x))

    @property
    def signals(self) -> dict[str, dict[int, float]]:
        return read_own_signals(self.folder / "signals.jsonl")

    @property
    def lines(self) -> list[tuple[int, dict[str, float]]]:
        return [
            (one.step, dict(one.numbers)) for one in read_windows(self.folder / "windows.jsonl")
        ]


def expected_means(steps: int) -> dict[int, float]:
    feed = Feed([ROWS], 12, 1, seed=3)
    return {
        step: pytest.approx(float(feed.next_step().micro_batches[0][0].mean()), rel=1e-8)
        for step in range(1, steps + 1)
    }


@pytest.mark.parametrize("micro", [12, 4, 3, 1])
def test_the_number_of_a_step_does_not_depend_on_its_micro_batches(
    micro: int, tmp_path: Path
) -> None:
    """The last step of an epoch has eleven rows, so its micro-batches are not all alike."""
    run = Own(tmp_path, 9, micro)
    fit(run.job)
    assert run.signals["mean_row"] == expected_means(9)
    assert set(run.signals["now_and_then"]) < set(range(1, 10))
    assert len(read_signals(tmp_path / "signals.jsonl")["loss"]) == 9


def test_a_pass_that_ran_out_of_memory_leaves_no_numbers(tmp_path: Path) -> None:
    run = Own(tmp_path, 9, 12, fails_above=5)
    fit(run.job)
    assert run.signals["mean_row"] == expected_means(9)


def test_a_window_has_the_mean_over_its_steps(tmp_path: Path) -> None:
    run = Own(tmp_path, 10)
    fit(run.job)
    means = run.signals["mean_row"]
    feed = Feed([ROWS], 12, 1, seed=3)
    rows = [feed.next_step().rows for _ in range(10)]
    for (step, numbers), steps in zip(run.lines, [range(1, 6), range(6, 11)], strict=True):
        assert step == steps[-1]
        total = sum(means[one] * rows[one - 1] for one in steps)
        over = sum(rows[one - 1] for one in steps)
        assert numbers["own/mean_row"] == pytest.approx(total / over, rel=1e-5)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_resumed_run_has_the_same_numbers(cut: int, tmp_path: Path) -> None:
    whole = Own(tmp_path / "whole", 11)
    fit(whole.job)
    for steps in (cut, 11):
        store = Checkpoints(tmp_path / "checkpoints", 1)
        part = Own(tmp_path / "cut", steps)
        fit(replace(part.job, checkpoints=store, checkpoint_every=Every(4)))
    assert part.signals == whole.signals
    assert part.lines == whole.lines


class Waiting:
    """A number on a device that counts how often it is waited for."""

    waits = 0

    def __init__(self, value: float) -> None:
        self._value = value

    def item(self) -> float:
        Waiting.waits += 1
        return self._value


def test_numbers_on_a_device_are_read_with_their_window(tmp_path: Path) -> None:
    Waiting.waits = 0
    groups: list[int] = []

    def read(numbers: Sequence[object]) -> list[float]:
        groups.append(len(numbers))
        return read_each(numbers)

    own = OwnSignals()
    recorder = SignalRecorder(tmp_path / "signals.jsonl", 3, read)
    for step in range(1, 7):
        own("far", Waiting(step / 4))
        recorder.observe(StepKept(Progress(step, step, step, 0), OUTCOME._replace(own=own.take())))
        assert Waiting.waits == step // 3 * 3
    assert groups == [3 * 5, 3 * 5]
    assert read_own_signals(tmp_path / "signals.jsonl") == {"far": {n: n / 4 for n in range(1, 7)}}


def test_a_tensor_that_was_changed_before_it_is_read_is_told(tmp_path: Path) -> None:
    """On a GPU: its number would be that of a later step."""
    temperature = torch.tensor(1.0)
    named = OwnNumbers(("temperature",), (temperature,), (1,), (version_of(temperature),))
    recorder = SignalRecorder(tmp_path / "signals.jsonl", 2)
    recorder.observe(StepKept(Progress(1, 1, 1, 0), OUTCOME._replace(own=named)))
    temperature.add_(1)
    with pytest.raises(Mistake, match="temperature was changed in place"):
        recorder.flush()


def test_on_a_cpu_a_number_is_that_of_its_moment() -> None:
    own, temperature = OwnSignals(), torch.tensor(1.0)
    own("temperature", temperature)
    temperature.add_(1)
    assert own.take().totals == (1.0,)


def test_what_is_not_finite_is_written_by_its_name(tmp_path: Path) -> None:
    own = OwnSignals()
    own("bad", float("nan"))
    own("good", 2.0)
    own("of_nothing", 0.0, 0)
    recorder = SignalRecorder(tmp_path / "signals.jsonl", 1)
    recorder.observe(StepKept(Progress(1, 1, 1, 0), OUTCOME._replace(own=own.take())))
    line = json.loads((tmp_path / "signals.jsonl").read_text())
    assert (line["own/bad"], line["own/good"], line["own/of_nothing"]) == ("nan", 2.0, "nan")
    assert math.isnan(read_own_signals(tmp_path / "signals.jsonl")["bad"][1])


@pytest.mark.parametrize("name", ["", "1st", 'a"b', "a b", "a%s", "line\n"])
def test_a_name_that_would_break_the_file_is_refused(name: str) -> None:
    with pytest.raises(Mistake, match="invalid signal name"):
        OwnSignals()(name, 1.0)


def test_several_numbers_are_refused() -> None:
    with pytest.raises(Mistake, match=r"not a single number(.|\n)*shape \(3,\)"):
        OwnSignals()("many", torch.zeros(3))
