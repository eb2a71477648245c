"""Evaluation windows: segments of a text with as much context as the model allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import Mask, TokenInputs, Tokens


@final
@dataclass(frozen=True, slots=True)
class EvalWindows:
    """Windows of one length: `length` tokens from each of `starts` [W], of which the last
    `predicted` positions are scored; `segments` [W] is the segment of each."""

    text: Tokens
    starts: Integers
    length: int
    predicted: int
    segments: Integers
    mask: Mask = "all"

    def between(self, first: int, last: int) -> EvalWindows:
        """A slice of the windows."""
        chosen = slice(first, last)
        return replace(self, starts=self.starts[chosen], segments=self.segments[chosen])

    def tokens(self, shift: int) -> Tokens:
        """Tokens of each window, shifted by `shift`: [W, length]."""
        places = self.starts[:, None] + np.arange(shift, shift + self.length)
        tokens: Tokens = self.text[places]
        return tokens

    def counted(self) -> npt.NDArray[np.bool_]:
        """Which of the scored positions count, bool [W, predicted]."""
        positions = self.starts[:, None] + np.arange(1, self.length + 1)[-self.predicted :]
        if isinstance(self.mask, str):
            return np.ones(positions.shape, dtype=np.bool_)
        return np.asarray(self.mask[positions])


def cut_windows(inputs: TokenInputs, context: int) -> Iterator[EvalWindows]:
    """Windows of at most `context` tokens that predict every token of every segment once.

    A segment is predicted in chunks of `context` tokens from its start, as in training. Remaining
    context is filled with the preceding tokens of its document.
    """
    pieces: dict[tuple[int, int], list[tuple[int, int]]] = {}
    begins = inputs.documents[inputs.owners()]
    segments = zip(inputs.starts, inputs.lengths, begins, strict=True)
    for segment, (start, length, begin) in enumerate(segments):
        for first in range(int(start), int(start + length), context):
            end = min(first + context, int(start + length))
            opened = max(int(begin), end - 1 - context)
            pieces.setdefault((end - 1 - opened, end - first), []).append((opened, segment))
    for (length, predicted), found in pieces.items():
        table = np.array(found, dtype=np.int64)
        starts, owners = table.T
        yield EvalWindows(inputs.tokens, starts, length, predicted, owners, inputs.mask)
