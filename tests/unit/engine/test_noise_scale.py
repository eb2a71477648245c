"""The gradient noise scale against brute force, and that measuring it changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from canary import Canary, Killed, Setting, everything, start  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from comparing import differences  # noqa: E402
from contract_runs import train  # noqa: E402
from observed import observed  # noqa: E402
from stopped_runs import Cut  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.engine.execution.precision import Full, LossScale  # noqa: E402
from trainwright.engine.signals.noise_scale import NoiseScale, noise_parts  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.telemetry_file import read_windows  # noqa: E402

pytestmark = pytest.mark.torch

MEAN, DEVIATION, SIZE = 0.3, 2.0, 20
TRUE_NOISE = SIZE * DEVIATION**2
"""Of `distance` at w = 0 the gradient of a row is minus the row: its covariance is the rows'."""
TRUE_SCALE = TRUE_NOISE / (SIZE * MEAN**2)


class Point(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(SIZE, dtype=torch.float64))


def distance(model: nn.Module, batch: Batch) -> LossSum:
    rows, weights = batch
    each = (model.w - rows).square().sum(1) / 2 * weights
    return LossSum(each.sum(), targets_of(batch))


def targets_of(batch: Batch) -> int:
    return int(batch[1].sum())


def rows_of(count: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, SIZE, generator=draw, dtype=torch.float64)
    return MEAN + DEVIATION * noise


def measured(
    tensors: Sequence[Tensor], batch: int, accumulate: int, every: int = 1, rate: float = 0.0
) -> tuple[Feed, NoiseScale, object, nn.Module]:
    model = Point()
    feed = Feed(tensors, batch, accumulate, count_targets=targets_of)
    noise = NoiseScale(list(model.parameters()), every)
    sgd = torch.optim.SGD(model.parameters(), lr=rate)
    step = observed(OptimizerStep(model, noise.objective(distance), sgd), noise)
    return feed, noise, step, model


def test_one_measure_is_the_papers_formula_over_the_batches_themselves() -> None:
    """Rows count once, twice or not at all, and the last step of an epoch is short."""
    rows = rows_of(53)
    weights = torch.arange(53, dtype=torch.float64) % 3
    feed, noise, step, _ = measured([rows, weights], 4, 3)
    sums = torch.zeros(2, dtype=torch.float64)
    for _ in range(2 * feed.steps_per_epoch):
        work = feed.next_step()
        step(work)
        lengths = [math.nan, math.nan]
        for at, batches in enumerate((work.micro_batches[:1], work.micro_batches)):
            x, w = (torch.cat(parts) for parts in zip(*batches, strict=True))
            lengths[at] = float((x * w[:, None]).sum(0).div(w.sum()).norm())
        few = targets_of(work.micro_batches[0]) / work.targets * work.rows
        if few < work.rows:
            parts = noise_parts(lengths[0], few, lengths[1], work.rows)
            sums = 0.95 * sums + 0.05 * torch.stack(parts)
        assert torch.allclose(noise.snapshot().tensors["sums"], sums, rtol=1e-12)


def test_it_finds_the_noise_scale_of_known_gradients() -> None:
    rows = rows_of(50_000)
    feed, noise, step, _ = measured([rows, torch.ones(len(rows))], 40, 5)
    found = []
    for number in range(500):
        step(feed.next_step())
        if number >= 100:
            found.append(noise.snapshot().tensors["sums"])
    mean_noise, mean_signal = torch.stack(found).mean(0).tolist()
    assert mean_noise == pytest.approx(TRUE_NOISE, rel=0.05)
    assert mean_noise / mean_signal == pytest.approx(TRUE_SCALE, rel=0.15)


def test_only_every_so_many_steps_are_measured_and_single_batches_never() -> None:
    rows = rows_of(400)
    feed, noise, step, _ = measured([rows, torch.ones(400)], 5, 2, every=3)
    seen = [noise.snapshot().tensors["sums"]]
    for _ in range(9):
        step(feed.next_step())
        seen.append(noise.snapshot().tensors["sums"])
    moved = [not torch.equal(before, after) for before, after in pairwise(seen)]
    assert moved == [True, False, False] * 3
    feed, noise, step, _ = measured([rows, torch.ones(400)], 10, 1)
    assert math.isnan(noise.rows)
    step(feed.next_step())
    assert math.isnan(noise.rows)


def test_rows_that_hide_their_gradient_have_an_infinite_scale() -> None:
    noise = NoiseScale([])
    snapshot = noise.snapshot()
    noise.restore(
        type(snapshot)(tensors={"sums": torch.tensor([2.0, -1.0]).double()}, values={"steps": 1})
    )
    assert float(noise.rows) == math.inf


