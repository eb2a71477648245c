"""What a learner gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from trainwright.predictor.predictor import Predictor


@final
@dataclass(frozen=True, slots=True)
class Fitted:
    """A predictor and how its training ended. `kind` is as in the loop's own ending; a predictor
    from an `interrupted` or `halted` training is not judged."""

    predictor: Predictor
    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    reason: str
    warnings: tuple[str, ...] = ()
