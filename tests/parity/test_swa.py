"""The equal mean of the weights against torch's own, through norms, drops and resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.optim.swa_utils import AveragedModel, get_swa_multi_avg_fn, update_bn  # noqa: E402

from averaging_run import STEPS, TAKING, averaging, data, network  # noqa: E402
from objectives import squared_error  # noqa: E402
from stepwise import steps_that_differ  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.engine.bn_recalibration import BatchNormRecalibration  # noqa: E402
from trainwright.engine.job import Every  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.eval_weights import Evaluating  # noqa: E402
from trainwright.optim.swa import SWA  # noqa: E402
from trainwright.optim.swa_schedule import SWASchedule  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, StepKept  # noqa: E402

pytestmark = pytest.mark.torch


def nothing() -> None:
    """For models without norms."""


@pytest.mark.parametrize("on_device", [False, True])
def test_it_is_the_mean_that_torch_makes(on_device: bool) -> None:
    """Bit for bit, on the weights of a real run."""
    model = network()
    reference = AveragedModel(model, multi_avg_fn=get_swa_multi_avg_fn())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    step, feed = OptimizerStep(model, squared_error, optimizer), Feed(data(), 8, seed=2)
    mean = SWA(model, SWASchedule(4, tuple(range(5, 31, 3))), nothing)
    for number in range(30):
        mean(Progress(step=number))
        step(feed.next_step())
        mean.take(torch.tensor(0.0) if on_device else 0.0)
        if number + 1 >= 5 and (number + 1 - 5) % 3 == 0:
            reference.update_parameters(model)
    assert mean.count == int(reference.n_averaged) == 9
    for name, value in reference.module.named_parameters():
        assert torch.equal(mean.mean[name], value.detach()), name
    assert not torch.equal(mean.mean["0.weight"], model[0].weight)


def test_running_statistics_are_those_that_torch_computes_anew() -> None:
    model, feed = network(), Feed(data(), 8, seed=2)
    mine = BatchNormRecalibration(model, squared_error, lambda: feed.from_start(48))
    theirs = network()
    theirs.load_state_dict(model.state_dict())
    model[1].eval()
    mine()
    update_bn([batch[0] for batch in feed.from_start(48)], theirs)
    found, wanted = dict(model.named_buffers()), dict(theirs.named_buffers())
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert [module.training for module in model] == [True, False, *[True] * 6]
    assert [model[1].momentum, model[5].momentum] == [0.05, 0.1]
    assert feed.samples == 0


def test_they_draw_no_random_number_that_training_misses() -> None:
    model, feed = network(dropout=0.5), Feed(data(), 8, seed=2)

    def noisy(model: nn.Module, batch: Batch) -> LossSum:
        return squared_error(model, (batch[0] + torch.rand(1), batch[1]))

    mine = BatchNormRecalibration(model, noisy, lambda: feed.from_start(48))
    before = torch.get_rng_state()
    mine()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.extended
def test_without_new_statistics_the_mean_of_a_batch_norm_model_is_wrong() -> None:
    """The statistics of the last trained weights do not fit the mean of the weights, and a mean of
    them fits less well: the loss of the whole training set in batch statistics is the truth."""
    torch.manual_seed(0)
    model, feed = network(), Feed(data(), 8, seed=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = OptimizerStep(model, squared_error, optimizer)
    statistics = BatchNormRecalibration(model, squared_error, lambda: feed.from_start(48))
    mean = SWA(model, SWASchedule(0, tuple(range(6, 601, 6))), statistics)
    means = {name: one for name, one in model.named_buffers() if one.is_floating_point()}
    sums = {name: torch.zeros_like(one) for name, one in means.items()}
    for number in range(600):
        mean(Progress(step=number))
        step(feed.next_step())
        mean.take(0.0)
        if (number + 1) % 6 == 0:
            for name, one in means.items():
                sums[name] += one / 100
    with torch.no_grad():
        trained = {name: one.clone() for name, one in means.items()}
        with mean.evaluated():
            model.eval()
            right = loss_of(model)
            model.train()
            truth = loss_of(model)
            model.eval()
            for name, one in means.items():
                one.copy_(trained[name])
            raw = loss_of(model)
            for name, one in means.items():
                one.copy_(sums[name])
            averaged = loss_of(model)
    assert right == pytest.approx(truth, rel=0.2)
    assert raw > 1.5 * right
    assert averaged > right


def loss_of(model: nn.Module) -> float:
    return float(squared_error(model, data()).sum)


def test_before_its_start_the_trained_weights_are_evaluated() -> None:
    found = averaging(MemoryCheckpoints(), taking=SWASchedule(8, (20,)))
    trained: list[Tensor] = []
    evaluated: list[bool] = []

    class Watching:
        def observe(self, event: Event) -> None:
            if isinstance(event, StepKept):
                trained[:] = [found.model[0].weight.detach().clone()]

    def score() -> Mapping[str, float]:
        evaluated.append(not torch.equal(found.model[0].weight, trained[0]))
        return {"val_loss": 1.0}

    validate = Evaluating(score, found.mean)
    fit(replace(found.job, validate=validate, observers=(Watching(),)))
    # At steps 4 to 16 nothing was taken yet; at 20 the mean is the weights themselves; at 24 not.
    assert evaluated == [False] * 5 + [True]


@pytest.mark.parametrize("on_device", [False, True])
def test_a_dropped_step_is_not_taken_and_no_step_is_taken_twice(on_device: bool) -> None:
    def number(value: float) -> float | Tensor:
        return torch.tensor(value) if on_device else value

    model = nn.Linear(1, 1, bias=False).double()
    mean = SWA(model, SWASchedule(0, (1, 3)), nothing)

    def after(step: int, weight: float, dropped: float) -> None:
        mean(Progress(step=step - 1))
        with torch.no_grad():
            model.weight.fill_(weight)
        mean.take(number(dropped))

    after(1, 8.0, 0.0)
    after(2, 100.0, 0.0)
    after(3, 200.0, 1.0)
    assert (mean.count, float(mean.mean["weight"])) == (1, 8.0)
    if on_device:
        # It is known later that a step was dropped, and step 3 comes again: counted, not taken.
        after(3, 10.0, 0.0)
        assert (mean.count, float(mean.mean["weight"])) == (1, 8.0)
        mean.values = {**mean.values, "last": 1}
    after(3, 10.0, 0.0)
    after(3, 300.0, 0.0)
    assert (mean.count, float(mean.mean["weight"])) == (2, 9.0)


def test_every_step_follows_from_the_checkpoint_before_it() -> None:
    def fit_to(store: MemoryCheckpoints, step: float) -> Mapping[int, object]:
        found = averaging(store, step)
        seen: dict[int, object] = {}

        class Watching:
            def observe(self, event: Event) -> None:
                if isinstance(event, StepKept):
                    seen[event.progress.step] = float(event.outcome.loss).hex()

        observers = (*found.job.observers, Watching())
        fit(replace(found.job, observers=observers, checkpoint_every=Every(1)))
        return seen

    assert steps_that_differ(fit_to) == {}


@pytest.mark.parametrize("cut", [5, 14, 23])
def test_cut_it_ends_with_the_same_bits(cut: int) -> None:
    whole = averaging(MemoryCheckpoints())
    fit(whole.job)
    store = MemoryCheckpoints()
    first = averaging(store, cut)
    fit(first.job)
    torch.manual_seed(99)
    second = averaging(store)
    fit(second.job)
    assert first.losses + second.losses == whole.losses
    assert second.mean.values == whole.mean.values == {"count": 4, "last": 22, "is_stale": False}
    for name, value in whole.mean.mean.items():
        assert torch.equal(second.mean.mean[name], value), name
    for part in ("model", "evaluated", "optimizer"):
        tensors = whole.job.state[part].snapshot().tensors
        for name, tensor in second.job.state[part].snapshot().tensors.items():
            assert torch.equal(tensor, tensors[name]), (part, name)


@pytest.mark.parametrize(("policy", "attempt"), [("skip", 14), ("rollback", 15), ("rollback", 20)])
def test_dropped_and_rolled_back_steps_do_not_reach_it(policy: str, attempt: int) -> None:
    """One bad step: exactly at a taking, right behind one, and between two."""
    found = averaging(MemoryCheckpoints(), policy=policy, poisoned=range(attempt, attempt + 1))
    ended = fit(found.job)
    assert ended.progress.step == STEPS < ended.progress.attempted
    assert sorted(found.taken) == list(TAKING.steps)
    assert found.mean.count == len(TAKING.steps)
    for (name, _), value in zip(found.model.named_parameters(), found.fold(), strict=True):
        assert torch.allclose(found.mean.mean[name].double(), value, rtol=0, atol=1e-6), name
        assert torch.isfinite(value).all()
