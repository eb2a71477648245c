"""The equal mean of the weights against torch's own, through norms, drops and resumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.optim.swa_utils import (  # noqa: E402
    AveragedModel,
    get_swa_multi_avg_fn,
    update_bn,
)

from canary import Killed  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from made_data import make_images  # noqa: E402
from objectives import squared_error  # noqa: E402
from stopped_runs import Cut  # noqa: E402
from trainwright.checkpoint.averaging import EqualMeanState  # noqa: E402
from trainwright.checkpoint.evaluated import evaluated_part, evaluated_state  # noqa: E402
from trainwright.checkpoint.module import ModuleState  # noqa: E402
from trainwright.checkpoint.optimizer import OptimizerState  # noqa: E402
from trainwright.checkpoint.random_state import RandomState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.contract.averaging import ConstantRate, CyclicRate, Swa  # noqa: E402
from trainwright.contract.guard import Guard  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.feed import Feed, StepBatches  # noqa: E402
from trainwright.data.store import Batch  # noqa: E402
from trainwright.engine.averaging import AveragedStep  # noqa: E402
from trainwright.engine.caution import Caution  # noqa: E402
from trainwright.engine.guard import PolicyGuard  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.statistics import NormStatistics  # noqa: E402
from trainwright.engine.step import OptimizerStep  # noqa: E402
from trainwright.engine.stop import Patience, StepLimit  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.averaging_rate import AveragingRate  # noqa: E402
from trainwright.optim.equal_mean import EqualMean  # noqa: E402
from trainwright.optim.taking import Taking, taking_of  # noqa: E402
from trainwright.optim.weights import Evaluating  # noqa: E402
from trainwright.testing.checkpoints import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, RolledBack, StepKept, StepOutcome  # noqa: E402

pytestmark = pytest.mark.torch

STEPS, TAKING = 24, Taking(8, (10, 14, 18, 22))


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 16),
        nn.BatchNorm1d(16, momentum=0.05),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(16, 8),
        nn.BatchNorm1d(8),
        nn.Tanh(),
        nn.Linear(8, 1),
    )


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(48, 4, generator=generator)
    return x, x.sum(1, keepdim=True).sin()


@dataclass
class Averaging:
    """A job with a mean of the weights, as it is wired from a contract."""

    job: Job
    model: nn.Module
    mean: EqualMean
    taken: dict[int, list[Tensor]]
    losses: list[float]

    def fold(self) -> list[Tensor]:
        """The equal mean of what was taken, in fp64."""
        stacks = zip(*self.taken.values(), strict=True)
        return [torch.stack([one.double() for one in weights]).mean(0) for weights in stacks]


def averaging(
    store: MemoryCheckpoints | Checkpoints,
    cut: float = math.inf,
    policy: str = "raise",
    poisoned: range = range(0),
    taking: Taking = TAKING,
) -> Averaging:
    model = network(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    feed = Feed(data(), 8, seed=2)

    def poisoning(model: nn.Module, batch: Batch) -> LossSum:
        loss, count = squared_error(model, batch)
        if model.training and attempts[0] in poisoned:
            loss = loss * math.nan
        return LossSum(loss, count)

    attempts = [0]
    inner = OptimizerStep(model, poisoning, optimizer)

    def step(work: StepBatches) -> StepOutcome:
        attempts[0] += 1
        return inner(work)

    statistics = NormStatistics(model, squared_error, lambda: feed.from_start(40))
    mean = EqualMean(model, taking, statistics)
    caution = Caution(optimizer, 1.0, 1)
    guard = PolicyGuard(Guard(non_finite=policy, spike="ignore"), caution, feed.rows_between)
    losses: list[float] = []

    def score() -> dict[str, float]:
        losses.append(float(squared_error(model, data()).sum))
        return {"val_loss": losses[-1]}

    taken: dict[int, list[Tensor]] = {}

    class Taken:
        def observe(self, event: Event) -> None:
            if isinstance(event, StepKept) and event.progress.step in taking.steps:
                taken[event.progress.step] = [p.detach().clone() for p in model.parameters()]
            if isinstance(event, RolledBack):
                for made in [made for made in taken if made > event.progress.step]:
                    del taken[made]

    state = ModuleState(model)
    patience = Patience("val_loss", "min", math.inf)
    job = Job(
        model=model,
        feed=feed,
        step=AveragedStep(step, mean),
        stop_rules=(StepLimit(STEPS), Cut(cut)),
        knobs=(AveragingRate(optimizer, ConstantRate(ratio=0.5), taking, 3), mean, caution),
        guard=guard,
        state={
            "model": state,
            **evaluated_state(mean, state),
            "mean": EqualMeanState(mean),
            "optimizer": OptimizerState(optimizer, model.named_parameters()),
            "random": RandomState(),
            "guard": guard,
            "caution": caution,
            "patience": patience,
        },
        observers=(Taken(),),
        validate=Evaluating(score, mean),
        validate_every=Every(4),
        patience=patience,
        checkpoints=store,
        checkpoint_every=Every(3),
    )
    return Averaging(job, model, mean, taken, losses)


def nothing() -> None:
    """For models without norms."""


@pytest.mark.parametrize("on_device", [False, True])
def test_it_is_the_mean_that_torch_makes(on_device: bool) -> None:
    """Bit for bit, on the weights of a real run."""
    model = network()
    reference = AveragedModel(model, multi_avg_fn=get_swa_multi_avg_fn())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    step, feed = OptimizerStep(model, squared_error, optimizer), Feed(data(), 8, seed=2)
    mean = EqualMean(model, Taking(4, tuple(range(5, 31, 3))), nothing)
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
    mine = NormStatistics(model, squared_error, lambda: feed.from_start(48))
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

    mine = NormStatistics(model, noisy, lambda: feed.from_start(48))
    before = torch.get_rng_state()
    mine()
    assert torch.equal(torch.get_rng_state(), before)


def test_without_new_statistics_the_mean_of_a_batch_norm_model_is_wrong() -> None:
    """The statistics of the last trained weights do not fit the mean of the weights, and a mean of
    them fits less well: the loss of the whole training set in batch statistics is the truth."""
    torch.manual_seed(0)
    model, feed = network(), Feed(data(), 8, seed=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = OptimizerStep(model, squared_error, optimizer)
    statistics = NormStatistics(model, squared_error, lambda: feed.from_start(48))
    mean = EqualMean(model, Taking(0, tuple(range(6, 601, 6))), statistics)
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
    found = averaging(MemoryCheckpoints(), taking=Taking(8, (20,)))
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
    mean = EqualMean(model, Taking(0, (1, 3)), nothing)

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


@pytest.mark.parametrize("cut", range(1, STEPS))
def test_cut_anywhere_it_ends_with_the_same_bits(cut: int) -> None:
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


def test_a_cyclic_rate_is_that_of_the_paper() -> None:
    """Equation in section 3.1: alpha(i) = (1 - t) a1 + t a2, t = (mod(i - 1, c) + 1) / c."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    taking = taking_of(Swa(kind="swa", every_n_steps=5, start_ratio=0.5), (10, 20, 30, 40), 40)
    assert taking == Taking(20, (25, 30, 35, 40))
    section = CyclicRate(kind="cyclic", high_ratio=0.5, low_ratio=0.05)
    knob = AveragingRate(optimizer, section, taking)
    for step in range(45):
        optimizer.param_groups[0]["lr"] = 0.123
        knob(Progress(step=step))
        i, c = step - 20 + 1, 5
        t = ((i - 1) % c + 1) / c if step < 40 else 1.0
        expected = 0.4 * ((1 - t) * 0.5 + t * 0.05) if step >= 20 else 0.123
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)


