"""Rules on the mean of the weights."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.averaging import CyclicRate, Swa
from trainwright.core.errors import Problem

_AVERAGE = "training.average"


def check_swa(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The start is given once, and a cycle has a way down."""
    average = contract.training.average
    if not isinstance(average, Swa):
        return
    both = {f"{_AVERAGE}.start_epoch", f"{_AVERAGE}.start_ratio"}
    if both <= written and average.start_epoch:
        yield Problem(
            "the start of the mean is given twice",
            path=f"{_AVERAGE}.start_epoch",
            found="start_epoch and start_ratio",
            expected="one of the two",
            fix="remove one",
        )
    if isinstance(average.learning_rate, CyclicRate) and average.every_n_steps == 1:
        yield Problem(
            "a cycle of one step has no way down",
            path=f"{_AVERAGE}.every_n_steps",
            found="1",
            expected="more steps, or epoch, with a cyclic rate",
            fix="change it to epoch, or learning_rate.kind to constant",
        )


AVERAGE_RULES = (check_swa,)
"""All of them, for the list of rules."""
