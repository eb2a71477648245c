"""Time between the saves of a run."""

from __future__ import annotations

from trainwright.contract.sections.training.checkpointing import Checkpointing
from trainwright.engine.save_interval import BestSpacing, FixedSpacing, Spacing


def build_spacing(section: Checkpointing) -> Spacing:
    """Spacing of the contract, if it sets one."""
    match section.save_every_minutes:
        case "auto" | "off":
            raise AssertionError("decided by the plan, and on")
        case "measured":
            hours = section.expected_hours_between_failures
            assert hours != "off", "a rule of the contract asks for it"
            return BestSpacing(3600 * hours)
        case minutes:
            return FixedSpacing(60 * minutes)
