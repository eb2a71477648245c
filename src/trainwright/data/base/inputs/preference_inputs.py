"""Encoded pairs of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.table import Floats, Inputs, Integers, TableInputs


def _unknown() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True)
class PreferenceInputs(Inputs):
    """N pairs of answers: segment 2i is the chosen answer of pair i, segment 2i + 1 the rejected
    one. `reference` float64 [2N] are their log-probabilities by the base, and `scale` [2N] what
    the difference to them is multiplied with, so that it is a reward; both are empty until the
    base has scored the answers."""

    answers: TokenInputs
    reference: Floats = field(default_factory=_unknown)
    scale: Floats = field(default_factory=_unknown)

    kind: ClassVar[str] = "preferences"
    noun: ClassVar[str] = "pairs"

    def __len__(self) -> int:
        return len(self.answers) // 2

    def take(self, rows: Integers) -> PreferenceInputs:
        """The given pairs, in the given order."""
        both = np.stack([2 * rows, 2 * rows + 1], axis=1).reshape(-1)
        known = len(self.reference) > 0
        return replace(
            self,
            answers=self.answers.take(both),
            reference=self.reference[both] if known else self.reference,
            scale=self.scale[both] if known else self.scale,
        )

    @property
    def segments(self) -> TokenInputs:
        """The answers, two for each pair."""
        return self.answers

    def tokens_of_documents(self) -> Integers:
        """Tokens of each prompt with its answer, [2N]."""
        begins = self.answers.documents[self.answers.owners()]
        sizes: Integers = self.answers.starts + self.answers.lengths - begins
        return sizes

    def from_likelihoods(self, nll: Floats, /) -> Floats:
        """Margins [N, 1]."""
        assert len(self.reference), "the base has scored the answers"
        rewards = (self.scale * (-nll[:, 0] - self.reference)).reshape(-1, 2)
        margins: Floats = rewards[:, :1] - rewards[:, 1:]
        return margins

    def columns(self) -> TableInputs:
        """Answers have none: the rules refuse a model of columns."""
        raise AssertionError("the rules refuse a model of columns for answers")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Answers are scored by their segments."""
        raise AssertionError("answers are scored by their segments")
