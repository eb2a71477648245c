"""User-defined signals of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from trainwright.core.errors import Mistake, Problem
from trainwright.tracking.events import Number, OwnNumbers, StepOutcome, number_to_json

OWN = "own/"
"""Prefix of user-defined signals in `signals.jsonl` and `windows.jsonl`."""


def own_totals(outcomes: Sequence[StepOutcome]) -> list[Number]:
    """Totals of the user-defined signals of all steps in order, to be read.

    Raises:
        Mistake: one was modified in place after it was recorded.
    """
    for outcome in outcomes:
        if outcome.own.versions:
            _check(outcome.own)
    return [total for outcome in outcomes for total in outcome.own.totals]


def version_of(tensor: Number) -> int:
    """In-place version counter of a tensor; 0 if it has none."""
    try:
        return int(getattr(tensor, "_version", 0))
    except RuntimeError:  # made in inference mode
        return 0


def own_means(own: OwnNumbers, totals: Sequence[float]) -> dict[str, float]:
    """Mean of each name: its totals over its counts. NaN for a zero count."""
    means = dict(zip(own.names, totals, strict=True))
    if len(means) == len(own.names) and own.counts == (1,) * len(means):
        return means
    sums, counts = dict.fromkeys(means, 0.0), dict.fromkeys(means, 0)
    for name, total, count in zip(own.names, totals, own.counts, strict=True):
        sums[name] += total
        counts[name] += count
    return {name: sums[name] / count if count else math.nan for name, count in counts.items()}


def own_texts(outcomes: Sequence[StepOutcome], totals: Sequence[float]) -> list[str]:
    """Text of each step's user-defined signals for its line in `signals.jsonl`, after a comma; with
    nine digits, the precision of fp32."""
    texts = []
    taken = 0
    for outcome in outcomes:
        behind = taken + len(outcome.own.names)
        means = own_means(outcome.own, totals[taken:behind])
        taken = behind
        text = _template(tuple(means)) % tuple(means.values())
        if not math.isfinite(sum(means.values())):
            text = "".join([_show(name, mean) for name, mean in means.items()])
        texts.append(text)
    return texts


@cache
def _template(names: tuple[str, ...]) -> str:
    """Template of a step's signals, which are usually the same at every step."""
    return "".join([f', "{OWN}{name}": %.9g' for name in names])


def _show(name: str, mean: float) -> str:
    shown = number_to_json(mean)
    return f', "{OWN}{name}": "{shown}"' if isinstance(shown, str) else _template((name,)) % mean


def _check(own: OwnNumbers) -> None:
    versions = iter(own.versions)
    for name, total in zip(own.names, own.totals, strict=True):
        if not isinstance(total, float | int) and version_of(total) != next(versions):
            raise _changed(name)


def _changed(name: str) -> Mistake:
    return Mistake(
        Problem(
            f"the signal {name} was changed in place after it was named",
            found="a tensor that is another number now than at its step",
            expected="a number of its own",
            fix="pass a copy: tensor.detach().clone()",
        )
    )