def test_a_constant_rate_is_reached_from_the_schedules() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    knob = AveragingRate(optimizer, ConstantRate(ratio=0.25), Taking(10, (20,)), anneal_steps=3)
    rates = []
    for step in range(8, 16):
        optimizer.param_groups[0]["lr"] = 0.2
        knob(Progress(step=step))
        rates.append(optimizer.param_groups[0]["lr"])
    left = [0.5 * (1 + math.cos(math.pi * share / 4)) for share in range(1, 5)]
    way = [0.1 + 0.1 * one for one in left]
    assert rates == pytest.approx([0.2, 0.2, *way, 0.1, 0.1])


@pytest.mark.parametrize(
    ("section", "taking"),
    [
        ({}, Taking(30, (40,))),
        ({"start_ratio": 0.0}, Taking(0, (10, 20, 30, 40))),
        ({"start_epoch": 2}, Taking(20, (30, 40))),
        ({"start_epoch": 9}, Taking(40, ())),
        ({"start_ratio": 0.55, "every_n_steps": 7}, Taking(22, (29, 36))),
        ({"start_ratio": 0.7, "every_n_steps": 4}, Taking(28, (32, 36, 40))),
    ],
)
def test_weights_are_taken_behind_the_start(section: Mapping[str, float], taking: Taking) -> None:
    assert taking_of(Swa(kind="swa", **section), (10, 20, 30, 40), 40) == taking


