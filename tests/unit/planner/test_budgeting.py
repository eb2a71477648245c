"""What fits into a budget: arithmetic over injected seconds, without a clock."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from trainwright.contract.sections.run_settings import Budget
from trainwright.planner.budget_allotment import (
    LEAST_JUDGED,
    LEAST_VALIDATED,
    MARGIN,
    MOST_FOR_VALIDATION,
    BudgetShare,
    RequestedRun,
    Speeds,
    TooSmallError,
    fitting_batch,
    round_up,
    share_out,
)
from trainwright.planner.fit_to_budget import budget_problem

ASKED = RequestedRun(
    budget=100.0,
    steps=4000,
    validations=10,
    validation_rows=5000,
    test_rows=5000,
    samples_test=True,
)
SPEEDS = Speeds(
    spent=10.0, start=1.0, step=0.1, save=0.1, validation_row=0.002, judged_row=0.002, judging=1.0
)


def seconds_of(asked: RequestedRun, share: BudgetShare, speeds: Speeds = SPEEDS) -> float:
    """What the share takes, added up by hand: without the time for bundle and report."""
    validation = share.validation_rows * speeds.validation_row + speeds.save
    training = speeds.start + share.steps * speeds.step + share.validations * validation
    judging = share.test_rows * speeds.judged_row + speeds.judging
    return speeds.spent + asked.trainings * training + judging


def test_a_run_that_fits_is_left_alone() -> None:
    share = share_out(replace(ASKED, budget=10_000.0), SPEEDS)
    assert share.fits
    assert (share.steps, share.validations) == (4000, 10)
    assert (share.validation_rows, share.test_rows) == (5000, 5000)


@pytest.mark.parametrize("budget", [40.0, 100.0, 300.0, 480.0])
@pytest.mark.parametrize("trainings", [1, 3])
@pytest.mark.parametrize("spaced", [True, False])
def test_what_is_planned_ends_within_the_budget(
    budget: float, trainings: int, *, spaced: bool
) -> None:
    asked = replace(ASKED, budget=budget, trainings=trainings, keeps_spacing=spaced)
    share = share_out(asked, SPEEDS)
    assert not share.fits
    assert 1 <= share.steps < asked.steps
    assert seconds_of(asked, share) < share.planned_seconds <= MARGIN * budget + 1e-9
    validating = share.validation_rows * SPEEDS.validation_row + SPEEDS.save
    training = share.steps * SPEEDS.step + share.validations * validating
    assert training + SPEEDS.start <= share.training_seconds


def test_the_time_left_is_used() -> None:
    """Two more steps would not fit."""
    share = share_out(ASKED, SPEEDS)
    more = share.planned_seconds + 2 * SPEEDS.step
    assert more > MARGIN * ASKED.budget


def test_validations_take_a_share_of_the_time_on_fewer_rows() -> None:
    share = share_out(ASKED, replace(SPEEDS, validation_row=0.02))
    seconds = share.validations * (share.validation_rows * 0.02 + SPEEDS.save)
    assert LEAST_VALIDATED <= share.validation_rows < ASKED.validation_rows
    assert 1 < share.validations <= 10
    assert seconds <= MOST_FOR_VALIDATION * MARGIN * ASKED.budget


def test_written_rows_and_spacing_are_kept() -> None:
    asked = replace(ASKED, keeps_rows=True, keeps_spacing=True)
    share = share_out(asked, SPEEDS)
    assert share.validation_rows == asked.validation_rows
    every = asked.steps / asked.validations
    assert share.validations == pytest.approx(share.steps / every, abs=1)


def test_slow_judging_takes_fewer_test_rows_where_it_may() -> None:
    slow = replace(SPEEDS, judged_row=0.02)
    share = share_out(ASKED, slow)
    assert LEAST_JUDGED <= share.test_rows < ASKED.test_rows
    assert not share.fits
    with pytest.raises(TooSmallError):
        share_out(replace(ASKED, samples_test=False), slow)


def test_a_budget_that_is_too_small_names_one_that_does() -> None:
    small = replace(ASKED, budget=12.0)
    with pytest.raises(TooSmallError) as caught:
        share_out(small, SPEEDS)
    needed = caught.value.seconds
    assert 12.0 < needed < ASKED.budget
    assert share_out(replace(small, budget=round_up(needed, 2)), SPEEDS).steps >= 1


def test_the_margin_is_given_up_where_nothing_fits_with_it() -> None:
    with pytest.raises(TooSmallError) as caught:
        share_out(replace(ASKED, budget=12.0), SPEEDS)
    asked = replace(ASKED, budget=1.001 * caught.value.seconds)
    share = share_out(asked, SPEEDS)
    assert MARGIN * asked.budget < share.planned_seconds <= asked.budget


def test_trees_are_not_validated_apart() -> None:
    asked = RequestedRun(
        budget=20.0, steps=2000, validations=0, validation_rows=0, test_rows=30_000
    )
    share = share_out(asked, Speeds(spent=4.0, step=0.02, start=1.0, judging=3.0))
    assert share.validations == 0
    assert 300 < share.steps < 600


def test_steps_get_fewer_rows_until_there_are_enough_of_them() -> None:
    row = 0.001
    assert fitting_batch(256, row, 1000.0, steps=300, least=16) == 256
    assert fitting_batch(256, row, 20.0, steps=300, least=16) == 64
    assert fitting_batch(256, row, 0.1, steps=300, least=16) == 16


def test_a_number_to_copy_is_rounded_up() -> None:
    found = [round_up(one, 2) for one in (41.2, 100.0, 0.0123, 0.013)]
    assert found == [42.0, 100.0, 0.013, 0.013]


@pytest.mark.parametrize("key", ["hours", "cost"])
def test_the_budget_that_a_fix_names_suffices(key: str) -> None:
    section = Budget.model_validate({key: 1e-6, "price_per_hour": 3.0})
    for needed in np.arange(1.0, 400.0, 0.37):
        fix = budget_problem(section, "", float(needed)).fix
        (value,) = re.findall(rf"write budget\.{key}: ([\d.e-]+), or", fix)
        assert section.model_copy(update={key: float(value)}).seconds() >= needed


def test_all_test_rows_are_judged_where_the_training_leaves_time() -> None:
    short = replace(ASKED, steps=10, validations=1, validation_rows=100)
    share = share_out(short, replace(SPEEDS, judged_row=0.01))
    assert share.fits
    assert share.test_rows == short.test_rows


def test_cheap_validations_stay_as_many_as_usual() -> None:
    asked = RequestedRun(
        budget=100, steps=10_000, validations=100, validation_rows=1000, test_rows=100
    )
    cheap = share_out(asked, Speeds(spent=0, step=0.02, validation_row=1e-5))
    assert cheap.validation_rows == 1000
    assert 0.8 < cheap.validations / (100 * cheap.steps / 10_000) <= 1
    dear = share_out(asked, Speeds(spent=0, step=0.02, validation_row=1e-2))
    assert dear.validations <= 10
    assert dear.validation_rows < 1000
