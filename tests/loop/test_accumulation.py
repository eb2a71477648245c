"""Invariant 2: the loss is a sum divided by the targets of the whole step.

The oracle is written by hand in NumPy, in fp64, over the whole step at once: a network
v(tanh(w x + b)) + c with four outputs a row, of which a mask says which are targets.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.contract.sections.training.optimizer import BatchRamp  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.loading.feed import Batch, Feed  # noqa: E402
from trainwright.data.sampling.step_ramps import Stages, step_rows  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402

pytestmark = pytest.mark.torch

Array = npt.NDArray[np.float64]
GLOBAL_BATCH = 12
LEARNING_RATE = 0.5


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Linear(3, 5, dtype=torch.float64)
        self.second = nn.Linear(5, 4, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


def loss(model: nn.Module, batch: Batch) -> LossSum:
    x, y, weights, mask = batch
    each = (model(x) - y).square() * weights * mask
    return LossSum(each.sum(), count(batch))


def count(batch: Batch) -> int:
    return int(batch[3].sum())


def data(rows: int, kind: str) -> tuple[Array, Array, Array, Array]:
    draw = np.random.default_rng(rows)
    x, y = draw.normal(size=(rows, 3)), draw.normal(size=(rows, 4))
    weights, mask = np.ones((rows, 4)), np.ones((rows, 4))
    if kind in ("unequal counts", "both"):
        lengths = draw.integers(0, 5, size=rows)  # some rows have no target at all
        mask = (np.arange(4)[None, :] < lengths[:, None]).astype(np.float64)
    if kind in ("weights", "both"):
        weights = draw.uniform(0.1, 3.0, size=(rows, 4))
    return x, y, weights, mask


def gradients(
    parts: Mapping[str, Array], x: Array, y: Array, weights: Array, mask: Array
) -> tuple[float, dict[str, Array]]:
    """The mean loss over the targets and its gradient, by hand."""
    hidden = np.tanh(x @ parts["first.weight"].T + parts["first.bias"])
    error = hidden @ parts["second.weight"].T + parts["second.bias"] - y
    targets = mask.sum()
    outer = 2 * error * weights * mask / targets
    inner = (outer @ parts["second.weight"]) * (1 - hidden**2)
    return float((error**2 * weights * mask).sum() / targets), {
        "first.weight": inner.T @ x,
        "first.bias": inner.sum(axis=0),
        "second.weight": outer.T @ hidden,
        "second.bias": outer.sum(axis=0),
    }


def values(model: nn.Module) -> dict[str, Array]:
    return {name: part.detach().numpy().copy() for name, part in model.named_parameters()}


@pytest.mark.parametrize("kind", ["equal", "unequal counts", "weights", "both"])
@pytest.mark.parametrize("rows", [24, 25, 30, 35])
@pytest.mark.parametrize("accumulate", [1, 2, 3, 4, 6, 12])
def test_every_cut_is_the_step_over_the_whole_batch(accumulate: int, rows: int, kind: str) -> None:
    agrees_with_the_oracle(rows, kind, GLOBAL_BATCH // accumulate, Stages.flat(GLOBAL_BATCH))


@pytest.mark.parametrize("kind", ["equal", "both"])
@pytest.mark.parametrize("rows", [24, 25, 35])
@pytest.mark.parametrize("growth", ["doubling", "linear"])
@pytest.mark.parametrize("batch", [2, 3, 5, 12])
def test_so_is_every_step_of_a_ramp(batch: int, growth: str, rows: int, kind: str) -> None:
    """Micro-batches of `batch` rows, and a rest where a step is no multiple of it."""
    ramp = step_rows(BatchRamp(start=5, growth=growth, ratio=0.7), GLOBAL_BATCH, 2 * rows)
    assert len(set(ramp.values)) == 3
    agrees_with_the_oracle(rows, kind, batch, ramp)


def agrees_with_the_oracle(rows: int, kind: str, batch: int, ramp: Stages) -> None:
    """Two epochs of the step against the same by hand, to 1e-12."""
    arrays = data(rows, kind)
    feed = Feed(
        [torch.from_numpy(array) for array in arrays], batch, seed=7, count_targets=count, ramp=ramp
    )
    model = Net()
    step = OptimizerStep(model, loss, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE))
    expected = values(model)
    for _ in range(feed.epoch_ends(2)[-1]):
        before = feed.samples
        work = feed.next_step()
        assert work.rows == ramp.rows_at(before, rows - before % rows)
        chosen = feed.rows_between(before, work.samples)
        mean, gradient = gradients(expected, *(array[chosen] for array in arrays))
        norm = np.sqrt(sum(float((part**2).sum()) for part in gradient.values()))
        expected = {name: part - LEARNING_RATE * gradient[name] for name, part in expected.items()}
        outcome = step(work)
        assert float(outcome.loss) == pytest.approx(mean, rel=1e-12, abs=1e-12)
        assert float(outcome.gradient_norm) == pytest.approx(norm, rel=1e-12, abs=1e-12)
        for name, part in values(model).items():
            assert np.abs(part - expected[name]).max() <= 1e-12
    assert feed.samples == 2 * rows


def test_the_mean_of_means_would_be_seen() -> None:
    """The oracle can fail: an objective that averages each micro-batch gives another update."""
    arrays = data(24, "unequal counts")
    feed = Feed([torch.from_numpy(array) for array in arrays], 3, 4, seed=7)
    model = Net()

    def averaged(model: nn.Module, batch: Batch) -> LossSum:
        return LossSum(loss(model, batch).sum / max(1, count(batch)) * len(batch[0]), len(batch[0]))

    step = OptimizerStep(model, averaged, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE))
    chosen = feed.rows_between(0, 12)
    before = values(model)
    _, gradient = gradients(before, *(array[chosen] for array in arrays))
    step(feed.next_step())
    after = values(model)
    assert (
        max(np.abs(before[n] - LEARNING_RATE * gradient[n] - after[n]).max() for n in after) > 1e-3
    )


def test_a_step_without_any_target_is_refused() -> None:
    x, y, weights, mask = data(24, "equal")
    feed = Feed(
        [torch.from_numpy(array) for array in (x, y, weights, 0 * mask)], 6, 2, count_targets=count
    )
    model = Net()
    step = OptimizerStep(model, loss, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE))
    before = values(model)
    with pytest.raises(Mistake, match="no targets"):
        step(feed.next_step())
    assert all((before[name] == part).all() for name, part in values(model).items())
