"""Builds the feed of a network from prepared data. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, assert_never

import numpy as np
import torch

from trainwright.contract.document import Contract
from trainwright.contract.sections.images import Augment, ImageData
from trainwright.contract.sections.model import Gpt
from trainwright.contract.sections.sampling import Mixture
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.tokens import TokenData
from trainwright.data.base.permutation import Positions
from trainwright.data.base.table import ImageInputs, Integers, Part, TableInputs, TokenInputs
from trainwright.data.columns.target import Classes, Numbers, Target
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.dataset import (
    Batch,
    RowDataset,
    TensorRowDataset,
    TextDataset,
    WindowDataset,
)
from trainwright.data.loading.feed import AsStored, Collate, Feed, rows_of
from trainwright.data.loading.memmap_dataset import MemmapDataset
from trainwright.data.loading.packed_dataset import PackedBatches, PackedDataset, packed_targets
from trainwright.data.loading.padded_dataset import PaddedDataset, Trimmed, padded_targets
from trainwright.data.loading.pixel_rows import build_pixels
from trainwright.data.loading.worker_pool import Workers
from trainwright.data.sampling.build_sampler import build_sampler, mixture_sampler
from trainwright.data.sampling.length_buckets import BucketSampler
from trainwright.data.sampling.samplers import Sampler
from trainwright.data.sampling.step_ramps import step_rows
from trainwright.data.text.padding import padded_shapes
from trainwright.data.types import Prepared
from trainwright.engine.guards.step_guard import RowsBetween
from trainwright.engine.signals.telemetry import Gauge
from trainwright.engine.signals.throughput import PaddingGauge
from trainwright.objective.losses import Mixed, Objective, Packed, Padded, Supervised, TargetLoss
from trainwright.tracking.events import Event, Noted


def _tell_nobody(_event: Event) -> None:
    return


def build_feed(
    contract: Contract,
    prepared: Prepared,
    device: torch.device,
    tell: Callable[[Event], object] = _tell_nobody,
) -> Feed:
    """Feed of the training part, ordered by the contract's seed; `tell` receives notices of dead
    workers."""
    training, workers = contract.training, settled(contract.data.num_workers)
    store, draws = _drawn(contract, prepared, torch.device("cpu") if workers else device)
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
        count_targets=_count(contract, prepared),
        ramp=step_rows(training.ramps.batch, settled(training.effective_batch_size), samples),
        draws=draws,
        forming=_forming(store),
    )


def trial_batch(contract: Contract, feed: Feed) -> Batch:
    """Micro-batch for benchmarks: the first one, or, if widths differ, the widest, which every
    variant must fit in memory."""
    if isinstance(feed.forming, Trimmed):
        return feed.of_rows(feed.forming.widest(settled(contract.training.batch_size)))
    return feed.next_step().micro_batches[0]


def with_workers(contract: Contract, workers: int) -> Contract:
    """The contract with a number of workers."""
    data = contract.data.model_copy(update={"num_workers": workers})
    return contract.model_copy(update={"data": data})


def blends(contract: Contract) -> bool:
    """Are training images blended (mixup, CutMix), so that a row has two labels?"""
    augment = contract.data.augment if isinstance(contract.data, ImageData) else Augment()
    return bool(augment.mixup or augment.cutmix)


def packs(contract: Contract) -> bool:
    """Are documents packed into windows?"""
    return isinstance(contract.data, TokenData) and contract.data.windows == "packed"


def pads(contract: Contract) -> bool:
    """Is each document a padded row of its own?"""
    return isinstance(contract.data, TokenData) and contract.data.windows == "padded"


def build_objective(contract: Contract, loss: TargetLoss) -> Objective:
    """Training loss: of rows, blended rows, or documents."""
    if packs(contract):
        return Packed(loss)
    if pads(contract):
        return Padded(loss)
    return Mixed(loss) if blends(contract) else Supervised(loss)


def feed_gauges(contract: Contract) -> tuple[Gauge, ...]:
    """Gauges of the rows themselves."""
    return (PaddingGauge(),) if packs(contract) or pads(contract) else ()


class StepRows(NamedTuple):
    """Rows of a step for messages: what their numbers mean, and the numbers."""

    named: str
    between: RowsBetween


def rows_of_data(feed: Feed, prepared: Prepared) -> StepRows:
    """Rows by their positions in the data, as in the findings of the quality checks; for a text,
    windows or documents of an epoch."""
    part = prepared.train
    if isinstance(part.inputs, TokenInputs):
        return StepRows("windows of the text", feed.rows_between)

    def between(start: int, stop: int) -> Positions:
        return part.rows[feed.rows_between(start, stop)]

    return StepRows("rows of the data (counted from 0)", between)


def class_rows(prepared: Prepared) -> Integers:
    """Training rows of each class; empty without classes."""
    if not isinstance(prepared.target, Classes):
        return np.zeros(0, dtype=np.int64)
    return np.bincount(prepared.train.target, minlength=prepared.target.outputs)


def part_store(part: Part, prepared: Prepared, device: torch.device) -> RowDataset:
    """Part of a table as a dataset: the inputs, and the target as the loss expects it. Rows in
    files stay there."""
    table = part.inputs
    assert isinstance(table, TableInputs), "images are decoded, and a text is fed as windows"
    table = table.dense()
    finish = partial(_finished, prepared.target)
    if table.in_files:
        return MemmapDataset((table.numeric, table.categories, part.target), finish, device)
    target = finish(torch.tensor(part.target))
    tensors = (torch.tensor(table.numeric), torch.tensor(table.categories), target)
    return TensorRowDataset([tensor.to(device) for tensor in tensors])


def _finished(target: Target, values: torch.Tensor) -> torch.Tensor:
    """Target codes unchanged, numbers standardised."""
    if isinstance(target, Numbers):
        return ((values - target.mean) / target.deviation).float()
    return values


def _drawn(
    contract: Contract, prepared: Prepared, device: torch.device
) -> tuple[RowDataset, Sampler]:
    """Training rows, and the sample order of a run."""
    inputs = prepared.train.inputs
    match inputs:
        case TableInputs():
            store = part_store(prepared.train, prepared, device)
        case ImageInputs():
            assert isinstance(contract.data, ImageData)
            labels = torch.tensor(prepared.train.target).to(device)
            pixels = build_pixels(inputs, device)
            store = ImageDataset(pixels, labels, contract.data.augment, contract.seed)
        case TokenInputs():
            assert isinstance(contract.model, Gpt), "the rules refuse other models"
            assert isinstance(contract.data, TokenData)
            text = _text(contract.data, contract.model, inputs, (device, contract.seed))
            return text, _text_draws(contract, prepared, inputs.sources.names, text)
        case _:
            assert_never(inputs)
    return store, _draws(contract, prepared, store)


def _text(
    section: TokenData, model: Gpt, inputs: TokenInputs, run: tuple[torch.device, int]
) -> TextDataset:
    """Windows or documents of a text, for a device and a seed."""
    device, seed = run
    match section.windows:
        case "across":
            return WindowDataset(inputs, model.context, device=device, seed=seed)
        case "packed":
            return PackedDataset(inputs, model.context, section.long_documents, device)
        case "padded":
            shapes = padded_shapes(section, model)
            return PaddedDataset(inputs, section.long_documents, shapes, device)
        case _:
            assert_never(section.windows)


def _text_draws(
    contract: Contract, prepared: Prepared, names: Sequence[str], store: TextDataset
) -> Sampler:
    """Row order of a text whose sources have `names`."""
    if isinstance(contract.data.sampling, Mixture):
        return mixture_sampler(contract.data.sampling, names, store.sources, contract.seed)
    if isinstance(store, PaddedDataset):
        assert isinstance(contract.data, TokenData)
        buckets = settled(contract.data.padding.buckets)
        if buckets > 1:
            group = settled(contract.training.effective_batch_size)
            return BucketSampler(store.lengths, buckets, group, contract.seed)
    return _draws(contract, prepared, store)


def _draws(contract: Contract, prepared: Prepared, store: RowDataset) -> Sampler:
    epochs = settled(contract.training.num_epochs)
    return build_sampler(contract.data, prepared, epochs, store.rows, contract.seed)


def _forming(store: RowDataset) -> Collate:
    """Collate function of a micro-batch."""
    match store:
        case PaddedDataset():
            return Trimmed(store.lengths, store.shapes)
        case PackedDataset():
            return PackedBatches(store.packing)
        case _:
            return AsStored()


def target_unit(prepared: Prepared) -> str:
    """Unit of the targets of a step."""
    return "tokens" if isinstance(prepared.features, TextVocabulary) else "rows"


def _count(contract: Contract, prepared: Prepared) -> Callable[[Batch], int]:
    """Counts the targets of a micro-batch."""
    if packs(contract):
        return packed_targets
    if pads(contract):
        return padded_targets
    return _tokens_of if isinstance(prepared.features, TextVocabulary) else rows_of


def _tokens_of(batch: Batch) -> int:
    return batch[1].numel()
