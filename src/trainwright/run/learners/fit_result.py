"""A library's fit: its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

from trainwright.core.errors import Interrupted, NonFinite
from trainwright.core.progress import StopFlag
from trainwright.predictor.predictor import Predictor


@final
@dataclass(frozen=True, slots=True)
class Fitted:
    """A predictor and how its training ended. `kind` is as in the loop's `StopReason`; a predictor
    from an `interrupted` or `halted` training is not judged. `kept_step` is the step of its weights
    if it is not the last one, else 0; `length` the rounds or updates that the model took, 0 for one
    fitted in one go, `rounds` the trees of each of several targets. `history` are the validations:
    the step (of boosting the trees) and the values by name."""

    predictor: Predictor
    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    reason: str
    warnings: tuple[str, ...] = ()
    kept_step: int = 0
    history: Sequence[Mapping[str, float]] = ()
    length: int = 0
    rounds: tuple[int, ...] = ()


def check_ending(fitted: Fitted, flag: StopFlag) -> None:
    """Raise for a training that did not finish."""
    if fitted.kind == "interrupted" or flag.is_up:
        raise Interrupted(f"stopped by {flag.why or fitted.reason}")
    if fitted.kind == "halted":
        raise NonFinite(f"the training was halted: {fitted.reason}")
