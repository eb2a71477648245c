"""A resume with another number format, loss or mean of the weights is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.checkpoint.state import Stateful  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.engine.execution.precision import Precision  # noqa: E402
from trainwright.objective.losses import Objective  # noqa: E402
from trainwright.run.script.job_settings import compare_settings, describe_job  # noqa: E402
from trainwright.tracking.events import StepOutcome  # noqa: E402

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def squared(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
    return tw.LossSum((model(batch[0]) - batch[1]).square().sum(), len(batch[0]))


def make_job(
    folder: Path,
    objective: Objective = squared,
    precision: Precision | None = None,
    decay: float | None = None,
    taken: tuple[int, ...] = (),
    steps: int = 2,
) -> tw.Job:
    torch.manual_seed(0)
    inputs = torch.randn(24, 3)
    target = inputs.sum(dim=1, keepdim=True)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    means: tuple[tw.AverageUpdate, ...] = ()
    step = tw.OptimizerStep(model, objective, optimizer, precision=precision)
    state: dict[str, Stateful] = {
        "model": tw.ModuleState(model),
        "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
    }
    if decay is not None:
        ema = tw.EMA(model, decay)
        means, state["mean"] = (tw.AverageUpdate(ema),), tw.EMAState(ema)
    if taken:
        swa = tw.SWA(model, tw.SWASchedule(0, taken), lambda: None)
        means, state["swa"] = (*means, tw.AverageUpdate(swa)), tw.SWAState(swa)
    return tw.Job(
        model=model,
        feed=tw.Feed([inputs, target], batch_size=4),
        step=step,
        outcome_observers=means,
        stop_rules=(tw.StepLimit(steps),),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        state=state,
    )


def closure(delta: float) -> Objective:
    loss = tw.HuberLoss(delta)

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        return loss.total(model(batch[0]), batch[1])

    return objective


def of_torch(delta: float) -> Objective:
    loss = nn.HuberLoss(reduction="sum", delta=delta)

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        return tw.LossSum(loss(model(batch[0]), batch[1]), len(batch[0]))

    return objective


def weighted(weight: float) -> Objective:
    return tw.Supervised(tw.CrossEntropyLoss(class_weights=torch.tensor([weight])))


def penalised(weight: float) -> Objective:
    return tw.GradientPenalty(tw.Supervised(tw.HuberLoss(1.0)), weight)


CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"precision": tw.Autocast(CPU)}, "step.precision"),
    ({"precision": tw.Autocast(CPU)}, {}, "step.precision"),
    (
        {"precision": tw.Autocast(CPU)},
        {"precision": tw.Autocast(CPU, torch.float16)},
        "step.precision",
    ),
    ({"decay": 0.5}, {"decay": 0.9}, "step.means"),
    ({"taken": (1, 2)}, {"taken": (2,)}, "step.means"),
    *[
        ({"objective": make(1.0)}, {"objective": make(0.5)}, "step.losses")
        for make in (
            lambda delta: tw.Supervised(tw.HuberLoss(delta)),
            lambda gamma: tw.Supervised(tw.FocalLoss(gamma)),
            lambda share: tw.Supervised(tw.CrossEntropyLoss(label_smoothing=share / 4)),
            lambda weight: tw.Supervised(tw.BinaryCrossEntropyLoss(weight)),
            lambda quantile: tw.GradientPenalty(closure(quantile), 0.5),
            penalised,
            weighted,
            closure,
            of_torch,
        )
    ],
]


@pytest.mark.parametrize(("before", "now", "path"), CHANGES)
def test_a_changed_setting_of_the_step_is_named(
    before: dict[str, Any], now: dict[str, Any], path: str, tmp_path: Path
) -> None:
    old = describe_job(make_job(tmp_path, **before))
    assert compare_settings(old, describe_job(make_job(tmp_path, **before))) == []
    new = describe_job(make_job(tmp_path, **now))
    assert [name for name, _, _ in compare_settings(json.loads(json.dumps(old)), new)] == [path]


def test_a_resume_with_another_number_format_is_refused(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path), progress=False)
    job = make_job(tmp_path, precision=tw.Autocast(CPU), steps=4)
    with pytest.raises(tw.Mistake, match=r"step\.precision"):
        tw.fit(job, progress=False)
    assert tw.fit(job, progress=False, changed="record").progress.step == 4


def test_settings_that_an_earlier_version_did_not_keep_are_taken_as_the_same(
    tmp_path: Path,
) -> None:
    now = describe_job(make_job(tmp_path, precision=tw.Autocast(CPU), decay=0.5))
    before = {name: one for name, one in now.items() if name not in CHANGED_LATER}
    assert len(before) == len(now) - len(CHANGED_LATER)
    assert compare_settings(before, now) == []


CHANGED_LATER = ("step.precision", "step.losses", "step.means")


def test_a_mean_that_is_dropped_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tw.fit(make_job(tmp_path, decay=0.5), progress=False)
    job = make_job(tmp_path, steps=4)
    with pytest.raises(tw.Mistake, match=r"a part that .* holds: mean"):
        tw.fit(job, progress=False)
    assert tw.fit(job, progress=False, changed="record").progress.step == 4
    assert "holds mean, which the job does not" in capsys.readouterr().err


def test_other_observers_and_rules_are_no_other_settings(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    other = replace(job, stop_rules=(tw.StepLimit(9),), observers=())
    assert compare_settings(describe_job(job), describe_job(other)) == []


def test_a_loss_is_described_with_its_numbers(tmp_path: Path) -> None:
    said = describe_job(make_job(tmp_path, penalised(0.5)))["step.losses"]
    assert said == [
        ["GradientPenalty(objective=Supervised(loss=HuberLoss(delta=1.0)), weight=0.5)"]
    ]


class Taking:
    """Two updates a step, each with an optimizer of its own, as of two networks in turn."""

    def __init__(self, first: tw.OptimizerStep, second: tw.OptimizerStep) -> None:
        self.first, self.second = first, second

    def __call__(self, work: StepBatches) -> StepOutcome:
        self.first(work)
        return self.second(work)


def make_pair(
    folder: Path, norms: tuple[float, float], lengths: tuple[int, int] = (8, 8), steps: int = 2
) -> tw.Job:
    job = make_job(folder, steps=steps)
    parts = dict(job.model.named_parameters())
    optimizers = [torch.optim.SGD([one], lr=0.1) for one in parts.values()]
    made = [
        tw.OptimizerStep(job.model, squared, one, max_norm=norm)
        for one, norm in zip(optimizers, norms, strict=True)
    ]
    schedules = [tw.cosine_with_warmup(length, 1, floor=0.1) for length in lengths]
    state: dict[str, Stateful] = {
        name: tw.OptimizerState(one, [(name, parts[name])])
        for name, one in zip(parts, optimizers, strict=True)
    }
    return replace(
        job,
        step=Taking(made[0], made[1]),
        knobs=tuple(map(tw.LearningRate, optimizers, schedules)),
        state={"model": job.state["model"], **state},
    )


def test_the_clipping_of_each_step_is_compared(tmp_path: Path) -> None:
    tw.fit(make_pair(tmp_path, (1.0, 2.0)), progress=False)
    for norms in ((9.0, 2.0), (1.0, 9.0)):
        job = make_pair(tmp_path, norms, steps=4)
        with pytest.raises(tw.Mistake, match=r"(?s)step\.clipping.*9\.0"):
            tw.fit(job, progress=False)
    assert tw.fit(make_pair(tmp_path, (1.0, 2.0), steps=4), progress=False).progress.step == 4


def test_each_schedule_is_compared(tmp_path: Path) -> None:
    old = describe_job(make_pair(tmp_path, (1.0, 1.0)))
    for lengths in ((800, 8), (8, 800)):
        new = describe_job(make_pair(tmp_path, (1.0, 1.0), lengths))
        names = {name for name, _, _ in compare_settings(json.loads(json.dumps(old)), new)}
        assert "learning_rate.factor_at_step_10" in names


def test_of_the_last_step_alone_an_earlier_version_kept_the_clipping(tmp_path: Path) -> None:
    now = describe_job(make_pair(tmp_path, (1.0, 2.0)))
    assert now["step.clipping"] == ["NormLimit(max_norm=1.0)", "NormLimit(max_norm=2.0)"]
    earlier = {**now, "step.clipping": "NormLimit(max_norm=2.0)"}
    assert compare_settings(earlier, now) == []
    assert [name for name, _, _ in compare_settings(now, earlier)] == ["step.clipping"]
    changed = {**now, "step.clipping": "NormLimit(max_norm=3.0)"}
    assert [name for name, _, _ in compare_settings(changed, now)] == ["step.clipping"]
