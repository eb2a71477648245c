"""What is measured in windows is right, changes nothing, and survives a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import STEPS, Killed, Setting, everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from measured_canary import MeasuredCanary, measured  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.core.files import Json  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.guards.step_guard import Judgement, Keep, RollBack  # noqa: E402
from trainwright.engine.signals import telemetry as windows_module  # noqa: E402
from trainwright.engine.signals.network_inspection import LayerNorms, group_of  # noqa: E402
from trainwright.engine.signals.telemetry import Window, Windows  # noqa: E402
from trainwright.engine.signals.throughput import PaddingGauge  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Event,
    Resumed,
    RolledBack,
    Saved,
    Saving,
    StepDropped,
    StepKept,
    StepOutcome,
    Validated,
)
from trainwright.tracking.telemetry_file import WindowLine  # noqa: E402

pytestmark = pytest.mark.torch

SPARSE = Setting(checkpoint_every=5, validate_every=7)


@pytest.mark.parametrize("length", [1, 4, 5])
def test_measuring_leaves_every_bit_of_the_training(length: int, tmp_path: Path) -> None:
    plain = start(tmp_path / "plain", MemoryCheckpoints())
    whole = everything(plain, plain.fit())
    watched = measured(tmp_path / "watched", MemoryCheckpoints(), length)
    same = everything(watched.canary, watched.canary.fit())
    assert differences(whole, same) == ["windows values"]
    ends = [line["step"] for line in watched.lines()]
    assert ends == list(range(length, STEPS + 1, length))
    assert {line["steps"] for line in watched.lines()} == {length}


def test_the_norms_are_those_of_weights_updates_and_gradients(tmp_path: Path) -> None:
    watched = measured(tmp_path, MemoryCheckpoints(), 3)
    model, kept = watched.canary.model, []
    weights = [[p.detach().clone() for p in model.parameters()]]

    def keep(event: Event) -> None:
        if isinstance(event, StepKept):
            kept.append(event)
            weights.append([p.detach().clone() for p in model.parameters()])

    watched.canary.on_event.append(keep)
    watched.canary.fit()
    names = [name for name, _ in model.named_parameters()]
    for line in watched.lines():
        step = line["step"]
        for group in ("0", "1", "4", "5"):
            mine = [index for index, name in enumerate(names) if group_of(name) == group]
            now = [weights[step][index] for index in mine]
            changes = [weights[step][index] - weights[step - 1][index] for index in mine]
            assert line[f"weight_norm/{group}"] == pytest.approx(length_of(now), rel=1e-5)
            ratio = length_of(changes) / length_of(now)
            assert line[f"update_ratio/{group}"] == pytest.approx(ratio, rel=1e-4)
        gradients = [value for name, value in line.items() if name.startswith("gradient_norm/")]
        whole = kept[step - 1].outcome.gradient_norm
        assert math.hypot(*gradients) == pytest.approx(whole, rel=1e-5)
        assert whole > 1.0, "a norm that was not clipped could not tell which one is shown"


def length_of(tensors: list[torch.Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


@pytest.mark.parametrize(
    ("parameter", "group"),
    [
        ("blocks.11.attended.weight", "blocks.11"),
        ("head.weight", "head"),
        ("columns.embeddings.3.weight", "columns.embeddings"),
        ("scale", "scale"),
    ],
)
def test_groups_are_the_first_two_parts_of_the_path(parameter: str, group: str) -> None:
    assert group_of(parameter) == group


def test_what_is_frozen_is_left_out_until_it_thaws() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    layers = LayerNorms(model)
    numbers = {}
    for thawed in (False, True):
        model[0].requires_grad_(thawed)
        with layers.measuring(None):
            pass
        numbers[thawed] = set(layers.read(window_of_one_step()))
    assert {name for name in numbers[False] if name.endswith("/0")} == set()
    assert {name for name in numbers[True] if name.endswith("/0")} == {
        "weight_norm/0",
        "update_ratio/0",
        "gradient_norm/0",
    }


def window_of_one_step() -> object:
    class OneStep:
        steps = (StepOutcome(1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1, 1, 0),)

    return OneStep


@cache
def unbroken(length: int) -> tuple[list[Mapping[str, object]], list[Json]]:
    with TemporaryDirectory() as folder:
        whole = measured(Path(folder), MemoryCheckpoints(), length, SPARSE)
        whole.canary.fit()
        return whole.lines(), whole.notes()


def die_at(watched: MeasuredCanary, kind: type, step: int) -> None:
    def react(event: Event) -> None:
        if isinstance(event, kind) and event.progress.step == step:
            raise Killed

    watched.canary.on_event.append(react)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *((StepKept, step) for step in (3, 4, 5, 8, 11)),
        *((kind, step) for kind in (Saving, Saved) for step in (5, 10)),
    ],
)
def test_killed_anywhere_each_window_is_there_once_and_is_told_once(
    kind: type, step: int, length: int, tmp_path: Path
) -> None:
    first = measured(tmp_path, Checkpoints(tmp_path / "ckpt", 2), length, SPARSE)
    die_at(first, kind, step)
    with pytest.raises(Killed):
        first.canary.fit()
    second = measured(tmp_path, Checkpoints(tmp_path / "ckpt", 2), length, SPARSE, process=7)
    second.canary.fit()
    assert (second.lines(), second.notes()) == unbroken(length)
    assert len(second.notes()) == STEPS // length


class BackOnce:
    """Rolls the third of its steps back by two."""

    def __init__(self) -> None:
        self.seen = 0

    def judge(self, outcome: StepOutcome) -> Judgement:
        self.seen += 1
        return RollBack("a test", 2) if self.seen == 7 else Keep()


def test_a_rollback_takes_its_windows_off_and_tells_the_watches(tmp_path: Path) -> None:
    watched = measured(tmp_path, Checkpoints(tmp_path / "ckpt", 9), 2, Setting())
    watched.canary.change(guard=BackOnce())
    watched.canary.fit()
    assert [line["step"] for line in watched.lines()] == [2, 4, 6, 8, 10, 12]
    assert watched.watch.rearmed == 1
    # Step 6 is made twice: once before the rollback from the seventh attempt, once after it.
    assert [note["step"] for note in watched.notes()] == [2, 4, 6, 6, 8, 10, 12]
    assert [note["attempted"] for note in watched.notes()] == [2, 4, 6, 8, 10, 12, 14]


def test_validations_and_saves_are_not_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(windows_module.time, "perf_counter", lambda: now[0])
    seen = Rates()
    windows = Windows(2, [seen])

    def tell(event: Event, seconds: float) -> None:
        now[0] += seconds
        windows.observe(event)

    saved = Saved(progress_at(1), "step-0000000001", 7.0, 1, math.nan)
    tell(kept(1), 1.0)
    tell(Validated(progress_at(1), {}, 30.0, True), 30.0)
    tell(Saving(progress_at(1)), 0.0)
    tell(saved, 8.0)
    for step in (2, 3, 4):
        tell(kept(step), 1.0)
    assert seen.seconds == pytest.approx([2.0, 2.0])
    tell(Resumed(progress_at(3), "step-0000000003"), 500.0)
    tell(kept(4), 1.0)
    assert seen.seconds[-1] == pytest.approx(1.0)
    assert seen.rows == [8, 8, 4]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_dropped_step_is_part_of_the_time_of_its_window(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(windows_module.time, "perf_counter", lambda: now[0])
    seen = Rates()
    windows = Windows(2, [seen])
    for step in (1, 2, 3, 4):
        now[0] += 1.0
        windows.observe(kept(step))
        if step == at + 1:
            now[0] += 1.0
            windows.observe(StepDropped(progress_at(step), "a test"))
    assert seen.seconds == pytest.approx([3.0, 2.0] if at == 0 else [2.0, 3.0])
    assert seen.rows == [8, 8]


def test_a_rollback_into_a_window_times_what_is_made_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(windows_module.time, "perf_counter", lambda: now[0])
    seen = Rates()
    windows = Windows(4, [seen])
    for step in (1, 2, 3):
        now[0] += 1.0
        windows.observe(kept(step))
    now[0] += 60.0
    windows.observe(RolledBack(progress_at(2), 3, "a test"))
    for step in (3, 4):
        now[0] += 1.0
        windows.observe(kept(step))
    assert (seen.seconds, seen.rows) == (pytest.approx([2.0]), [8])


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_the_padding_of_a_window_is_the_same_wherever_the_run_was_cut(cut: int) -> None:
    places = [16, 8, 6]
    lines: list[WindowLine] = []

    class Kept:
        append = lines.append

        def sync(self) -> None: ...

        def cut(self, step: int) -> None: ...

    first, second = (Windows(3, [PaddingGauge()], lines=Kept()) for _ in range(2))
    for step in range(1, cut + 1):
        first.observe(kept(step, places[step - 1]))
    second.restore(Snapshot(values=json.loads(json.dumps(first.snapshot().values))))
    second.observe(Resumed(progress_at(cut), "step-0000000000"))
    for step in range(cut + 1, 4):
        second.observe(kept(step, places[step - 1]))
    assert [line.numbers for line in lines] == [{"padding": pytest.approx(1 - 12 / 30)}]


class Rates:
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.rows: list[int] = []

    def read(self, window: Window) -> dict[str, float]:
        self.seconds.append(window.seconds)
        self.rows.append(window.rows)
        return {}


def test_a_window_that_cannot_be_written_does_not_change_which_steps_are_measured() -> None:
    class Broken:
        def append(self, line: object) -> None:
            raise OSError("full")

        def sync(self) -> None: ...

        def cut(self, step: int) -> None: ...

    windows = Windows(3, [], lines=Broken())
    due = []
    for step in range(1, 8):
        due.append(windows.closes_next)
        if step % 3:
            windows.observe(kept(step))
        else:
            with pytest.raises(OSError, match="full"):
                windows.observe(kept(step))
    assert due == [False, False, True, False, False, True, False]


def kept(step: int, places: int = 4) -> StepKept:
    outcome = StepOutcome(1.0, 0.1, 1.0, 0.0, 0.75, 0.25, 4, 4 * step, 0, 0.0, 4, places=places)
    return StepKept(progress_at(step), outcome)


def progress_at(step: int) -> Progress:
    return Progress(step, step, 4 * step, 0)
