"""Rules on the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.metric_rules import task_of, watched_problems
from trainwright.core.errors import Problem

_SECTION = "training.checkpointing"


def check_ranking(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Checkpoints are ranked by something that is measured on the validation rows."""
    ranked_by = contract.training.checkpointing.rank_by
    if ranked_by != "auto":
        path = "training.checkpointing.rank_by"
        yield from watched_problems(ranked_by, path, task_of(contract))


def check_spacing(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Measured spacing needs the time between failures, and nothing else looks at it."""
    section = contract.training.checkpointing
    every, failures = section.save_every_minutes, section.expected_hours_between_failures
    if every == "measured" and failures == "off":
        yield Problem(
            "the best spacing of saves hangs on how often the machine fails",
            path=f"{_SECTION}.save_every_minutes",
            found="measured",
            expected="expected_hours_between_failures beside it",
            fix="add for example expected_hours_between_failures: 24, or write a number of minutes",
        )
    if every not in ("auto", "measured") and failures != "off":
        yield Problem(
            f"expected_hours_between_failures has no effect on save_every_minutes: {every}",
            path=f"{_SECTION}.expected_hours_between_failures",
            found=str(failures),
            expected="save_every_minutes: measured",
            fix="remove one of the two",
        )
