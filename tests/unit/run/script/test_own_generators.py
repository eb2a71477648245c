"""Generators of random numbers that a script makes for itself."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402

pytestmark = pytest.mark.torch

GENERATORS: dict[str, Callable[[], tuple[Any, Callable[[Any], float]]]] = {
    "torch": lambda: (
        torch.Generator().manual_seed(3),
        lambda one: float(torch.rand(1, generator=one)),
    ),
    "numpy": lambda: (np.random.default_rng(3), lambda one: float(one.random())),
    "mersenne": lambda: (
        np.random.Generator(np.random.MT19937(3)),
        lambda one: float(one.normal()),
    ),
    "python": lambda: (random.Random(3), lambda one: one.gauss(0, 1)),
}


def train(
    folder: Path, kind: str, steps: int, *, is_held: bool = True, draws_from: float = 0
) -> nn.Linear:
    """The weights after so many steps, whose losses are scaled by random numbers from the step
    `draws_from` on."""
    torch.manual_seed(0)
    inputs, model = torch.randn(24, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator, draw = GENERATORS[kind]()
    calls = itertools.count()

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        factor = draw(generator) if next(calls) >= draws_from else 0.5
        return tw.LossSum(factor * model(batch[0]).square().sum(), len(batch[0]))

    own = (generator,) if is_held else ()
    job = tw.Job(
        model=model,
        feed=tw.Feed([inputs], batch_size=4),
        step=tw.OptimizerStep(model, objective, optimizer),
        stop_rules=(tw.StepLimit(steps),),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        checkpoint_every=tw.Every(4),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
            "random": tw.RandomState(*own),
        },
    )
    tw.fit(job, progress=False)
    return model


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_resumed_run_draws_what_the_unbroken_one_does(tmp_path: Path, kind: str) -> None:
    unbroken = train(tmp_path / "unbroken", kind, 9)
    train(tmp_path / "broken", kind, 5)
    resumed = train(tmp_path / "broken", kind, 9)
    assert torch.equal(resumed.weight, unbroken.weight)
    assert torch.equal(resumed.bias, unbroken.bias)


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("draws_from", [0, 3])
def test_a_draw_from_a_generator_that_no_checkpoint_holds_is_refused(
    tmp_path: Path, kind: str, draws_from: int
) -> None:
    """Nothing that such a draw has changed is saved."""
    with pytest.raises(tw.Mistake, match=r"the step drew from(?s:.*)tw\.RandomState\(generator\)"):
        train(tmp_path / "job", kind, 5, is_held=False, draws_from=draws_from)
    assert [path.name for path in (tmp_path / "job").glob("step-*")] == ["step-0000000000"]


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_generator_that_is_never_drawn_from_needs_no_checkpoint(
    tmp_path: Path, kind: str
) -> None:
    options: dict[str, Any] = {"is_held": False, "draws_from": math.inf}
    unbroken = train(tmp_path / "unbroken", kind, 9, **options)
    train(tmp_path / "broken", kind, 5, **options)
    resumed = train(tmp_path / "broken", kind, 9, **options)
    assert torch.equal(resumed.weight, unbroken.weight)


def test_a_draw_of_the_validation_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs, model, generator = torch.randn(24, 3), nn.Linear(3, 1), torch.Generator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        return tw.LossSum(model(batch[0]).square().sum(), len(batch[0]))

    def validate() -> dict[str, float]:
        return {"val_loss": float(torch.rand(1, generator=generator))}

    job = tw.Job(
        model=model,
        feed=tw.Feed([inputs], batch_size=4),
        step=tw.OptimizerStep(model, objective, optimizer),
        stop_rules=(tw.StepLimit(4),),
        validate=validate,
        validate_every=tw.Every(2),
        checkpoints=tw.Checkpoints(tmp_path / "job", keep_top_k=1),
        checkpoint_every=tw.Every(2),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
        },
    )
    with pytest.raises(tw.Mistake, match="the validation drew from"):
        tw.fit(job, progress=False)
    assert not (tmp_path / "job" / "step-0000000002").exists()


def test_other_generators_at_a_resume_are_refused(tmp_path: Path) -> None:
    random_state = tw.RandomState(random.Random(1))
    with pytest.raises(tw.Mistake, match="other generators"):
        random_state.restore(tw.RandomState().snapshot())
