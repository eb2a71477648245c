"""How long a network's run is, in steps, and what grows on the way. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.model import Gpt
from trainwright.contract.sampling import Mixture
from trainwright.contract.section import settled
from trainwright.data.feed import Feed
from trainwright.data.padded_store import Trimmed
from trainwright.data.ramps import Stages, steps_up_to, window_lengths
from trainwright.data.short_windows import ShortWindows
from trainwright.data.table import Integers
from trainwright.engine.job import At, Source
from trainwright.engine.stop import SampleLimit, StepLimit, StopRule


@final
@dataclass(frozen=True, slots=True)
class Length:
    """Rows of a step by position, and what follows: optimizer steps at the end of each epoch, those
    that the limits leave, and those that the schedule spans, if no step is dropped; and after which
    of them is validated."""

    step_rows: Stages
    epoch_ends: tuple[int, ...]
    most_steps: int
    scheduled_steps: int
    limits: tuple[StopRule, ...]
    validate_every: At


def length_of(contract: Contract, feed: Feed) -> Length:
    """The length of a run of this feed."""
    training = contract.training
    stop = training.stop
    ends = feed.epoch_ends(settled(training.num_epochs))
    most = ends[-1] if stop.max_steps == "off" else min(stop.max_steps, ends[-1])
    limits: list[StopRule] = [StepLimit(most)]
    if stop.max_samples != "off":
        limits.append(SampleLimit(stop.max_samples, f"all {stop.max_samples:,} rows"))
        most = min(most, steps_up_to(feed.step_rows, feed.rows, stop.max_samples))
    if stop.max_tokens != "off":
        samples = _rows_of_tokens(stop.max_tokens, contract, feed)
        limits.append(SampleLimit(samples, f"all {stop.max_tokens:,} tokens"))
        most = min(most, steps_up_to(feed.step_rows, feed.rows, samples))
    scheduled = most if stop.schedule_spans == "limits" else ends[-1]
    every = training.validate_every_n_epochs
    validations = At(frozenset(ends[every - 1 :: every]))
    return Length(feed.step_rows, ends, most, scheduled, tuple(limits), validations)


def _rows_of_tokens(tokens: int, contract: Contract, feed: Feed) -> int:
    """The samples of a run that predict so many tokens, the last one perhaps more."""
    assert isinstance(contract.model, Gpt), "the rules refuse it for other data"
    if not isinstance(feed.forming, Trimmed):
        return -(-tokens // contract.model.context)
    lengths = feed.forming.lengths
    if isinstance(contract.data.sampling, Mixture):
        return _walked(tokens, lengths, feed, settled(contract.training.num_epochs))
    epochs, rest = divmod(tokens, int(lengths.sum()))
    reached = np.cumsum(lengths[feed.order.at(epochs, 0, feed.rows)])
    return epochs * feed.rows + (int(np.searchsorted(reached, rest)) + 1 if rest else 0)


def _walked(tokens: int, lengths: Integers, feed: Feed, epochs: int) -> int:
    """As above, where epochs differ in their tokens: one after the other; more samples than a run
    of so many `epochs` has, where it predicts fewer tokens."""
    before = 0
    for epoch in range(epochs):
        reached = before + np.cumsum(lengths[feed.order.at(epoch, 0, feed.rows)])
        if reached[-1] >= tokens:
            return epoch * feed.rows + int(np.searchsorted(reached, tokens)) + 1
        before = int(reached[-1])
    return epochs * feed.rows + 1


def ramped_source(contract: Contract, feed: Feed) -> Source:
    """The feed, its windows cut where they start short."""
    ramp = contract.training.ramps.sequence
    if ramp == "off":
        return feed
    assert isinstance(contract.model, Gpt), "the rules refuse it for other data"
    samples = settled(contract.training.num_epochs) * feed.rows
    return ShortWindows(feed, window_lengths(ramp, contract.model.context, samples))
