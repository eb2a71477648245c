"""Builds the feed of a network from prepared data. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from trainwright.contract.document import Contract
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.objective import CrossEntropy, Teacher, TeacherStates
from trainwright.data.base.counter_rng import Positions
from trainwright.data.base.inputs import Floats
from trainwright.data.loading.batch import Batch, element_targets, row_targets
from trainwright.data.loading.dataset import (
    RowDataset,
    WindowDataset,
)
from trainwright.data.loading.document_dataset import (
    PackedBatches,
    PackedDataset,
    PaddedDataset,
    Trimmed,
)
from trainwright.data.loading.feed import AsStored, Collate, Feed, one_a_row
from trainwright.data.loading.pair_dataset import (
    CaptionDataset,
    PairBatches,
    PairDataset,
    TextPairBatches,
    TextPairDataset,
)
from trainwright.data.loading.preference_dataset import PreferenceBatches, PreferenceDataset
from trainwright.data.loading.query_dataset import QueryBatches, QueryDataset, query_targets
from trainwright.data.loading.tokenized_rows import TokenizedRows, TrimmedRows
from trainwright.data.loading.worker_pool import Workers
from trainwright.data.sampling.step_ramps import step_rows
from trainwright.data.text.padding import trimmed_shapes
from trainwright.data.types import Prepared
from trainwright.distributed.rank_share import WHOLE, RankShare
from trainwright.engine.guards.step_guard import RowsBetween
from trainwright.engine.signals.telemetry import Gauge
from trainwright.engine.signals.throughput import PaddingGauge
from trainwright.engine.update.gradient_cache import GradientCache
from trainwright.model.families import network_family
from trainwright.model.row_state import add_projection
from trainwright.objective.distillation import Distilled, DistilledStates, DistilledTokens
from trainwright.objective.losses import Mixed, Objective, RowWeighted, Supervised, TargetLoss
from trainwright.objective.own_objective import OwnObjective
from trainwright.objective.preference_losses import ByPair
from trainwright.objective.ranking_losses import ByQuery
from trainwright.run.compose.training_rows import draw_rows
from trainwright.tracking.events import Event, Noted


def _tell_nobody(_event: Event) -> None:
    return


def build_feed(
    contract: Contract,
    prepared: Prepared,
    device: torch.device,
    tell: Callable[[Event], object] = _tell_nobody,
    share: RankShare = WHOLE,
) -> Feed:
    """Feed of the training part, ordered by the contract's seed, or of this rank's share of it;
    `tell` receives notices of dead workers."""
    training, workers = contract.training, settled(contract.data.num_workers)
    store, draws = draw_rows(contract, prepared, torch.device("cpu") if workers else device)
    samples = settled(training.num_epochs) * store.rows
    loader = (
        Workers(
            store,
            workers,
            contract.data.loading,
            device=device,
            pin_memory=settled(contract.data.pin_memory),
            tell=lambda kind, message: tell(Noted(kind, message)),
        )
        if workers
        else store
    )
    return Feed(
        loader,
        settled(training.batch_size),
        settled(training.gradient_accumulation_steps),
        count_targets=_count(prepared),
        ramp=step_rows(training.ramps.batch, settled(training.effective_batch_size), samples),
        draws=draws,
        forming=_forming(store, compiled=training.compute.compile == "on"),
        share=share,
        targets_of=_targets_of_rows(store),
    )


def trial_batch(contract: Contract, feed: Feed) -> Batch:
    """Micro-batch for benchmarks: the first one, or, if widths differ, the widest, which every
    variant must fit in memory."""
    if isinstance(
        feed.forming, Trimmed | TrimmedRows | PreferenceBatches | QueryBatches | PairBatches
    ):
        return feed.of_rows(feed.forming.widest(settled(contract.training.batch_size)))
    return feed.next_step().micro_batches[0]


def count_widths(feed: Feed) -> int:
    """Widths of batches for which a compiled run would make kernels."""
    if not isinstance(feed.forming, TrimmedRows | PreferenceBatches):
        return 1
    lengths = feed.forming.lengths
    return len(np.unique(trimmed_shapes(lengths, compiled=True).widths(lengths)))


def with_workers(contract: Contract, workers: int) -> Contract:
    """The contract with a number of workers."""
    data = contract.data.model_copy(update={"num_workers": workers})
    return contract.model_copy(update={"data": data})


def build_objective(contract: Contract, loss: TargetLoss) -> Objective:
    """Training loss: of rows, of blended rows, of rows with weights or with a teacher, or of
    queries; that of the model's family if it has its own."""
    own = network_family(contract.model).own_objective(contract.model)
    if callable(own):
        return OwnObjective(own)
    if contract.task == "ranking":
        return ByQuery(loss)
    if contract.training.memory.head_loss == "fused":
        # Imported here: few decoders have a vocabulary that asks for it.
        from trainwright.objective.fused_head_loss import FusedHeadLoss

        section = contract.training.loss
        assert isinstance(section, CrossEntropy), "the rules refuse other losses"
        return FusedHeadLoss(section.label_smoothing, section.z_loss)
    if isinstance(teacher := contract.training.teacher, Teacher):
        if contract.data.has_soft_tokens:
            return DistilledTokens(loss, teacher.weight, teacher.temperature)
        return _taught(contract, teacher, loss)
    if contract.data.is_paired:
        return ByPair(loss)
    if contract.task == "retrieval":
        return GradientCache(loss)
    if contract.data.weight_column:
        return RowWeighted(loss)
    return Mixed(loss) if contract.data.is_blended else Supervised(loss)


