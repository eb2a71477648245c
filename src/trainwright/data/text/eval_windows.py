"""Stretches of a text cut into the windows that a model with a limited context can see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Integers, TokenInputs


@final
@dataclass(frozen=True, slots=True)
class EvalWindows:
    """Windows of one length: `length` tokens from each of `starts` [W] on, of which the tokens
    after the last `predicted` ones are judged; `stretches` [W] says for which stretch."""

    text: npt.NDArray[np.uint16]
    starts: Integers
    length: int
    predicted: int
    stretches: Integers

    def between(self, first: int, last: int) -> EvalWindows:
        """Some of the windows."""
        chosen = slice(first, last)
        return EvalWindows(
            self.text, self.starts[chosen], self.length, self.predicted, self.stretches[chosen]
        )

    def tokens(self, shift: int) -> npt.NDArray[np.uint16]:
        """The tokens of each window, moved on by `shift`: uint16 [W, length]."""
        places = self.starts[:, None] + np.arange(shift, shift + self.length)
        return np.asarray(self.text[places], np.uint16)


def cut_windows(inputs: TokenInputs, context: int) -> Iterator[EvalWindows]:
    """Windows of at most `context` tokens that predict every token of every stretch once.

    A stretch is predicted in pieces of `context` tokens from its beginning, as in training. Where
    the context is longer than the stretch, a window also holds what stands before it in its
    document.
    """
    pieces: dict[tuple[int, int], list[tuple[int, int]]] = {}
    begins = inputs.documents[inputs.owners()]
    stretches = zip(inputs.starts, inputs.lengths, begins, strict=True)
    for stretch, (start, length, begin) in enumerate(stretches):
        for first in range(int(start), int(start + length), context):
            end = min(first + context, int(start + length))
            opened = max(int(begin), end - 1 - context)
            pieces.setdefault((end - 1 - opened, end - first), []).append((opened, stretch))
    for (length, predicted), found in pieces.items():
        table = np.array(found, dtype=np.int64)
        yield EvalWindows(inputs.tokens, table[:, 0], length, predicted, table[:, 1])
