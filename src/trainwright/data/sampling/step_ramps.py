"""Batch-size and sequence-length ramps by feed position, and step counts; stateless."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self, assert_never, final

from trainwright.contract.sections.training.optimizer import BatchRamp, SequenceRamp

_FEWEST = 2


@final
@dataclass(frozen=True, slots=True)
class Stages:
    """A step function of the feed's cursor: `values[i]` from `starts[i]` samples on. Starts begin
    at 0 and never decrease."""

    starts: tuple[int, ...]
    values: tuple[int, ...]

    @classmethod
    def flat(cls, value: int) -> Self:
        """A constant."""
        return cls((0,), (value,))

    @classmethod
    def even(cls, values: tuple[int, ...], samples: int) -> Self:
        """All values but the last over `samples`, as long each; the last one from there on."""
        growing = len(values) - 1
        return cls(tuple(samples * at // max(1, growing) for at in range(growing + 1)), values)

    def at(self, samples: int) -> int:
        """The value at a position."""
        return self.values[bisect_right(self.starts, samples) - 1]

    def rows_at(self, position: int, left: int) -> int:
        """Rows of the step that begins at a position with `left` rows up to the end of its epoch. A
        last step of one row, which a batch norm cannot take, gets another of the step before it,
        where that is of the last stage."""
        size, full = self.at(position), self.values[-1]
        return size - 1 if left == size + 1 and size == full > _FEWEST else min(size, left)

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Pieces between two positions: each value and its end."""
        for at in range(bisect_right(self.starts, start) - 1, len(self.values)):
            end = self.starts[at + 1] if at + 1 < len(self.starts) else stop
            if end > start:
                yield self.values[at], min(end, stop)
            if end >= stop:
                return


def step_rows(section: Literal["off"] | BatchRamp, full: int, samples: int) -> Stages:
    """Rows per optimizer step by position, in a run of `samples` over all epochs."""
    if section == "off":
        return Stages.flat(full)
    sizes = [section.start]
    while sizes[-1] < full:
        match section.growth:
            case "doubling":
                larger = 2 * sizes[-1]
            case "linear":
                larger = sizes[-1] + section.start
            case _:
                assert_never(section.growth)
        sizes.append(min(full, larger))
    return Stages.even(tuple(sizes), section.samples or round(section.ratio * samples))


def window_lengths(section: Literal["off"] | SequenceRamp, context: int, samples: int) -> Stages:
    """Tokens of a window by position; every length divides the next ones or at least `context`."""
    if section == "off":
        return Stages.flat(context)
    lengths = [section.start]
    while lengths[-1] < context:
        longer = [size for size in range(lengths[-1] + 1, context + 1) if context % size == 0]
        within = [size for size in longer if size <= 2 * lengths[-1]]
        lengths.append(within[-1] if within else longer[0])
    return Stages.even(tuple(lengths), section.samples or round(section.ratio * samples))


def steps_at_epoch_ends(stages: Stages, rows: int, epochs: int) -> tuple[int, ...]:
    """Optimizer steps made at the end of each epoch of `rows`, if none is dropped.

    A step has the size of the stage in which it begins, and does not cross an epoch boundary.
    """
    made, ends = 0, []
    for epoch in range(epochs):
        made += _steps_within(stages, epoch * rows, (epoch + 1) * rows)
        ends.append(made)
    return tuple(ends)


def steps_up_to(stages: Stages, rows: int, samples: int) -> int:
    """Optimizer steps after which `samples` are consumed, the last one perhaps more."""
    whole, rest = divmod(samples, rows)
    # After the last stage all epochs are equal, so no counting is needed there.
    growing = min(whole, -(-stages.starts[-1] // rows))
    made = steps_at_epoch_ends(stages, rows, growing)
    alike = (whole - growing) * -(-rows // stages.values[-1])
    within = _steps_within(stages, whole * rows, whole * rows + rest)
    full, before = stages.values[-1], whole * rows + rest - stages.values[-1]
    if rest == rows - 1 and full > _FEWEST and before >= max(whole * rows, stages.starts[-1]):
        # A last step of one row begins a row earlier.
        within = _steps_within(stages, whole * rows, whole * rows + rows)
    return (made[-1] if made else 0) + alike + within


def _steps_within(stages: Stages, start: int, stop: int) -> int:
    """Steps from a position in an epoch to another one in it or at its end."""
    steps, position = 0, start
    for size, end in stages.spans(start, stop):
        if position < end:
            made = -(-(end - position) // size)
            steps += made
            position += made * size
    return steps
