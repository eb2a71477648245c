"""The training rows of a network as a dataset, for each kind of inputs. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import torch

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.captions import CaptionData
from trainwright.contract.sections.data.data_traits import Mixture, Uniform
from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.pairs import PairData
from trainwright.contract.sections.data.tokens import TokenFeeding
from trainwright.contract.sections.section import settled
from trainwright.data.base.inputs import ImageInputs, Part, TableInputs
from trainwright.data.base.pair_inputs import CaptionInputs, PairInputs, TextPairInputs
from trainwright.data.base.token_inputs import PreferenceInputs, TextInputs, TokenInputs
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.dataset import (
    MemmapDataset,
    RowDataset,
    TensorRowDataset,
    TextDataset,
    WindowDataset,
)
from trainwright.data.loading.document_dataset import PackedDataset, PaddedDataset
from trainwright.data.loading.pair_dataset import CaptionDataset, PairDataset, TextPairDataset
from trainwright.data.loading.pixel_rows import build_pixels
from trainwright.data.loading.preference_dataset import PreferenceDataset
from trainwright.data.loading.query_dataset import QueryDataset
from trainwright.data.loading.tokenized_rows import TokenizedRows
from trainwright.data.sampling.build_sampler import build_sampler, mixture_sampler
from trainwright.data.sampling.length_buckets import BucketSampler
from trainwright.data.sampling.samplers import Sampler
from trainwright.data.text.padding import padded_shapes
from trainwright.data.types import Prepared
from trainwright.objective.distillation import SOFT_TARGET, TEACHER_STATE
from trainwright.objective.output_link import OutputLink

Drawn: TypeAlias = tuple[RowDataset, Sampler]


def draw_rows(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    """Training rows, and the sample order of a run."""
    return FEEDS[prepared.train.inputs.kind](contract, prepared, device)


def _table(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    if prepared.target.task == "ranking":
        store: RowDataset = query_store(prepared.train, prepared, device)
    else:
        store = part_store(prepared.train, prepared, device)
    return store, _draws(contract, prepared, store)


def _images(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    data, inputs = ImageData.of(contract.data), ImageInputs.of_kind(prepared.train.inputs)
    labels = torch.tensor(prepared.train.target).to(device)
    pixels = build_pixels(inputs, device)
    beside = _beside(prepared.train, prepared)
    more = {name: torch.from_numpy(one).to(device) for name, one in beside.items()}
    store = ImageDataset(pixels, labels, data.augment, contract.seed, more)
    return store, _draws(contract, prepared, store)


def _tokens(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    data, inputs = TokenFeeding.of(contract.data), TokenInputs.of_kind(prepared.train.inputs)
    text = _text(data, contract.model.context_length, inputs, (device, contract.seed))
    return text, _text_draws(contract, prepared, inputs.sources.names, text)


def _texts(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    part = prepared.train
    target = OutputLink(prepared.target).learned(torch.tensor(part.target))
    more = {name: torch.from_numpy(one) for name, one in _beside(part, prepared).items()}
    store = TokenizedRows(TextInputs.of_kind(part.inputs), target, device, more)
    buckets, data = contract.model.row_buckets, contract.data
    if buckets > 1 and data.shuffle and isinstance(data.sampling, Uniform):
        group = settled(contract.training.effective_batch_size)
        return store, BucketSampler(store.lengths, buckets, group, contract.seed)
    return store, _draws(contract, prepared, store)


def _preferences(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    store = PreferenceDataset(PreferenceInputs.of_kind(prepared.train.inputs), device)
    return store, _draws(contract, prepared, store)


def _pairs(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    data, part = PairData.of(contract.data), prepared.train
    inputs = PairInputs.of_kind(part.inputs)
    codes = torch.tensor(part.target).to(device)
    images = ImageDataset(build_pixels(inputs.images, device), codes, data.augment, contract.seed)
    store = PairDataset(images, inputs.texts, device)
    return store, _draws(contract, prepared, store)


def _text_pairs(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    part = prepared.train
    store = TextPairDataset(TextPairInputs.of_kind(part.inputs), part.target, device)
    return store, _draws(contract, prepared, store)


def _captions(contract: Contract, prepared: Prepared, device: torch.device) -> Drawn:
    data, part = CaptionData.of(contract.data), prepared.train
    inputs = CaptionInputs.of_kind(part.inputs)
    labels = torch.zeros(len(part), dtype=torch.int64, device=device)
    images = ImageDataset(build_pixels(inputs.images, device), labels, data.augment, contract.seed)
    store = CaptionDataset(images, inputs.texts, contract.model.context_length, device)
    return store, _draws(contract, prepared, store)


FEEDS: Mapping[str, Callable[[Contract, Prepared, torch.device], Drawn]] = MappingProxyType(
    {
        "table": _table,
        "texts": _texts,
        "images": _images,
        "tokens": _tokens,
        "preferences": _preferences,
        "pairs": _pairs,
        "text_pairs": _text_pairs,
        "captions": _captions,
    }
)
"""By the kind of the inputs."""


def mean_weights(part: Part) -> npt.NDArray[np.float32]:
    """Weights of training rows [N] with the mean 1, in memory."""
    return np.asarray(part.weights / part.weights.mean(), np.float32)


def _beside(part: Part, prepared: Prepared) -> dict[str, npt.NDArray[np.float32]]:
    """What the loss knows of training rows beside the target: their weights [N], what a teacher
    predicts of them, as the loss compares it: probabilities [N, C], or standardised values [N], and
    its hidden states [N, D]."""
    found: dict[str, npt.NDArray[np.float32]] = {}
    if len(part.weights):
        found["weight"] = mean_weights(part)
    if len(part.soft_targets):
        scores = part.soft_targets if prepared.target.classes else part.soft_targets[:, 0]
        found[SOFT_TARGET] = (
            OutputLink(prepared.target).learned(torch.tensor(scores)).float().numpy()
        )
    if len(part.teacher_states):
        found[TEACHER_STATE] = part.teacher_states
    return found


def part_store(part: Part, prepared: Prepared, device: torch.device) -> RowDataset:
    """Part of a table as a dataset: inputs, the target as the loss expects it, and what it knows
    beside it. Rows in files stay there."""
    part = part.learned()
    table = TableInputs.of_kind(part.inputs).dense()
    finish = OutputLink(prepared.target).learned
    beside = _beside(part, prepared)
    if table.in_files:
        arrays: dict[str, npt.NDArray[Any]] = {
            "numeric": table.numeric,
            "categories": table.categories,
            "target": part.target,
            **beside,
        }
        return MemmapDataset(arrays, finish, device)
    tensors = {
        "numeric": torch.tensor(table.numeric),
        "categories": torch.tensor(table.categories),
        "target": finish(torch.tensor(part.target)),
        **{name: torch.from_numpy(one) for name, one in beside.items()},
    }
    return TensorRowDataset({name: tensor.to(device) for name, tensor in tensors.items()})


def query_store(part: Part, prepared: Prepared, device: torch.device) -> QueryDataset:
    """Part of a ranking as a dataset of queries."""
    queries = prepared.target.queries(part.frame)
    assert queries is not None, "a ranking has queries"
    return QueryDataset(part, queries, device)


def _text(
    section: TokenFeeding, context: int, inputs: TokenInputs, run: tuple[torch.device, int]
) -> TextDataset:
    """Windows or documents of a text, for a device and a seed."""
    device, seed = run
    match section.windows:
        case "across":
            return WindowDataset(inputs, context, device=device, seed=seed)
        case "packed":
            return PackedDataset(inputs, context, section.long_documents, device)
        case "padded":
            shapes = padded_shapes(section, context)
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
        buckets = settled(TokenFeeding.of(contract.data).padding.buckets)
        if buckets > 1:
            group = settled(contract.training.effective_batch_size)
            return BucketSampler(store.lengths, buckets, group, contract.seed)
    return _draws(contract, prepared, store)


def _draws(contract: Contract, prepared: Prepared, store: RowDataset) -> Sampler:
    epochs = settled(contract.training.num_epochs)
    return build_sampler(contract.data, prepared, epochs, store.rows, contract.seed)
