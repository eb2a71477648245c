"""Builds the stop rules of a network run. Needs torch."""

from __future__ import annotations

from trainwright.contract.sections.run_settings import Budget
from trainwright.contract.sections.training.training import Stop
from trainwright.engine.stopping.metric_stop_rules import (
    GradientNormBelow,
    LossPlateauRule,
    StepRule,
)
from trainwright.engine.stopping.stop_rules import Patience, StopRule, TargetReached


def build_step_rules(section: Stop) -> tuple[StepRule, ...]:
    """Rules updated at each step."""
    rules: list[StepRule] = []
    if section.gradient_norm_below != "off":
        rules.append(GradientNormBelow(section.gradient_norm_below))
    if section.loss_plateau != "off":
        rules.append(LossPlateauRule(section.loss_plateau.steps, section.loss_plateau.min_gain))
    return tuple(rules)


def build_target(section: Stop, patience: Patience) -> tuple[StopRule, ...]:
    """Target value that ends the run early, if any."""
    if section.target_reached == "off":
        return ()
    return (TargetReached(patience, section.target_reached),)


def name_budget(section: Budget) -> str:
    """Name of the binding limit, of time or of money."""
    hours = section.seconds() / 3600
    if section.cost != "unlimited" and section.cost / section.price_per_hour <= hours:
        return f"the budget of {section.cost:g} at {section.price_per_hour:g} an hour"
    return f"the budget of {hours:g} hours"
