"""A job from a script is refused where it would not do what it names, or not resume to the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.checkpoint.state import Stateful  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.tracking.events import StepOutcome  # noqa: E402

pytestmark = pytest.mark.torch


def make_job(folder: Path, extra: nn.Module | None = None) -> tw.Job:
    """A model of one layer, with `extra` scaling its output where there is one."""
    torch.manual_seed(0)
    inputs = torch.randn(24, 3)
    model = nn.Linear(3, 1)
    trained = [model, extra] if extra else [model]
    named = [
        (f"{at}.{name}", p) for at, m in enumerate(trained) for name, p in m.named_parameters()
    ]
    optimizer = torch.optim.SGD([p for _, p in named], lr=0.1)

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        given = model(batch[0])
        scaled = extra(given) if extra else given
        return tw.LossSum(scaled.square().sum(), len(batch[0]))

    return tw.Job(
        model=model,
        feed=tw.Feed([inputs], batch_size=4),
        step=tw.OptimizerStep(model, objective, optimizer),
        stop_rules=(tw.StepLimit(8),),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        checkpoint_every=tw.Every(4),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, named),
        },
    )


def test_weights_outside_of_the_model_must_be_held(tmp_path: Path) -> None:
    head = nn.Linear(1, 1)
    job = make_job(tmp_path / "job", head)

    with pytest.raises(tw.Mistake, match=r"holds: 1\.weight, 1\.bias"):
        tw.fit(job, progress=False)

    assert not (tmp_path / "job").exists()
    held = replace(job, state={**job.state, "head": tw.ModuleState(head)})
    assert tw.fit(held, progress=False).progress.step == 8


def test_an_optimizer_state_says_which_parameter_has_no_name() -> None:
    model, temperature = nn.Linear(3, 1), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([*model.parameters(), temperature], lr=0.1)

    with pytest.raises(tw.Mistake, match=r"one of shape \[2\] in group 0"):
        tw.OptimizerState(optimizer, model.named_parameters())


critic = nn.Linear(3, 1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)


def train_critic(work: StepBatches) -> StepOutcome:
    """A step as scripts have it: what it trains stands at the top level of the module."""
    (inputs,) = work.micro_batches[0]
    critic_optimizer.zero_grad()
    loss = critic(inputs).square().mean()
    loss.backward()
    critic_optimizer.step()
    return StepOutcome(loss.item(), 0.1, 0.0, 0.0, 0.0, 0.0, work.rows, work.samples, work.epoch)


def test_what_a_step_at_the_top_level_trains_must_be_held(tmp_path: Path) -> None:
    job = replace(make_job(tmp_path), step=train_critic)

    with pytest.raises(tw.Mistake) as refused:
        tw.fit(job, progress=False)

    text = str(refused.value)
    assert "lack the optimizer" in text
    assert "lack weights that are trained outside of the model" in text


def test_a_resume_with_frozen_weights_is_refused(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path), progress=False)
    again = make_job(tmp_path)
    again.model.bias.requires_grad_(False)

    with pytest.raises(tw.Mistake, match=r"model\.frozen"):
        tw.fit(again, progress=False)


@pytest.mark.parametrize(
    ("give", "found"),
    [
        (lambda errors: errors.mean(), "Tensor"),
        (lambda errors: None, "NoneType"),
        (lambda errors: tw.LossSum(errors, len(errors)), r"shape \[4, 1\]"),
    ],
)
def test_an_objective_without_a_sum_and_a_count_is_refused(
    tmp_path: Path, give: Callable[[Tensor], tw.LossSum], found: str
) -> None:
    job = make_job(tmp_path)
    optimizer = torch.optim.SGD(job.model.parameters(), lr=0.1)

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        return give(model(batch[0]).square())

    step = tw.OptimizerStep(job.model, objective, optimizer)
    state: dict[str, Stateful] = {
        "model": tw.ModuleState(job.model),
        "optimizer": tw.OptimizerState(optimizer, job.model.named_parameters()),
    }
    with pytest.raises(tw.Mistake, match=found):
        tw.fit(replace(job, step=step, state=state), progress=False)


def score() -> dict[str, float]:
    return {"val_loss": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: replace(job, stop_rules=()), "nothing would end this training"),
        (lambda job: replace(job, validate=score), "`validate` would never be called"),
        (lambda job: replace(job, validate_every=tw.Every(4)), "nothing to validate with"),
        (lambda job: replace(job, validate=score, validate_every=4), "this says no steps"),
    ],
)
def test_a_job_that_would_not_do_what_it_names_is_refused(
    tmp_path: Path, change: Callable[[tw.Job], tw.Job], message: str
) -> None:
    with pytest.raises(tw.Mistake, match=message):
        tw.fit(change(make_job(tmp_path / "job")), progress=False)

    assert not (tmp_path / "job").exists()


def test_a_part_with_the_name_of_the_loops_own_progress_is_refused(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    job = replace(job, state={**job.state, "progress": tw.RandomState()})
    with pytest.raises(tw.Mistake, match="the loop keeps its own progress"):
        tw.fit(job, progress=False)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("change", "path", "written"),
    [
        ({"stop_rules": 8}, "Job.stop_rules", "(tw.StepLimit(1000),)"),
        ({"stop_rules": tw.StepLimit(8)}, "Job.stop_rules", "(tw.StepLimit(1000),)"),
        ({"stop_rules": (8,)}, "Job.stop_rules", "(tw.StepLimit(1000),)"),
        ({"knobs": score}, "Job.knobs", "(tw.LearningRate(optimizer, schedule),)"),
        ({"knobs": (0.1,)}, "Job.knobs", "(tw.LearningRate(optimizer, schedule),)"),
        ({"observers": (print,)}, "Job.observers", "a method observe"),
        ({"validate": score()}, "Job.validate", "without calling it"),
        ({"checkpoint_every": 2}, "Job.checkpoint_every", "tw.Every(100)"),
        ({"checkpoints": "folder"}, "Job.checkpoints", 'tw.Checkpoints("folder"'),
    ],
)
def test_an_argument_of_another_kind_is_refused_with_the_way_to_write_it(
    tmp_path: Path, change: dict[str, Any], path: str, written: str
) -> None:
    with pytest.raises(tw.Mistake) as refused:
        tw.fit(replace(make_job(tmp_path / "job"), **change), progress=False)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert written in problem.fix
    assert not (tmp_path / "job").exists()


def test_an_unknown_word_for_changed_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.Mistake, match=r'changed="record"'):
        tw.fit(make_job(tmp_path / "job"), changed="rec")  # type: ignore[arg-type]


def test_an_interval_has_a_step(tmp_path: Path) -> None:
    with pytest.raises(tw.Mistake, match=r"Every\.steps"):
        tw.Every(0)
