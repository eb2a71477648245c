"""Extension of a finished network run. Needs torch.

Data order and random numbers are functions of the position, so the added steps are those of a run
that was planned longer. Shares of the run's length (the learning-rate schedule, ramps, a
curriculum) stay as they were for the first ending.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

import torch

from trainwright.contract.document import Contract
from trainwright.contract.rules.all_rules import MOST
from trainwright.contract.sections.data.data_traits import Curriculum
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.scheduler import Constant
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.loading.feed import Feed
from trainwright.data.types import Prepared
from trainwright.optim.lr_schedule import build_schedule
from trainwright.optim.plateau import Plateau
from trainwright.planner.extend_plan import Extension, with_values
from trainwright.planner.plan import Plan
from trainwright.run.compose.compose_feed import build_feed, with_workers
from trainwright.run.compose.schedule_length import length_of, rows_of_tokens, tokens_of_rows
from trainwright.run.extend.extendable import End
from trainwright.run.request import ExtensionRequest

_EPOCHS, _STOP = "training.num_epochs", "training.stop"
_MOST_EPOCHS = MOST[_EPOCHS]
_NO_LIMITS: dict[str, Json] = {
    f"{_STOP}.{limit}": "off" for limit in ("max_steps", "max_samples", "max_tokens")
}


def plan_extension(
    end: End, plan: Plan, prepared: Prepared, wanted: ExtensionRequest, verdict: str
) -> Extension:
    """Additions to the plan of a run that ended there.

    Raises:
        Mistake: its learning rate would be 0, or the run too long.
    """
    contract = plan.contract
    device = torch.device("cpu")
    with closing(build_feed(with_workers(contract, 0), prepared, device)) as feed:
        spans = length_of(contract, feed).scheduled_steps
        values = {**_ending(contract, feed, end, wanted), **_shares(contract, feed)}
        values[f"{_STOP}.schedule_spans"] = spans
        longer = with_values(contract, values)
        steps = length_of(longer, feed).most_steps
    if wanted.schedule == "redraw":
        values[f"{_STOP}.schedule_spans"] = steps
    said = _schedule(contract, wanted, _Steps(end.step, spans, steps))
    content = contract.model_dump(mode="json")
    changed = {path: value for path, value in values.items() if _at(content, path) != value}
    return Extension(str(wanted), end.step, end.reason, verdict, said, changed)


def _ending(contract: Contract, feed: Feed, end: End, wanted: ExtensionRequest) -> dict[str, Json]:
    """New ending: whole epochs if the old one was at the end of one, else a limit, and the epochs
    needed to reach it."""
    done = max(1, -(-end.samples // feed.rows))
    match wanted.unit:
        case "epoch":
            ends = length_of(contract, feed).epoch_ends
            if end.step in ends:
                epochs = ends.index(end.step) + 1 + wanted.count
                return {**_NO_LIMITS, _EPOCHS: _allowed(epochs)}
            samples = end.samples + wanted.count * feed.rows
            epochs = -(-samples // feed.rows)
            return {**_NO_LIMITS, _EPOCHS: _allowed(epochs), f"{_STOP}.max_samples": samples}
        case "step":
            steps = end.step + wanted.count
            made = feed.epoch_ends(done)[-1]
            # With a ramp, the epochs after it have the fewest steps.
            epochs = done + max(0, -(-(steps - made) // feed.steps_per_epoch))
            return {**_NO_LIMITS, _EPOCHS: _allowed(epochs), f"{_STOP}.max_steps": steps}
        case "token":
            tokens = tokens_of_rows(end.samples, contract, feed) + wanted.count
            epochs = _epochs_of_tokens(tokens, contract, feed, done)
            return {**_NO_LIMITS, _EPOCHS: epochs, f"{_STOP}.max_tokens": tokens}


def _epochs_of_tokens(tokens: int, contract: Contract, feed: Feed, least: int) -> int:
    """Epochs, at least `least`, that predict so many tokens. If epochs differ in their tokens, the
    rows are known only for the epochs in the contract."""
    epochs = least
    while True:
        training = contract.training.model_copy(update={"num_epochs": epochs})
        longer = contract.model_copy(update={"training": training})
        needed = -(-rows_of_tokens(tokens, longer, feed) // feed.rows)
        if needed <= epochs:
            return epochs
        epochs = _allowed(needed)


def _allowed(epochs: int) -> int:
    if epochs > _MOST_EPOCHS:
        problem = Problem(
            "the run would be too long",
            path="--for",
            found=many(epochs, "epoch"),
            expected=f"at most {_MOST_EPOCHS:,}",
            fix="name fewer",
        )
        raise Mistake(problem)
    return epochs


def _shares(contract: Contract, feed: Feed) -> dict[str, Json]:
    """Shares of the run's rows, converted to absolute numbers of the first length."""
    ramps, sampling = contract.training.ramps, contract.data.sampling
    rows = settled(contract.training.num_epochs) * feed.rows
    values: dict[str, Json] = {}
    for name, ramp in (("batch", ramps.batch), ("sequence", ramps.sequence)):
        if ramp != "off" and not ramp.samples:
            values[f"training.ramps.{name}.samples"] = round(ramp.ratio * rows)
    if isinstance(sampling, Curriculum) and not sampling.samples:
        values["data.sampling.samples"] = round(sampling.ratio * rows)
    return values


class _Steps(NamedTuple):
    """Where the run ended, the steps its schedule spanned, and where it will end."""

    end: int
    spanned: int
    new_end: int


def _schedule(contract: Contract, wanted: ExtensionRequest, steps: _Steps) -> str:
    """Effect on the learning rate, in words.

    Raises:
        Mistake: it would be 0 in every added step.
    """
    scheduler = contract.training.scheduler
    before = build_schedule(scheduler, steps.spanned)
    after = build_schedule(scheduler, steps.new_end)
    if isinstance(before, Plateau) or isinstance(after, Plateau):
        return f"{scheduler.name} goes on from where it is"
    last, first = before(max(0, steps.end - 1)), before(steps.end)
    if wanted.schedule == "redraw":
        return (
            f"{scheduler.name} is drawn again over all {steps.new_end:,} steps: from {last:.3g} of "
            f"the peak it goes to {after(steps.end):.3g}, as in no run that was planned longer"
        )
    final = before(steps.new_end - 1)
    if max(first, final) <= 0:
        raise Mistake(_no_rate(scheduler.name))
    if isinstance(scheduler, Constant):
        return "the rate stays constant"
    if first != final or steps.end < steps.spanned:
        return f"{scheduler.name} goes on as it was drawn over {steps.spanned:,} steps"
    return (
        f"{scheduler.name} was drawn over {steps.spanned:,} steps and stays at its last value, "
        f"{final:.3g} of the peak; --schedule redraw draws it over all {steps.new_end:,}"
    )


def _no_rate(name: str) -> Problem:
    return Problem(
        "the learning rate has fallen to 0: more steps would change nothing",
        path="training.scheduler",
        found=f"{name}, at its end",
        expected="a schedule with a rate above 0 at its end, such as constant",
        fix="draw it over the whole new length: --schedule redraw",
    )


def _at(content: Mapping[str, Json], path: str) -> Json:
    value: Json = content
    for key in path.split("."):
        value = value[key]
    return value
