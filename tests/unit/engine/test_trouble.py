"""Each sign of trouble: what it sees, what it lets pass, that it is told once, and resume."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

pytest.importorskip("torch")

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.engine.health.health_monitor import OF_THE_LAYERS, OF_THE_LOSS, HealthMonitor
from trainwright.engine.signals.telemetry import StepNumbers, Trouble, Window

pytestmark = pytest.mark.torch

HEALTHY = {
    "weight_norm/body.0": 5.0,
    "weight_norm/body.2": 5.0,
    "update_ratio/body.0": 2e-3,
    "update_ratio/body.2": 1e-3,
    "gradient_norm/body.0": 0.5,
    "gradient_norm/body.2": 0.8,
    "dead_share/body.0": 0.02,
    "dead_share/body.2": 0.0,
}
LENGTH = 50


def window(steps: Sequence[StepNumbers]) -> Window:
    last = steps[-1].step
    return Window(Progress(last, last, 8 * last, 0), 1.0, 8 * len(steps), 8 * len(steps), steps)


def windows(
    loss: Callable[[int], float],
    steps: int = 800,
    norm: Callable[[int], float] = lambda step: 1.0,
    rate: Callable[[int], float] = lambda step: 1e-3,
) -> list[Window]:
    numbers = [
        StepNumbers(step, loss(step - 1), norm(step - 1), rate(step - 1))
        for step in range(1, steps + 1)
    ]
    return [window(numbers[at : at + LENGTH]) for at in range(0, steps, LENGTH)]


def told(seen: Iterable[Window], numbers: Mapping[str, float] = HEALTHY) -> list[tuple[str, int]]:
    watch = HealthMonitor()
    return [(one.kind, at.progress.step) for at in seen for one in watch.look(at, numbers)]


def noisy(base: Callable[[int], float], deviation: float, seed: int = 0) -> Callable[[int], float]:
    draw = random.Random(seed)
    drawn = [draw.gauss(0, deviation) for _ in range(5000)]
    return lambda step: base(step) + drawn[step]


def falling(step: int) -> float:
    return 0.3 + 2.0 * math.exp(-step / 150)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("deviation", [0.0, 0.02, 0.3])
def test_a_loss_that_falls_is_no_trouble(deviation: float, seed: int) -> None:
    assert told(windows(noisy(falling, deviation, seed))) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_that_is_mostly_noise_is_no_trouble(seed: int) -> None:
    assert told(windows(noisy(lambda step: 1.0 - 5e-5 * step, 0.4, seed))) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_of_the_schedule_is_no_trouble(seed: int) -> None:
    def restarted(step: int) -> float:
        return falling(step) + (0.35 * math.exp(-(step - 400) / 60) if step >= 400 else 0.0)

    assert told(windows(noisy(restarted, 0.03, seed))) == []


CASES: dict[str, tuple[list[Window], Mapping[str, float], int]] = {
    "divergence": (windows(noisy(lambda step: 2.0 + 0.004 * step, 0.05)), HEALTHY, 250),
    "explosion": (
        windows(noisy(lambda step: 2.0, 0.2), norm=lambda step: 1.0 if step < 200 else 1e4),
        HEALTHY,
        350,
    ),
    "plateau": (windows(noisy(lambda step: 2.302, 0.002)), HEALTHY, 400),
    "vanishing": (
        windows(noisy(lambda step: 2.3 - 1e-4 * step, 0.2)),
        {**HEALTHY, "gradient_norm/body.0": 1e-6},
        150,
    ),
    "dead_units": (
        windows(noisy(lambda step: 2.3 - 1e-4 * step, 0.2)),
        {**HEALTHY, "dead_share/body.0": 0.8},
        150,
    ),
    "learning_rate_low": (
        windows(noisy(lambda step: 2.3, 0.2)),
        {**HEALTHY, "update_ratio/body.0": 1e-6, "update_ratio/body.2": 2e-6},
        200,
    ),
    "learning_rate_high": (
        windows(noisy(lambda step: 2.3, 0.2)),
        {**HEALTHY, "update_ratio/body.0": 0.2, "update_ratio/body.2": 0.1},
        250,
    ),
    "lost_updates": (
        windows(noisy(falling, 0.02)),
        {**HEALTHY, "update_ratio/body.0": 1e-9},
        200,
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_trouble_is_named_once_and_soon(kind: str) -> None:
    seen, numbers, by = CASES[kind]
    found = told(seen, numbers)
    assert [name for name, _ in found] == [kind]
    assert found[0][1] <= by


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_that_leaps_in_its_first_steps_and_never_comes_back_diverges(seed: int) -> None:
    """Its first stretch is as high as all others, and the noise is as large as the loss."""
    noise = random.Random(seed)
    losses = [1.2, *(math.exp(noise.gauss(math.log(120 * 0.998**n), 0.8)) for n in range(800))]
    assert ("divergence", 300) in told(windows(lambda step: losses[step]))


@pytest.mark.parametrize("seed", range(8))
def test_batches_of_one_row_that_teach_nothing_do_not_diverge(seed: int) -> None:
    noise = random.Random(seed)
    losses = [noise.gauss(0, 1) ** 2 for _ in range(800)]
    assert told(windows(lambda step: losses[step])) == []


def test_every_sign_has_a_case() -> None:
    assert {*CASES, "oscillation", "leap"} == {*OF_THE_LOSS, *OF_THE_LAYERS}


EXPLODED = [
    # at, losses: from a calm start, at once, and back again before the window ends
    (29, [4.152 - 0.01 * step if step < 28 else 30.06 for step in range(400)]),
    (2, [0.69, *([9.9, 23.0, 56.0, 8.0, 34.0] * 3), *([0.7, 0.72] * 200)]),
    (2, [1.1, *([20.0, 1237.0, 553.0, 149710.0] * 100)]),
]


def stepping(losses: Sequence[float], targets: int = 64) -> list[Window]:
    numbers = [
        StepNumbers(step, loss, 1.0, 1e-3, targets=targets)
        for step, loss in enumerate(losses, start=1)
    ]
    return [window(numbers[at : at + LENGTH]) for at in range(0, len(numbers) - LENGTH, LENGTH)]


@pytest.mark.parametrize(("step", "losses"), EXPLODED)
def test_an_explosion_is_named_at_once_with_its_step(step: int, losses: list[float]) -> None:
    watch = HealthMonitor()
    first, *later = stepping(losses)
    (found,) = watch.look(first, HEALTHY)
    assert found.kind == "leap"
    assert found.numbers["exploded_at"] == step
    assert f"exploded at step {step}:" in found.message
    assert "The learning rate is too high" in found.message
    said = [one for at in later for one in watch.look(at, HEALTHY)]
    assert "leap" not in [one.kind for one in said]
    for one in said:
        if one.kind == "divergence":
            assert one.numbers["best"] <= one.numbers["start"]
            assert f"it exploded at step {step}" in one.message


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("targets", [1, 16, 256])
def test_noise_does_not_explode(targets: int, seed: int) -> None:
    draw = random.Random(seed)
    losses = [
        sum(draw.gauss(0, 1) ** 2 for _ in range(targets)) / targets * math.exp(-step / 300)
        for step in range(100)
    ]
    assert "leap" not in [kind for kind, _ in told(stepping(losses, targets))]


DEAD = {
    **HEALTHY,
    "gradient_norm/body.0": 0.0,
    "gradient_norm/body.2": 0.0,
    "gradient_norm/body.4": 3.0,
    "update_ratio/body.4": 1e-3,
    "dead_share/body.0": 1.0,
    "dead_share/body.2": 0.9,
    "dead_share/body.4": 0.0,
}


def test_dead_units_are_told_in_their_own_layer_and_not_as_a_vanishing_gradient() -> None:
    watch = HealthMonitor()
    calm = windows(noisy(lambda step: 2.3 - 1e-4 * step, 0.2))
    said = [one for at in calm for one in watch.look(at, DEAD)]
    assert [one.kind for one in said] == ["dead_units"]
    assert "90% of the units of a layer in body.2 are dead" in said[0].message


def test_units_that_died_of_a_high_rate_are_told_as_that() -> None:
    watch = HealthMonitor()
    said = [one for at in stepping(EXPLODED[1][1]) for one in watch.look(at, DEAD)]
    kinds = [one.kind for one in said]
    assert kinds[:2] == ["leap", "learning_rate_high"]
    assert not {"vanishing", "dead_units"} & {*kinds}
    assert "the loss jumped at step 2, and 90% of the units" in said[1].message


@pytest.mark.parametrize(
    ("loss", "troubled"),
    [
        (lambda step: 2.0 + 0.4 * (-1) ** step, True),
        (lambda step: 2.0 + 0.6 * math.sin(step / 6), True),
        (lambda step: 2.0 * math.exp(-step / 300) * (1 + 0.3 * (-1) ** step), False),
        (lambda step: 2.0 * math.exp(-step / 300) * (1 + 0.4 * math.sin(step / 6)), False),
        (lambda step: 2.0 + 0.05 * (-1) ** step - 1e-3 * step, False),
    ],
    ids=["back and forth", "in waves", "falling back and forth", "falling in waves", "small"],
)
def test_a_loss_that_swings_and_does_not_fall_oscillates(
    loss: Callable[[int], float], troubled: bool
) -> None:
    found = told(windows(noisy(loss, 0.01)))
    assert ("oscillation" in {kind for kind, _ in found}) == troubled
    assert troubled or found == []


@pytest.mark.parametrize("seed", range(6))
def test_single_spikes_are_no_oscillation(seed: int) -> None:
    draw = random.Random(seed)
    spikes = {draw.randrange(100, 800) for _ in range(25)}
    spiked = noisy(lambda step: falling(step) + (3.0 if step in spikes else 0.0), 0.05, seed)
    assert told(windows(spiked)) == []


def test_a_warmup_is_no_plateau() -> None:
    def slow(step: int) -> float:
        return 2.3 if step < 400 else 2.3 * math.exp(-(step - 400) / 200)

    warmup = windows(noisy(slow, 0.002), rate=lambda step: 1e-3 * min(1.0, (step + 1) / 800))
    assert told(warmup) == []
    assert told(windows(noisy(slow, 0.002))) == [("plateau", 400)]


def test_a_decayed_rate_is_not_called_low() -> None:
    small = {**HEALTHY, "update_ratio/body.0": 1e-9, "update_ratio/body.2": 1e-9}
    decayed = windows(noisy(falling, 0.02), rate=lambda step: 1e-3 if step < 50 else 1e-6)
    assert told(decayed, small) == []


def test_trouble_that_comes_back_is_told_again_and_trouble_that_flickers_is_not() -> None:
    def level(step: int) -> float:
        return 4.0 if 300 <= step < 600 or step >= 1500 else 2.0 - 5e-4 * min(step, 1200)

    found = told(windows(noisy(level, 0.02), steps=2000))
    assert [kind for kind, _ in found] == ["divergence", "divergence"]

    def flickers(step: int) -> float:
        return 4.0 if 300 <= step < 600 or step >= 800 else 2.0 - 5e-4 * step

    found = told(windows(noisy(flickers, 0.02), steps=1200))
    assert [kind for kind, _ in found] == ["divergence"]


def test_numbers_that_are_not_finite_are_left_to_the_guard() -> None:
    losses = noisy(falling, 0.02)
    holes = windows(lambda step: math.nan if step % 7 == 3 else losses(step))
    assert told(holes) == []


def test_models_without_a_linear_layer_are_watched_by_their_loss() -> None:
    assert told(windows(noisy(falling, 0.02)), {"weight_norm/scale": 1.0}) == []
    rising = windows(noisy(lambda step: 2.0 + 0.004 * step, 0.05))
    assert [kind for kind, _ in told(rising, {})] == ["divergence"]


@pytest.mark.parametrize("kind", [*CASES, "flickering"])
def test_a_watch_that_was_cut_anywhere_tells_what_an_unbroken_one_tells(kind: str) -> None:
    seen, numbers, _ = CASES.get(kind, CASES["divergence"])
    if kind == "flickering":
        seen = windows(noisy(lambda s: 4.0 if s // 150 % 2 else 2.0, 0.02), steps=1500)
    whole = tell(HealthMonitor(), seen, numbers)
    assert whole
    for cut in range(1, len(seen)):
        first, second = HealthMonitor(), HealthMonitor()
        before = tell(first, seen[:cut], numbers)
        second.restore(Snapshot(values=first.snapshot().values))
        assert before + tell(second, seen[cut:], numbers) == whole


def tell(
    watch: HealthMonitor, seen: Sequence[Window], numbers: Mapping[str, float]
) -> list[Trouble]:
    return [trouble for one in seen for trouble in watch.look(one, numbers)]


def test_a_rollback_forgets_the_course_and_not_what_was_told() -> None:
    seen = windows(noisy(lambda step: 2.0 + 0.004 * step, 0.05), steps=1200)
    watch = HealthMonitor()
    assert len(tell(watch, seen[:8], HEALTHY)) == 1
    watch.rearm()
    assert tell(watch, seen[:3], HEALTHY) == []
    assert tell(watch, seen[8:], HEALTHY) == []


def test_windows_of_any_length_tell_the_same_of_the_loss() -> None:
    seen = CASES["divergence"][0]
    steps = [step for one in seen for step in one.steps]
    kinds = []
    for length in (1, 7, 50, 200):
        cut = [window(steps[at : at + length]) for at in range(0, len(steps), length)]
        kinds.append([kind for kind, _ in told(cut, {})])
    assert kinds == [["divergence"]] * 4