def test_a_step_that_is_not_finite_does_not_count() -> None:
    rows = rows_of(40)
    feed, noise, step, _ = measured([rows, torch.ones(40)], 5, 2)
    step(feed.next_step())
    before = noise.snapshot().tensors["sums"]
    work = feed.next_step()
    (x, w), second = work.micro_batches
    for poisoned in ([(x * math.nan, w), second], [(x, w), (second[0] * math.inf, second[1])]):
        step(work._replace(micro_batches=poisoned))
        assert torch.equal(noise.snapshot().tensors["sums"], before)
    step(feed.next_step())
    assert not torch.equal(noise.snapshot().tensors["sums"], before)


def test_the_factor_on_the_loss_is_taken_out() -> None:
    class Scaled:
        def __init__(self) -> None:
            self.scale = LossScale(1024.0)
            self.forward = Full().forward

    rows = rows_of(40)
    feed, plain, step, _ = measured([rows, torch.ones(40)], 5, 2)
    step(feed.next_step())
    model, precision = Point(), Scaled()
    noise = NoiseScale(list(model.parameters()), scale=precision.scale)
    sgd = torch.optim.SGD(model.parameters(), lr=0.0)
    inner = OptimizerStep(model, noise.objective(distance), sgd, precision=precision)
    scaled = observed(inner, noise)
    feed.seek(0)
    scaled(feed.next_step())
    assert torch.allclose(
        noise.snapshot().tensors["sums"], plain.snapshot().tensors["sums"], rtol=1e-6
    )


def with_noise_scale(canary: Canary, every: int) -> NoiseScale:
    """The canary's step, measured; its objective is the one it had."""
    noise = NoiseScale(list(canary.model.parameters()), every)
    objective = noise.objective(canary.job.step._objective)
    step = OptimizerStep(canary.model, objective, canary.optimizer, max_norm=1.0)
    state = {**canary.job.state, "noise_scale": noise}
    canary.change(step=step, outcome_observers=(noise,), state=state)
    return noise


def test_measuring_changes_no_bit_of_a_run(tmp_path) -> None:
    plain = start(tmp_path / "plain", MemoryCheckpoints())
    without = everything(plain, plain.fit())
    canary = start(tmp_path / "measured", MemoryCheckpoints())
    noise = with_noise_scale(canary, 2)
    found = everything(canary, canary.fit())
    assert not math.isnan(float(noise.rows))
    assert {name.split()[0] for name in differences(found, without)} == {"noise_scale"}


@pytest.mark.parametrize("cut", range(1, 12))
def test_cut_anywhere_it_goes_on_with_the_same_bits(tmp_path, cut: int) -> None:
    whole = start(tmp_path / "whole", MemoryCheckpoints(), Setting())
    with_noise_scale(whole, 3)
    expected = everything(whole, whole.fit())
    store = MemoryCheckpoints()
    first = start(tmp_path / "cut", store)
    with_noise_scale(first, 3)
    first.change(stop_rules=(*first.job.stop_rules, Cut(cut)))
    first.fit()
    second = start(tmp_path / "cut", store, process=100)
    with_noise_scale(second, 3)
    assert differences(everything(second, second.fit()), expected) == []


def test_a_step_without_batches_of_its_own_is_left_alone() -> None:
    """An objective may be called outside of a step, as in a validation."""
    feed, noise, step, model = measured([rows_of(40), torch.ones(40)], 5, 2)
    step(feed.next_step())
    before = noise.snapshot().tensors["sums"]
    watched = noise.objective(distance)
    with torch.no_grad():
        watched(model, feed.next_step().micro_batches[0])
    assert torch.equal(noise.snapshot().tensors["sums"], before)
    assert isinstance(feed.next_step(), StepBatches)


@pytest.mark.extended
def test_from_a_contract_it_stands_in_the_windows_and_survives_a_death(tmp_path) -> None:
    settings = (
        "training={num_epochs: 3, batch_size: 8, effective_batch_size: 32}",
        "tracking.windows={every_n_steps: 4, noise_scale: 2}",
    )
    network = with_layers("[9]")
    contract = write_project(tmp_path, network)
    whole = train(contract, "whole", *settings)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=11)
    cut = train(contract, "cut", *settings)
    lines = [read_windows(run.folder.windows) for run in (whole, cut)]
    found = [[line.numbers["noise_scale"] for line in each] for each in lines]
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0]) > 3
    assert not any(math.isnan(value) for value in found[0])
    plain = train(contract, "plain", *settings[:1])
    assert plain.signals["loss"] == whole.signals["loss"]
