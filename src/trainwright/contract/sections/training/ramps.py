"""`training.ramps`: steps and windows that start small and grow."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Count, Section

Part = Annotated[float, Field(gt=0, le=1)]


class BatchRamp(Section):
    """The rows of an optimizer step grow from `start` to `effective_batch_size`, as the gradient
    noise does over a run (McCandlish et al. 2018, arXiv:1812.06162, section 2.3; Brown et al. 2020,
    arXiv:2005.14165, appendix B; in place of a falling rate, Smith et al. 2018, arXiv:1711.00489).
    Sizes follow one another in stages of equally many rows. A step of more than `batch_size` rows
    is cut into micro-batches of at most as many."""

    start: Count
    """Rows of the first optimizer steps; less than `effective_batch_size`."""

    growth: Literal["doubling", "linear"] = "doubling"
    """`doubling`: each size is twice the one before it, the fewest different shapes. `linear`: each
    is larger by `start`."""

    ratio: Part = 0.1
    """Share of all rows of the run, over all epochs, after which a step has its full size."""

    samples: Annotated[int, Field(ge=0)] = 0
    """Rows after which a step has its full size, in place of `ratio`; of a text windows."""


class SequenceRamp(Section):
    """The windows of a text start short and grow to the model's context (Li et al. 2022,
    arXiv:2108.06084, section 4; in two stages Press et al. 2021, arXiv:2012.15832, section 4). A
    window of L tokens is cut into L / l windows of l tokens, so every token is still predicted
    once, and an optimizer step has as many targets as before."""

    start: Count
    """Tokens of the first windows; a divisor of the model's context. Each length after it is the
    longest divisor up to twice the one before."""

    ratio: Part = 0.2
    """Share of all rows of the run, over all epochs, after which windows are whole."""

    samples: Annotated[int, Field(ge=0)] = 0
    """Whole windows after which none is cut any more, in place of `ratio`."""


class Ramps(Section):
    """What starts small and grows. Each is a function of the feed's position alone, so a run
    resumes exactly and the number of its steps is known beforehand."""

    batch: Literal["off"] | BatchRamp = "off"
    """Rows of an optimizer step. With `optimizer.batch_scaling` the learning rate follows the rows
    that a step has; without it the rate does not know of the ramp."""

    sequence: Literal["off"] | SequenceRamp = "off"
    """Tokens of a window; only for texts."""
