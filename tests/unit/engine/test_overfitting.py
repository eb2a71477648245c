"""Overfitting and underfitting are named from two losses, and noise is neither."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from trainwright.engine.health.overfitting import ValidationLoss, name_fit


def curves(
    training: Callable[[float], float],
    validation: Callable[[float], float],
    deviation: float = 0.0,
    count: int = 20,
    seed: int = 0,
) -> list[ValidationLoss]:
    """Both losses as functions of the share of the training that is done, with noise."""
    draw = random.Random(seed)
    return [
        ValidationLoss(
            100 * at,
            validation(at / count) + draw.gauss(0, deviation),
            training(at / count) + draw.gauss(0, deviation),
        )
        for at in range(1, count + 1)
    ]


def falling(share: float) -> float:
    return 0.4 + 0.6 * math.exp(-8 * share)


def kinds(scored: list[ValidationLoss], *, is_at_its_end: bool = True) -> list[str]:
    return [fit.kind for fit in name_fit(scored, is_at_its_end=is_at_its_end)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("deviation", [0.0, 0.005, 0.02])
def test_losses_that_settle_are_neither(deviation: float, seed: int) -> None:
    assert kinds(curves(falling, falling, deviation, seed=seed)) == []


def test_a_validation_loss_that_rises_while_training_falls_is_overfitting() -> None:
    scored = curves(
        lambda share: math.exp(-3 * share), lambda share: 0.5 + (share - 0.3) ** 2, 0.005
    )
    (fit,) = name_fit(scored, is_at_its_end=False)
    assert fit.kind == "overfitting"
    assert 300 <= fit.numbers["best_step"] <= 900
    assert "the validation loss rose from 0." in fit.message
    assert "the training loss fell" in fit.message


def test_a_training_that_diverges_is_not_called_overfitting() -> None:
    rising = curves(lambda share: 0.5 + share, lambda share: 0.5 + share)
    assert kinds(rising) == []


def test_losses_that_still_fall_at_the_end_are_underfitting() -> None:
    scored = curves(lambda share: 2 - share, lambda share: 2.05 - share, 0.005)
    (fit,) = name_fit(scored, is_at_its_end=True)
    assert fit.kind == "underfitting"
    assert "still falling" in fit.message
    assert kinds(scored, is_at_its_end=False) == [], "stopped early: it had not fallen for a while"


def test_a_gap_between_the_losses_is_no_underfitting() -> None:
    assert kinds(curves(lambda share: 1.2 - share, lambda share: 2.05 - share)) == []


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_neither(seed: int) -> None:
    flat = curves(lambda _: 0.69, lambda _: 0.69, 0.03, seed=seed)
    assert kinds(flat) == []


def test_few_validations_and_numbers_that_are_none_are_not_judged() -> None:
    scored = curves(lambda share: 2 - share, lambda share: 2 - share, count=4)
    assert kinds(scored) == []
    assert kinds([ValidationLoss(one, math.nan, 1.0) for one in range(9)]) == []
