"""A plan fitted into its budget: what the contract leaves open is decided, what it writes is kept,
and both are said."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, final

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import Document
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.run_settings import Budget
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many, show_seconds
from trainwright.optim.lr_schedule import build_schedule
from trainwright.optim.plateau import Plateau
from trainwright.planner.budget_allotment import (
    MARGIN,
    Allotment,
    BudgetShare,
    RequestedRun,
    Rows,
    Speeds,
    fitting_batch,
    round_up,
    share_out,
)
from trainwright.planner.estimate import Validations, count_trainings, scheduled_steps
from trainwright.planner.plan import Plan

PROBED_BATCH = 16
"""Rows of a step with which the first steps are measured where the contract leaves them open, and
the fewest that a budget decides for."""

_STEPS_WANTED = 300
_TRAINING_SHARE = 0.6
_SPACINGS = tuple(f"training.validate_every_n_{unit}" for unit in ("epochs", "steps", "tokens"))
_SPANS, _ROWS = "training.stop.schedule_spans", "training.validation.rows"

BY_BUDGET = "what fits into the budget"
"""The reason of what a budget decides."""


@final
class PartRows(NamedTuple):
    """Rows of the parts that are scored."""

    validation: int
    test: int


def batch_to_probe(document: Document, plan: Plan) -> dict[str, Json]:
    """Batch size with which steps are measured first; None if the contract sets it."""
    training = document.contract.training
    sizes = (
        training.batch_size,
        training.effective_batch_size,
        training.gradient_accumulation_steps,
    )
    rows = plan.contract.training.effective_batch_size
    is_open = all(size == "auto" for size in sizes) and training.ramps.batch == "off"
    if not is_open or rows == "auto" or rows <= PROBED_BATCH:
        return {}
    return {"training.batch_size": PROBED_BATCH}


def batch_that_fits(plan: Plan, step_seconds: float, left: float) -> dict[str, Json]:
    """Batch size for the seconds left, if `plan` has too few steps in them; `step_seconds` are
    those of a step of `PROBED_BATCH` rows."""
    rows = plan.contract.training.effective_batch_size
    assert rows != "auto", "the plan has decided it"
    row, training = step_seconds / PROBED_BATCH, _TRAINING_SHARE * left
    if plan.steps * rows * row <= training:
        return {}
    fit = fitting_batch(rows, row, training, steps=_STEPS_WANTED, least=PROBED_BATCH)
    return {} if fit == rows else {"training.batch_size": fit}


def fit_into_budget(
    document: Document, plan: Plan, speeds: Speeds, parts: PartRows, baseline_rows: Rows
) -> Allotment:
    """Allotment of a run from its measurements.

    Raises:
        TooSmallError: nothing fits.
    """
    asked = _asked(document, plan, parts)
    share = share_out(asked, speeds)
    settings = _settings(document, plan, asked, share)
    budget, is_network = asked.budget, asked.validations > 0
    planned: dict[str, Json] = {
        "seconds": round(share.planned_seconds, 3),
        "ratio": round(share.planned_seconds / budget, 4),
        "steps": share.steps,
        "steps_asked": asked.steps,
        "test_rows": share.test_rows,
    }
    if is_network:
        validation = share.validation_rows * speeds.validation_row
        planned |= {
            "epochs": round(share.steps / plan.estimate.steps_per_epoch, 3),
            "validations": share.validations,
            "validation_rows": share.validation_rows,
            "validation_seconds": validation,
            "save_seconds": speeds.save,
            "learning_rate_at_end": _rate_at_end(plan, settings, share),
        }
    return Allotment(
        limit_seconds=budget,
        training_seconds=share.training_seconds,
        settings=settings,
        baseline_rows=baseline_rows,
        test_rows=share.test_rows if share.test_rows < parts.test else "all",
        planned=planned,
        measured={name: getattr(speeds, name) for name in Speeds.__slots__},
        lines=tuple(_lines(plan, asked, share, speeds, planned)),
        ending_seconds=round(share.ending_seconds, 3),
    )


def budget_problem(section: Budget, spent: str, needed: float) -> Problem:
    """Error for a budget too small for one step; `spent` explains where its time went."""
    seconds = round_up(needed, 2)
    key, least = "hours", seconds / 3600
    if section.hours == "unlimited" or section.hours * 3600 > section.seconds():
        key, least = "cost", least * section.price_per_hour
    return Problem(
        "the budget is too small for preparation, one step, one validation and the judging",
        path=f"budget.{key}",
        found=f"{show_seconds(section.seconds())}; until now {spent}",
        expected=f"at least {show_seconds(seconds)} on this machine",
        fix=f"write budget.{key}: {round_up(least, 3):g}, or train on fewer rows",
    )


def _asked(document: Document, plan: Plan, parts: PartRows) -> RequestedRun:
    contract, written = plan.contract, document.written
    model, budget = contract.model, contract.budget.seconds()
    trainings = count_trainings(contract)
    samples = contract.data.samples_test and fold_count(contract.data) == 0
    if limit := model.traits.rounds:
        kept = f"model.{limit}" in written
        rounds = int(getattr(model, limit))
        return RequestedRun(budget, rounds, 0, 0, parts.test, trainings, keeps_length=kept)
    if not model.is_loop_trained:
        return RequestedRun(budget, 0, 0, 0, parts.test, trainings, samples_test=samples)
    rows = contract.training.validation.rows
    made = Validations.of(contract, plan.estimate.train_rows)
    return RequestedRun(
        budget=budget,
        steps=plan.steps,
        validations=made.count,
        validation_rows=parts.validation if rows == "all" else min(rows, parts.validation),
        test_rows=parts.test,
        trainings=trainings,
        keeps_length=_keeps_length(document.contract.training),
        keeps_spacing=any(path in written for path in _SPACINGS),
        keeps_rows=_ROWS in written,
        samples_test=samples,
    )


def _keeps_length(training: Training) -> bool:
    """Does the contract set the length of the training?"""
    stop = training.stop
    lengths = (training.num_steps, training.num_tokens)
    limits = (*lengths, stop.max_steps, stop.max_samples, stop.max_tokens)
    return training.num_epochs != "auto" or any(limit != "off" for limit in limits)


def _settings(
    document: Document, plan: Plan, asked: RequestedRun, share: BudgetShare
) -> dict[str, Json]:
    """Contract values that the budget decides among those left open."""
    kept = {choice.path: choice.value for choice in plan.choices if choice.reason == BY_BUDGET}
    settings: dict[str, Json] = dict(kept)
    if limit := plan.contract.model.traits.rounds:
        if share.steps < asked.steps and not asked.keeps_length:
            settings[f"model.{limit}"] = share.steps
        return settings
    if not asked.validations:
        return settings
    if share.steps < asked.steps and not asked.keeps_length:
        in_epoch = plan.estimate.steps_per_epoch
        settings["training.num_epochs"] = math.ceil(share.steps / in_epoch)
        settings["training.stop.max_steps"] = share.steps
        if _SPANS not in document.written:
            settings[_SPANS] = "limits"
    is_whole = (share.steps, share.validations) == (asked.steps, asked.validations)
    if not (asked.keeps_spacing or is_whole):
        settings["training.validate_every_n_steps"] = math.ceil(share.steps / share.validations)
    if share.validation_rows < asked.validation_rows:
        settings[_ROWS] = share.validation_rows
    return settings


def _rate_at_end(plan: Plan, settings: dict[str, Json], share: BudgetShare) -> Json:
    """Learning rate of the last step that fits, as a share of its peak; `open` if it depends on the
    validation losses."""
    steps = scheduled_steps(plan.contract, plan.estimate.train_rows)
    if _SPANS in settings:
        steps = share.steps
    schedule = build_schedule(plan.contract.training.scheduler, steps)
    return "open" if isinstance(schedule, Plateau) else schedule(share.steps - 1)


def _lines(
    plan: Plan, asked: RequestedRun, share: BudgetShare, speeds: Speeds, planned: dict[str, Json]
) -> Iterator[str]:
    """Summary: what fits, what does not, and what to write."""
    yield (
        f"{show_seconds(asked.budget)}: {show_seconds(speeds.spent)} until now, the run is planned "
        f"to end after {show_seconds(share.planned_seconds)}"
    )
    is_cut = share.steps < asked.steps
    if is_cut and asked.keeps_length:
        yield _too_long(plan, asked, share, speeds, planned)
    elif is_cut:
        yield _shortened(plan, asked, share, speeds, planned)
    elif asked.steps:
        yield f"all {_length(plan, asked.steps)} fit"
    if share.validation_rows < asked.validation_rows or share.validations < asked.validations:
        yield (
            f"{many(share.validations, 'validation')} of {share.validation_rows:,} of "
            f"{asked.validation_rows:,} validation rows, the same ones each time"
        )
    if share.test_rows < asked.test_rows:
        yield (
            f"{share.test_rows:,} of {asked.test_rows:,} test rows will be judged: the intervals "
            "are as wide as so few rows make them"
        )


def _shortened(
    plan: Plan, asked: RequestedRun, share: BudgetShare, speeds: Speeds, planned: dict[str, Json]
) -> str:
    """Effect on a length that the contract leaves open."""
    one = f"{_unit(plan)} takes {_show_step(speeds)}"
    text = f"{_length(plan, share.steps)} of {_length(plan, asked.steps)} fit ({one})"
    rate = planned.get("learning_rate_at_end")
    if isinstance(rate, float):
        text += f"; the schedule spans them, and ends at {rate:.3g} of the learning rate"
    return text


def _too_long(
    plan: Plan, asked: RequestedRun, share: BudgetShare, speeds: Speeds, planned: dict[str, Json]
) -> str:
    """Effect on a length that the contract sets, and what to write instead."""
    one = f"{_unit(plan)} takes {_show_step(speeds)}"
    text = f"only {_length(plan, share.steps)} of {_length(plan, asked.steps)} fit ({one}"
    warmup = _warmup(plan)
    if warmup > share.steps:
        text += f"; the warmup of {warmup:,} steps alone {show_seconds(warmup * speeds.step)}"
    text += "): the training will be cut there"
    rate = planned.get("learning_rate_at_end")
    if isinstance(rate, float):
        text += f", before its schedule ends, at {rate:.3g} of the learning rate"
    missing = (asked.steps - share.steps) * speeds.step * asked.trainings
    whole = round_up((share.planned_seconds + missing) / MARGIN, 2)
    shorter = f"leave model.{plan.contract.model.traits.rounds} out"
    if asked.validations:
        shorter = "leave its length to the budget with training.num_epochs: auto and no limit"
    return f"{text}; {shorter}, or write budget.hours: {round_up(whole / 3600, 3):g}"


def _warmup(plan: Plan) -> int:
    """Warmup steps of the schedule."""
    if not plan.contract.model.is_loop_trained:
        return 0
    scheduler = plan.contract.training.scheduler
    steps = scheduled_steps(plan.contract, plan.estimate.train_rows)
    return scheduler.warmup_steps or round(scheduler.warmup_ratio * steps)


def _unit(plan: Plan) -> str:
    return f"a {plan.contract.model.traits.unit}"


def _length(plan: Plan, steps: int) -> str:
    """`320 steps (1.2 epochs)`, or trees."""
    traits = plan.contract.model.traits
    if traits.rounds:
        return many(steps, traits.unit)
    return f"{many(steps, 'step')} ({steps / plan.estimate.steps_per_epoch:.3g} epochs)"


def _show_step(speeds: Speeds) -> str:
    exchange = f", {_precise(speeds.exchange)} of it exchange" if speeds.exchange else ""
    return f"{_precise(speeds.step)}{exchange}"


def _precise(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else show_seconds(seconds)


def is_shared_out(contract: Contract) -> bool:
    """Does a contract have a budget that can be allotted?"""
    return math.isfinite(contract.budget.seconds())
