"""Rules on what is measured."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import Problem

_INSPECT = "tracking.inspect"


def check_inspect(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Inspections are part of windows, and attention is part of a transformer."""
    tracking, model = contract.tracking, contract.model
    if tracking.inspect == "off":
        return
    if tracking.windows == "off":
        yield Problem(
            "what is inspected is written with the windows, and they are off",
            path=_INSPECT,
            expected="tracking.windows that are not off",
            fix="remove tracking.windows, or tracking.inspect",
        )
    asked = f"{_INSPECT}.which" in written and "attention" in tracking.inspect.which
    if asked and not model.traits.has_attention:
        attending = " or ".join(kinds_with(lambda traits: traits.has_attention))
        yield Problem(
            f"a model of kind {model.kind} has no causal attention, which is what is measured",
            path=f"{_INSPECT}.which",
            found="attention",
            expected="activations, silent_units, gradient_sizes",
            fix=f"remove attention, or choose model.kind {attending}",
        )
