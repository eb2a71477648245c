"""Memory of optimizer state."""

from __future__ import annotations

from typing import assert_never

from trainwright.contract.sections.training.optimizer import (
    Adafactor,
    Adam,
    AdamW,
    AdamW8bit,
    AnyOptimizer,
    Lamb,
    Lion,
    Muon,
    ScheduleFreeAdamW,
    Sgd,
)


def state_bytes(section: AnyOptimizer) -> float:
    """Bytes of optimizer state per trained parameter."""
    match section:
        case Adam() | AdamW() | Lamb() | ScheduleFreeAdamW():
            return 8.0
        case Sgd():
            return 4.0 if section.momentum else 0.0
        case Lion() | Muon():
            return 4.0
        case Adafactor():
            return 0.5
        case AdamW8bit():
            return 2.1
        case _:
            assert_never(section)