def _taught(contract: Contract, teacher: Teacher, loss: TargetLoss) -> Objective:
    """Loss of rows with a teacher."""
    is_class = contract.task == "classification"
    taught = Distilled(loss, teacher.weight, teacher.temperature, classes=is_class)
    if not isinstance(states := teacher.hidden, TeacherStates):
        return taught
    head_of = network_family(contract.model).head
    return DistilledStates(taught, head_of, states.weight, states.distance)


def with_projection(contract: Contract, model: nn.Module, prepared: Prepared) -> nn.Module:
    """A network, which learns its states from the teacher's where the data has some."""
    if width := prepared.train.teacher_states.shape[1]:
        head = network_family(contract.model).head(model)
        assert head is not None, "a model without a state was refused"
        add_projection(model, head, width)
    return model


def feed_gauges(contract: Contract) -> tuple[Gauge, ...]:
    """Gauges of the rows themselves."""
    return (PaddingGauge(),) if contract.data.is_packed or contract.data.is_padded else ()


class StepRows(NamedTuple):
    """Rows of a step for messages: what their numbers mean, and the numbers."""

    named: str
    between: RowsBetween


def rows_of_data(feed: Feed, prepared: Prepared) -> StepRows:
    """Rows by their positions in the data, as in the findings of the quality checks; for a text,
    windows or documents of an epoch."""
    part = prepared.train
    if not part.inputs.are_samples:
        return StepRows("windows of the text", feed.rows_between)
    if prepared.target.task == "ranking":
        return StepRows("queries of the training rows (in ascending order)", feed.rows_between)

    def between(start: int, stop: int) -> Positions:
        return part.rows[feed.rows_between(start, stop)]

    return StepRows("rows of the data (counted from 0)", between)


def class_rows(prepared: Prepared) -> Floats:
    """Training rows of each class, or the sums of their weights, [C]; of labels [2, L] those
    without and with each, which are alike for a label that all rows have or none; empty without
    classes."""
    train, target = prepared.train, prepared.target
    weights = train.weights if len(train.weights) else None
    if target.task == "multilabel":
        counted = np.ones(len(train)) if weights is None else weights
        having = counted @ train.target
        both = np.stack([counted.sum() - having, having])
        return np.where(both.min(axis=0) > 0, both, counted.sum() / 2)
    if not target.classes:
        return np.zeros(0)
    counts = np.bincount(train.target, weights, minlength=prepared.target.outputs)
    return counts.astype(np.float64)


def _forming(store: RowDataset, *, compiled: bool) -> Collate:
    """Collate function of a micro-batch, also of `compiled` kernels."""
    match store:
        case PaddedDataset():
            return Trimmed(store.lengths, store.shapes)
        case CaptionDataset():
            return Trimmed(store.lengths, store.shapes, beside=("pixels",))
        case PackedDataset():
            return PackedBatches(store.packing)
        case TokenizedRows():
            shapes = trimmed_shapes(store.lengths, compiled=compiled)
            return TrimmedRows(store.lengths, shapes)
        case PreferenceDataset():
            shapes = trimmed_shapes(store.lengths, compiled=compiled)
            return PreferenceBatches(store.lengths, shapes)
        case QueryDataset():
            return QueryBatches(store)
        case PairDataset():
            return PairBatches(store.lengths)
        case TextPairDataset():
            return TextPairBatches(store)
        case _:
            return AsStored()


def target_unit(prepared: Prepared) -> str:
    """Unit of the targets of a step."""
    return prepared.target.unit


def _count(prepared: Prepared) -> Callable[[Batch], int]:
    """Counts the targets of a micro-batch."""
    if prepared.target.task == "ranking":
        return query_targets
    return element_targets if prepared.target.unit == "tokens" else row_targets


def _targets_of_rows(store: RowDataset) -> Callable[[int, Positions], int]:
    """Counts the targets of any rows of an epoch, by their numbers."""
    counting = WindowDataset | PackedDataset | PaddedDataset | CaptionDataset | QueryDataset
    if isinstance(store, counting):
        return store.count_targets
    return one_a_row
