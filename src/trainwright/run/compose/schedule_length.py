"""Length of a network run in steps, and its ramps. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Stop
from trainwright.data.base.inputs import Integers
from trainwright.data.loading.document_dataset import ShortWindows, Trimmed
from trainwright.data.loading.feed import Feed
from trainwright.data.sampling.step_ramps import Stages, steps_up_to, window_lengths
from trainwright.engine.job import At, BatchSource, Every
from trainwright.engine.stopping.stop_rules import SampleLimit, StepLimit, StopRule


@final
@dataclass(frozen=True, slots=True)
class Length:
    """Rows of an epoch, rows of a step by position, and what follows from them if no step is
    dropped: optimizer steps at the end of each epoch, steps within the limits, steps spanned by the
    schedule, steps to validate after, and steps at which token-based checkpoints are due."""

    rows: int
    step_rows: Stages
    epoch_ends: tuple[int, ...]
    most_steps: int
    scheduled_steps: int
    limits: tuple[StopRule, ...]
    validate_every: Every | At
    save_at: At


def length_of(contract: Contract, feed: Feed) -> Length:
    """Length of a run of this feed."""
    training = contract.training
    stop = training.stop
    ends = feed.epoch_ends(settled(training.num_epochs))
    most = ends[-1] if stop.max_steps == "off" else min(stop.max_steps, ends[-1])
    limits: list[StopRule] = [StepLimit(most)]
    if stop.max_samples != "off":
        limits.append(SampleLimit(stop.max_samples, f"all {stop.max_samples:,} rows"))
        most = min(most, steps_up_to(feed.step_rows, feed.rows, stop.max_samples))
    if stop.max_tokens != "off":
        samples = rows_of_tokens(stop.max_tokens, contract, feed)
        limits.append(SampleLimit(samples, f"all {stop.max_tokens:,} tokens"))
        most = min(most, steps_up_to(feed.step_rows, feed.rows, samples))
    return Length(
        feed.rows,
        feed.step_rows,
        ends,
        most,
        _scheduled(stop, most, ends[-1]),
        tuple(limits),
        _validations(contract, feed, ends),
        _at_tokens(training.checkpointing.save_every_n_tokens, contract, feed, ends[-1]),
    )


def _scheduled(stop: Stop, most: int, all_epochs: int) -> int:
    """Steps spanned by the learning-rate schedule."""
    if isinstance(stop.schedule_spans, int):
        return stop.schedule_spans
    return most if stop.schedule_spans == "limits" else all_epochs


def _validations(contract: Contract, feed: Feed, ends: tuple[int, ...]) -> Every | At:
    """Steps to validate after: by steps or tokens, else at ends of epochs."""
    training = contract.training
    if training.validate_every_n_steps != "off":
        return Every(training.validate_every_n_steps)
    if training.validate_every_n_tokens != "off":
        return _at_tokens(training.validate_every_n_tokens, contract, feed, ends[-1])
    every = training.validate_every_n_epochs
    return At(frozenset(ends[every - 1 :: every]))


def _at_tokens(every: Literal["off"] | int, contract: Contract, feed: Feed, most: int) -> At:
    """Steps, at most `most`, that reach a multiple of so many tokens if none is dropped."""
    if every == "off":
        return At(frozenset())
    samples = settled(contract.training.num_epochs) * feed.rows
    reached = _rows_reaching(every, samples, contract, feed)
    steps = (steps_up_to(feed.step_rows, feed.rows, rows) for rows in reached)
    return At(frozenset(step for step in steps if step <= most))


def _rows_reaching(every: int, samples: int, contract: Contract, feed: Feed) -> Iterator[int]:
    """Rows, of `samples`, that reach each multiple of so many tokens."""
    if not isinstance(feed.forming, Trimmed):
        context = contract.model.context_length
        yield from (-(-tokens // context) for tokens in range(every, samples * context + 1, every))
        return
    before = 0
    for epoch in range(samples // feed.rows):
        lengths = feed.forming.lengths[feed.order.at(epoch, 0, feed.rows)]
        reached = before + np.cumsum(lengths)
        wanted = np.arange(before // every + 1, reached[-1] // every + 1) * every
        yield from (epoch * feed.rows + np.searchsorted(reached, wanted) + 1).tolist()
        before = int(reached[-1])


def rows_of_tokens(tokens: int, contract: Contract, feed: Feed) -> int:
    """Samples of a run that predict so many tokens, the last one possibly more."""
    if not isinstance(feed.forming, Trimmed):
        return -(-tokens // contract.model.context_length)
    lengths = feed.forming.lengths
    if isinstance(contract.data.sampling, Mixture):
        return _walked(tokens, lengths, feed, settled(contract.training.num_epochs))
    epochs, rest = divmod(tokens, int(lengths.sum()))
    reached = np.cumsum(lengths[feed.order.at(epochs, 0, feed.rows)])
    return epochs * feed.rows + (int(np.searchsorted(reached, rest)) + 1 if rest else 0)


def tokens_of_rows(rows: int, contract: Contract, feed: Feed) -> int:
    """Tokens predicted by so many samples of a run."""
    if not isinstance(feed.forming, Trimmed):
        return rows * contract.model.context_length
    lengths = feed.forming.lengths
    whole, rest = divmod(rows, feed.rows)
    read = sum(int(lengths[feed.order.at(epoch, 0, feed.rows)].sum()) for epoch in range(whole))
    return read + int(lengths[feed.order.at(whole, 0, rest)].sum())


def _walked(tokens: int, lengths: Integers, feed: Feed, epochs: int) -> int:
    """As `rows_of_tokens` if epochs differ in their tokens: one epoch after the other; more samples
    than a run of so many `epochs` has, if it predicts fewer tokens."""
    before = 0
    for epoch in range(epochs):
        reached = before + np.cumsum(lengths[feed.order.at(epoch, 0, feed.rows)])
        if reached[-1] >= tokens:
            return epoch * feed.rows + int(np.searchsorted(reached, tokens)) + 1
        before = int(reached[-1])
    return epochs * feed.rows + 1


def ramped_source(contract: Contract, feed: Feed) -> BatchSource:
    """The feed, its windows cut where the length ramp starts short."""
    ramp = contract.training.ramps.sequence
    if ramp == "off":
        return feed
    samples = settled(contract.training.num_epochs) * feed.rows
    return ShortWindows(feed, window_lengths(ramp, contract.model.context_length, samples))
