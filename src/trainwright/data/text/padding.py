"""Padding of padded batches, computed from lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from trainwright.contract.sections.data.tokens import TokenFeeding
from trainwright.data.base.counter_rng import even_pieces
from trainwright.data.base.inputs import Integers
from trainwright.data.sampling.length_buckets import BucketSampler
from trainwright.data.sampling.samplers import Sampler

_MOST_SAMPLES = 2**16
_LEAST_SAVED = 0.01
_MOST_COMPILED = 8


@final
@dataclass(frozen=True, slots=True)
class PaddedShapes:
    """Batch shapes: as wide as the longest row, rounded up to a multiple of `multiple`, at most
    `context`; at most `places` positions, unless a single row has more."""

    multiple: int
    context: int
    places: float = math.inf

    def widths(self, longest: Integers) -> Integers:
        """Widths of batches with these longest rows."""
        rounded = -(-longest // self.multiple) * self.multiple
        return np.minimum(rounded, self.context)

    def cut(self, lengths: Integers, most: int) -> Sequence[int]:
        """Batch sizes of a step whose rows have these `lengths` in order, at most `most` rows
        each."""
        if math.isinf(self.places):
            return even_pieces(len(lengths), most)
        sizes, rest = [], lengths
        while len(rest):
            some = rest[:most]
            places = self.widths(np.maximum.accumulate(some)) * np.arange(1, len(some) + 1)
            sizes.append(max(1, int(np.searchsorted(places, self.places, side="right"))))
            rest = rest[sizes[-1] :]
        return sizes


def padded_shapes(section: TokenFeeding, context: int) -> PaddedShapes:
    """Batch shapes of a contract for rows of at most `context` tokens."""
    padding = section.padding
    places = math.inf if padding.max_tokens == "off" else padding.max_tokens
    return PaddedShapes(padding.multiple, context, places)


def trimmed_shapes(lengths: Integers, *, compiled: bool) -> PaddedShapes:
    """Shapes of batches that are as wide as their longest row. Those of compiled kernels, which are
    made for each width, are wider: the next multiple of an eighth of the longest row of all."""
    longest = int(lengths.max(initial=1))
    return PaddedShapes(-(-longest // _MOST_COMPILED) if compiled else 1, longest)


@final
@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of `rows` rows, in batches of at most `batch` rows."""

    rows: int
    batch: int


def measure_padding(lengths: Integers, draws: Sampler, steps: Steps, shapes: PaddedShapes) -> float:
    """Share of padding in the first epoch of rows of `lengths`, at most over the first 65,536
    rows."""
    count = min(draws.rows, max(steps.rows, _MOST_SAMPLES // steps.rows * steps.rows))
    if not count:
        return 0.0
    shown = lengths[draws.at(0, 0, count)]
    ends = np.arange(steps.rows, count, steps.rows)
    parts = np.split(shown, ends)
    sizes = np.array([size for part in parts for size in shapes.cut(part, steps.batch)], np.int64)
    longest = np.maximum.reduceat(shown, np.cumsum(sizes) - sizes)
    places = int((shapes.widths(longest) * sizes).sum())
    return 1 - int(shown.sum()) / places


@final
@dataclass(frozen=True, slots=True)
class Bucketing:
    """Number of buckets, and the padding share with and without them."""

    buckets: int
    padding: float
    without: float


def choose_buckets(lengths: Integers, group: int, shapes: PaddedShapes, seed: int) -> Bucketing:
    """Double the buckets while that saves 1 % of the positions, with one batch per step: the
    division of a step must not change the order."""
    whole = replace(shapes, places=math.inf)

    def padding(draws: BucketSampler) -> float:
        return measure_padding(lengths, draws, Steps(group, group), whole)

    best = BucketSampler(lengths, 1, group, seed)
    share = without = padding(best)
    while True:
        finer = BucketSampler(lengths, 2 * best.buckets, group, seed)
        less = padding(finer)
        if finer.buckets == best.buckets or share - less < _LEAST_SAVED:
            return Bucketing(best.buckets, share, without)
        best, share = finer, less
