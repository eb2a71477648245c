"""Each optimizer and schedule, cut in the middle and resumed through the loop: the same bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from objectives import squared_error  # noqa: E402
from stopped_runs import Cut  # noqa: E402
from trainwright.checkpoint.states.average_state import PlateauState  # noqa: E402
from trainwright.checkpoint.states.eval_weights_state import evaluated_part, evaluated_state  # noqa: E402
from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.contract.sections.training import optimizer as contract  # noqa: E402
from trainwright.contract.sections.training import scheduler as schedules  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import Patience, StepLimit  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.optim.build_optimizer import build_optimizer, build_weights  # noqa: E402
from trainwright.optim.eval_weights import Evaluating  # noqa: E402
from trainwright.optim.freezing import Unfreezing  # noqa: E402
from trainwright.optim.lr_schedule import build_schedule  # noqa: E402
from trainwright.optim.plateau import Plateau, Telling  # noqa: E402
from trainwright.optim.schedule import LearningRate  # noqa: E402
from trainwright.tracking.events import Event, StepKept  # noqa: E402

STEPS, CUT = 20, 9
"""The cut falls between two validations."""

OPTIMIZERS: list[contract.AnyOptimizer] = [
    contract.Sgd(name="sgd", learning_rate=0.05, nesterov=True, layer_decay=0.7),
    contract.Adam(name="adam", learning_rate=0.01),
    contract.AdamW(learning_rate=0.01, learning_rate_factors={"2": 0.5}),
    contract.Adafactor(name="adafactor", learning_rate=0.05),
    contract.Lamb(name="lamb", learning_rate=0.01),
    contract.Lion(name="lion", learning_rate=0.001),
    contract.Muon(name="muon", learning_rate=0.01, adamw_learning_rate=0.01),
    contract.ScheduleFreeAdamW(name="schedule_free_adamw", learning_rate=0.01),
    contract.AdamW8bit(name="adamw_8bit", learning_rate=0.01),
]
SCHEDULERS: list[schedules.AnyScheduler] = [
    schedules.Constant(name="constant", warmup_steps=5),
    schedules.LinearDecay(name="linear"),
    schedules.CosineDecay(name="cosine", cycles=3),
    schedules.CosineWithWarmup(warmup_ratio=0.2),
    schedules.StepDecay(name="step"),
    schedules.PolynomialDecay(name="polynomial"),
    schedules.InverseSqrt(name="inverse_sqrt"),
    schedules.OneCycle(name="one_cycle"),
    schedules.WarmupStableDecay(name="warmup_stable_decay"),
    schedules.ReduceOnPlateau(name="reduce_on_plateau", patience=1, factor=0.5, min_delta=12.0),
]


class Ending(NamedTuple):
    weights: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, torch.Tensor]
    evaluated: Mapping[str, torch.Tensor]
    rates: list[float]
    scores: list[float]


class Rates:
    def __init__(self) -> None:
        self.seen: list[float] = []

    def observe(self, event: Event) -> None:
        if isinstance(event, StepKept):
            self.seen.append(event.outcome.learning_rate)


def run(
    folder: Path,
    optimizer_section: contract.AnyOptimizer,
    scheduler: schedules.AnyScheduler,
    stop_at: float,
    freeze: Mapping[str, int],
) -> Ending:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 10, generator=generator)
    y = torch.sin(x.sum(1, keepdim=True))
    torch.manual_seed(0)
    # Wide enough for a state of 8 bits.
    model = nn.Sequential(
        nn.Linear(10, 80), nn.Tanh(), nn.Linear(80, 80), nn.LayerNorm(80), nn.Linear(80, 1)
    )
    optimizer = build_optimizer(optimizer_section, model, rows_per_step=8)
    weights = build_weights(optimizer_section, optimizer)
    schedule = build_schedule(scheduler, STEPS)
    state = ModuleState(model)
    rates, scores = Rates(), []

    def score() -> dict[str, float]:
        loss = float(squared_error(model, (x[48:], y[48:])).sum)
        scores.append(loss)
        return {"val_loss": loss}

    validate = Evaluating(score, weights)
    patience = Patience("val_loss", "min", float("inf"))
    checkpoints = Checkpoints(folder, 2, "min")
    job = Job(
        model=model,
        feed=Feed([x[:48], y[:48]], 8, 1, seed=3),
        step=OptimizerStep(model, squared_error, optimizer, max_norm=5.0),
        stop_rules=(StepLimit(STEPS), Cut(stop_at)),
        knobs=(LearningRate(optimizer, schedule), Unfreezing(model, freeze, 48)),
        state={
            "model": state,
            "optimizer": OptimizerState(optimizer, model.named_parameters()),
            "patience": patience,
            **({"plateau": PlateauState(schedule)} if isinstance(schedule, Plateau) else {}),
            **evaluated_state(weights, state),
        },
        observers=(rates,),
        validate=Telling(validate, schedule) if isinstance(schedule, Plateau) else validate,
        validate_every=Every(4),
        patience=patience,
        checkpoints=checkpoints,
        checkpoint_every=Every(3),
    )
    fit(job)
    newest = checkpoints.newest_valid()
    assert isinstance(newest, Loaded)
    return Ending(
        state.snapshot().tensors,
        newest.parts["optimizer"].tensors,
        evaluated_part(newest.parts).tensors,
        rates.seen,
        scores,
    )


def check(
    tmp_path: Path,
    optimizer: contract.AnyOptimizer,
    scheduler: schedules.AnyScheduler,
    freeze: Mapping[str, int] = {},
) -> Ending:
    whole = run(tmp_path / "whole", optimizer, scheduler, math.inf, freeze)
    first = run(tmp_path / "cut", optimizer, scheduler, CUT, freeze)
    assert len(first.rates) == CUT
    second = run(tmp_path / "cut", optimizer, scheduler, math.inf, freeze)
    for ours, theirs in (
        (second.weights, whole.weights),
        (second.optimizer, whole.optimizer),
        (second.evaluated, whole.evaluated),
    ):
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            assert torch.equal(tensor, theirs[name]), name
    assert first.rates + second.rates == whole.rates
    assert len(set(map(float, whole.weights["0.weight"].flatten()))) > 1
    return whole


@pytest.mark.parametrize("section", OPTIMIZERS, ids=lambda section: section.name)
def test_an_optimizer_resumes_to_the_same_bits(
    tmp_path: Path, section: contract.AnyOptimizer
) -> None:
    if section.name in ("lamb", "lion", "schedule_free_adamw"):
        pytest.importorskip("pytorch_optimizer")
    if section.name == "adamw_8bit":
        pytest.importorskip("bitsandbytes")
    whole = check(tmp_path, section, schedules.Constant(name="constant", warmup_steps=3))
    same = all(torch.equal(whole.weights[name], whole.evaluated[name]) for name in whole.weights)
    assert same is (section.name != "schedule_free_adamw")


@pytest.mark.parametrize("section", SCHEDULERS, ids=lambda section: section.name)
def test_a_schedule_resumes_to_the_same_bits(
    tmp_path: Path, section: schedules.AnyScheduler
) -> None:
    whole = check(tmp_path, contract.AdamW(learning_rate=0.01), section)
    if isinstance(section, schedules.ReduceOnPlateau):
        assert len(set(whole.rates)) > 1
    else:
        expected = build_schedule(section, STEPS)
        assert whole.rates == [0.01 * expected(step) for step in range(STEPS)]


def test_staged_unfreezing_resumes_to_the_same_bits(tmp_path: Path) -> None:
    section = contract.Sgd(name="sgd", learning_rate=0.05)
    # Six steps are an epoch; the cut is in the second, the first module thaws in the third.
    check(tmp_path, section, schedules.Constant(name="constant"), {"0": 2, "2": 1})
