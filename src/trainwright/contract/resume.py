"""`resume`: how an interrupted run goes on."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.section import Section


class Resume(Section):
    """How an interrupted run goes on: with the contract that it was started with."""

    data_changed: Literal["refuse", "record"] = "refuse"
    """When the data differs from the run's: `refuse` stops with exit code 11, `record` goes on and
    says so in the record."""
