"""Jobs of a script whose validation sees a mean of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402

pytestmark = pytest.mark.torch


def squared(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
    return tw.LossSum(model(batch[0]).square().sum(), len(batch[0]))


def make_job(folder: Path, steps: int = 8) -> tuple[tw.Job, tw.EMA]:
    torch.manual_seed(0)
    inputs = torch.randn(24, 3)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mean = tw.EMA(model, decay=0.5)

    def validate() -> Mapping[str, float]:
        return {"val_loss": float(squared(model, (inputs,)).sum)}

    weights = tw.ModuleState(model)
    job = tw.Job(
        model=model,
        feed=tw.Feed([inputs], batch_size=4),
        step=tw.OptimizerStep(model, squared, optimizer),
        outcome_observers=(tw.AverageUpdate(mean),),
        stop_rules=(tw.StepLimit(steps),),
        validate=tw.Evaluating(validate, mean),
        validate_every=tw.Every(2),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        state={
            "model": weights,
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
            "mean": tw.EMAState(mean),
            "evaluated": tw.EvaluatedState(mean, weights),
        },
    )
    return job, mean


def without(job: tw.Job, name: str) -> tw.Job:
    return replace(job, state={key: part for key, part in job.state.items() if key != name})


def test_the_mean_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, expected = make_job(tmp_path / "whole")
    tw.fit(whole, progress=False)
    first, _ = make_job(tmp_path / "cut", steps=3)
    tw.fit(first, progress=False)
    second, mean = make_job(tmp_path / "cut")
    tw.fit(second, progress=False)
    assert all(torch.equal(one, mean.mean[name]) for name, one in expected.mean.items())


def test_a_mean_that_no_checkpoint_holds_is_refused(tmp_path: Path) -> None:
    job, _ = make_job(tmp_path / "job")
    with pytest.raises(tw.Mistake, match="lack the weight average") as refused:
        tw.fit(without(job, "mean"), progress=False)
    assert "tw.EMAState(mean)" in refused.value.problems[0].fix
    assert not (tmp_path / "job").exists()


def test_the_best_weights_are_those_that_the_validation_saw(tmp_path: Path) -> None:
    job, mean = make_job(tmp_path / "job")
    tw.fit(job, restore_best=True, progress=False)
    assert torch.equal(job.model.weight, mean.mean["weight"])  # type: ignore[arg-type]


def test_the_best_weights_are_not_the_trained_ones_under_a_mean(tmp_path: Path) -> None:
    job, _ = make_job(tmp_path / "job")
    with pytest.raises(tw.Mistake, match="sees other weights than the checkpoints keep"):
        tw.fit(without(job, "evaluated"), restore_best=True, progress=False)
    assert not (tmp_path / "job").exists()


def test_the_evaluated_weights_may_have_any_name(tmp_path: Path) -> None:
    job, mean = make_job(tmp_path / "job")
    state = {"averaged" if key == "evaluated" else key: part for key, part in job.state.items()}
    tw.fit(replace(job, state=state), restore_best=True, progress=False)
    assert torch.equal(job.model.weight, mean.mean["weight"])  # type: ignore[arg-type]
