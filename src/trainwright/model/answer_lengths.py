"""Baseline of preferences: the longer answer is preferred."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

from trainwright.data.base.inputs import Floats, Inputs
from trainwright.data.base.token_inputs import TokenInputs


@final
@dataclass(frozen=True, slots=True)
class AnswerLengths:
    """The margin of a pair is the tokens of the chosen answer minus those of the rejected one."""

    kind: ClassVar[str] = "answer_lengths"

    def score(self, inputs: Inputs) -> Floats:
        """Margins, [N, 1]."""
        lengths = TokenInputs.of_kind(inputs.segments).lengths.reshape(-1, 2).astype("float64")
        margins: Floats = lengths[:, :1] - lengths[:, 1:]
        return margins

    def write(self, _folder: Path) -> None:
        """Nothing: there is nothing to keep."""
