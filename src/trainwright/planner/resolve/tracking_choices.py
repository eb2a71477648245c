"""Telemetry interval for `auto`."""

from __future__ import annotations

from trainwright.planner.resolve.choice import Chosen

_SHORT_STEPS, _LONG_STEPS = 200, 50


def window_steps(form: str) -> Chosen:
    """`every_n_steps` -> (value, reason). A measured step costs about the same for every network; a
    step over rows of a table, one `form` of data, is short."""
    if form == "table":
        return {"every_n_steps": (_SHORT_STEPS, "a step over a table is short")}
    return {"every_n_steps": (_LONG_STEPS, "often enough to see trouble early")}