IMAGES = """
data: {kind: images, path: data, classes: [low, middle, high], validation: 0.2,
       augment: {crop: 1}, num_workers: 0}
model: {kind: resnet, width: 8, blocks: [1, 1], norm: batch, stochastic_depth: 0.1}
training: {num_epochs: 6, batch_size: 16, early_stopping: off,
           optimizer: {name: sgd, learning_rate: 0.1},
           average: {kind: swa, start_ratio: 0.5, every_n_steps: 3, batch_norm_rows: 64}}
metric: {target: 0.5}
"""
NETWORK = (
    with_layers("[16, 8]")
    + "training:\n  num_epochs: 8\n  batch_size: 32\n"
    + "  average: {kind: swa, start_ratio: 0.5}\n"
)


def kept(run: Run) -> Mapping[str, Tensor]:
    newest = run.job.checkpoints.newest_valid()
    assert isinstance(newest, Loaded)
    return evaluated_part(newest.parts).tensors


@pytest.fixture
def images(tmp_path: Path) -> Path:
    make_images(tmp_path / "data")
    (tmp_path / "contract.yaml").write_text(IMAGES)
    return tmp_path / "contract.yaml"


def test_from_a_contract_with_batch_norm_it_survives_deaths(images: Path) -> None:
    """SWA x batch norm x augmentation x resume, and statistics that fit the mean."""
    whole = train(images, "whole")
    for death in (4, 12, 21):
        with pytest.raises(Killed):
            train(images, f"cut {death}".replace(" ", "-"), dies_at=death)
        cut = train(images, f"cut-{death}")
        assert cut.ended == whole.ended
        assert bits(cut) == bits(whole)
    evaluated = kept(whole)
    trained = whole.job.model.state_dict()
    moving = [name for name in evaluated if "running" in name or name.endswith("weight")]
    assert moving
    assert all(not torch.equal(evaluated[name], trained[name]) for name in moving)
    counts = {int(evaluated[name]) for name in evaluated if name.endswith("tracked")}
    assert counts == {64 // 16}


def test_early_stopping_may_keep_weights_from_before_the_mean(tmp_path: Path) -> None:
    """SWA x early stopping: the best step has the weights that were evaluated at it."""
    contract = write_project(tmp_path, NETWORK)
    found: set[bool] = set()
    for name, patience, start in (
        ("before", "{patience: 2, min_delta: 10.0, metric: val_loss}", 0.8),
        ("after", "{patience: 7, metric: val_loss}", 0.2),
    ):
        settings = (f"training.early_stopping={patience}", f"training.average.start_ratio={start}")
        run = train(contract, name, *settings)
        best = Checkpoints(run.folder.checkpoints, 3).best_valid()
        assert isinstance(best, Loaded)
        mean = run.job.state["mean"]
        taken = {step for step in mean._mean._steps if step <= best.step}
        same = all(
            torch.equal(value, best.parts["model"].tensors[name])
            for name, value in evaluated_part(best.parts).tensors.items()
        )
        assert same is (len(taken) <= 1)
        found.add(same)
    assert found == {True, False}


def test_the_rate_of_the_contract_is_set_from_the_start_on(tmp_path: Path) -> None:
    contract = write_project(tmp_path, NETWORK)
    rates = {}
    for name, rate in (
        ("schedule", "schedule"),
        ("constant", "{ratio: 0.3, anneal_ratio: 0.0}"),
        ("cyclic", "{kind: cyclic, high_ratio: 1.0, low_ratio: 0.5}"),
    ):
        run = train(
            contract,
            name,
            "training.early_stopping=off",
            "training.optimizer.learning_rate=0.01",
            f"training.average.learning_rate={rate}",
        )
        rates[name] = run.signals["learning_rate"]
    half, total = len(rates["schedule"]) // 2, len(rates["schedule"])
    assert rates["constant"][:half] == rates["cyclic"][:half] == rates["schedule"][:half]
    assert rates["constant"][half:] == pytest.approx([0.003] * (total - half))
    assert rates["schedule"][-1] == pytest.approx(0.0001)
    lows = [
        step + 1 for step in range(half, total) if rates["cyclic"][step] == pytest.approx(0.005)
    ]
    assert lows == [total * epoch // 8 for epoch in (5, 6, 7, 8)]
