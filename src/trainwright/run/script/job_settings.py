"""Settings of a script's job, stored in its checkpoints and compared when it resumes. Needs
torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss
from torch.optim import Optimizer
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from trainwright.core.files import Json
from trainwright.data.loading.feed import Feed
from trainwright.engine.job import Job
from trainwright.engine.loader_feed import LoaderFeed
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.classification_losses import (
    BinaryCrossEntropyLoss,
    CrossEntropyLoss,
    FocalLoss,
    OrdinalLoss,
)
from trainwright.objective.gradient_penalty import GradientPenalty
from trainwright.objective.losses import Mixed, Padded, Supervised
from trainwright.objective.regression_losses import (
    AbsoluteErrorLoss,
    HuberLoss,
    PoissonLoss,
    QuantileLoss,
    QuantilesLoss,
    SquaredErrorLoss,
)
from trainwright.optim.ema import EMA
from trainwright.optim.schedule import LearningRate
from trainwright.optim.swa import SWA
from trainwright.run.script.check_tensors import find_within

PRECISION, LOSSES, MEANS = "step.precision", "step.losses", "step.means"
_MOST_NUMBERS = 20
_WITHOUT_EFFECT = ("device", "training", "scale", "is_checked")
_OF_TARGETS = (
    AbsoluteErrorLoss,
    HuberLoss,
    PoissonLoss,
    QuantileLoss,
    QuantilesLoss,
    SquaredErrorLoss,
)
_OF_CLASSES = (BinaryCrossEntropyLoss, CrossEntropyLoss, FocalLoss, OrdinalLoss)
_OBJECTIVES = (GradientPenalty, Mixed, Padded, Supervised)
_LOSSES = (*_OBJECTIVES, *_OF_TARGETS, *_OF_CLASSES, _Loss)
DATA = "feed.data"
_MOST_MODULES = 2000
_SAMPLED_ROWS = 64
_SAMPLED_STEPS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000)
BATCHES = "feed.batches"
_CLIPPING, _FACTORS = "step.clipping", "learning_rate.factor_at_step_"
_KEPT_SINCE = (PRECISION, LOSSES, MEANS)

_KEPT_OF_THE_LAST = (_CLIPPING, _FACTORS, BATCHES)
"""Of several steps, schedules or loaders, earlier versions kept the values of the last."""

_SCALARS = (bool, int, float, str)


def describe_step(job: Job) -> Iterator[tuple[str, Json]]:
    """Number format and losses of each `OptimizerStep`, and the means that the step moves. Of own
    functions only the losses of tw and torch that they hold are seen."""
    steps = find_within(job.step, OptimizerStep)
    yield PRECISION, [_described(step.precision) for step in steps]
    yield LOSSES, [_losses_of(step.objective) for step in steps]
    emas = [
        f"EMA(decay={mean.decay})" for mean in find_within([job.step, job.outcome_observers], EMA)
    ]
    yield (
        MEANS,
        [
            *emas,
            *(
                f"SWA(steps={_plain_of_step(m.steps)})"
                for m in find_within([job.step, job.outcome_observers], SWA)
            ),
        ],
    )


def _losses_of(held: object) -> list[str]:
    return [_described(one) for one in find_within(held, _LOSSES)]


def _described(one: object) -> str:
    values = [
        f"{name.lstrip('_')}={_plain_of_step(value)}"
        for name, value in getattr(one, "__dict__", {}).items()
        if name.lstrip("_") not in _WITHOUT_EFFECT and _is_shown(one, name)
    ]
    buffers = one.named_buffers() if isinstance(one, _Loss) else ()
    values += [f"{name}={_plain_of_step(buffer)}" for name, buffer in buffers]
    return f"{type(one).__name__}({', '.join(values)})"


def _is_shown(one: object, name: str) -> bool:
    """Every attribute of a class of this package, the public ones of others."""
    return type(one).__module__.startswith("trainwright.") or not name.startswith("_")


def _plain_of_step(value: object) -> str:
    if isinstance(value, bool | int | float | str | torch.dtype | None):
        return str(value)
    if isinstance(value, Tensor):
        return _plain_of_step(
            value.tolist() if value.numel() <= _MOST_NUMBERS else _digest_of_step(value)
        )
    if isinstance(value, tuple | list | frozenset):
        parts = [_plain_of_step(one) for one in value]
        if len(parts) > _MOST_NUMBERS:
            return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
        return f"[{', '.join(parts)}]"
    if isinstance(value, _LOSSES):
        return _described(value)
    return " ".join([type(value).__name__, *_losses_of(value)])


def _digest_of_step(tensor: Tensor) -> str:
    return hashlib.sha256(repr(tensor.tolist()).encode()).hexdigest()[:16]


def describe_job(job: Job) -> dict[str, Json]:
    """Settings of model, optimizer, learning rate, step and feed by name.

    They include everything that determines an update, except code: custom losses and steps are not
    compared, nor are the numbers in them.
    """
    return {
        **_describe_model(job.model),
        **dict(_describe_frozen(job.model)),
        **dict(_describe_optimizers(optimizers_of(job))),
        **_together(_describe_schedules(find_within(job.knobs, LearningRate))),
        **_together(_describe_steps(find_within(job.step, OptimizerStep))),
        **dict(describe_step(job)),
        **_together(_describe_feed(job.feed)),
    }


def _together(settings: Iterator[tuple[str, Json]]) -> dict[str, Json]:
    """Settings by name; one that several parts of the job have is the list of their values."""
    values: dict[str, list[Json]] = {}
    for name, value in settings:
        values.setdefault(name, []).append(value)
    return {name: of[0] if len(of) == 1 else of for name, of in values.items()}


def optimizers_of(job: Job) -> dict[str, Optimizer]:
    """Optimizers of the step: `optimizer`, `optimizer_2` and so on."""
    found = find_within(job.step, Optimizer)
    return {f"optimizer_{i + 1}" if i else "optimizer": one for i, one in enumerate(found)}


def compare_settings(before: Json, now: Mapping[str, Json]) -> list[tuple[str, Json, Json]]:
    """Name, old and new value of each setting that differs. What an earlier version did not keep
    counts as unknown, and as the same."""
    if not isinstance(before, Mapping):
        return []
    added = {name: now[name] for name in _KEPT_SINCE if name in now}
    if BATCHES not in before:
        added |= {name: one for name, one in now.items() if name.startswith(BATCHES)}
    before = {**added, **before}
    for name, value in now.items():
        if name.startswith(_KEPT_OF_THE_LAST) and isinstance(value, list):
            last = before.get(name, [])
            before[name] = last if isinstance(last, list) else [*value[:-1], last]
    names = [*now, *(name for name in before if name not in now)]
    return [
        (name, before.get(name, "absent"), now.get(name, "absent"))
        for name in names
        if before.get(name, "absent") != now.get(name, "absent")
    ]


def _describe_model(model: nn.Module) -> dict[str, Json]:
    lines = {f"model.{name}" if name else "model": _module(m) for name, m in model.named_modules()}
    if len(lines) <= _MOST_MODULES:
        return dict(lines)
    return {"model": hashlib.sha256(repr(sorted(lines.items())).encode()).hexdigest()}


def _describe_frozen(model: nn.Module) -> Iterator[tuple[str, Json]]:
    if names := [name for name, one in model.named_parameters() if not one.requires_grad]:
        many = len(names) > _MOST_MODULES
        yield "model.frozen", _digest([repr(names).encode()]) if many else names


def _module(module: nn.Module) -> str:
    """`Dropout(p=0.1, inplace=False)`; for custom classes their public numbers and texts as
    well."""
    kind = type(module)
    own = () if kind.__module__.startswith("torch.") else sorted(_scalars_of(module))
    shapes = [f"{name}{list(p.shape)}" for name, p in module.named_parameters(recurse=False)]
    return f"{kind.__name__}({', '.join([module.extra_repr(), *own, *shapes]).strip(', ')})"


def _scalars_of(one: object) -> Iterator[str]:
    for name, value in vars(one).items():
        if isinstance(value, _SCALARS) and not name.startswith("_") and name != "training":
            yield f"{name}={value}"


def _describe_optimizers(optimizers: Mapping[str, Optimizer]) -> Iterator[tuple[str, Json]]:
    for name, optimizer in optimizers.items():
        yield name, type(optimizer).__name__
        for index, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if key not in ("params", "param_names"):
                    yield f"{name}.{index}.{key}", _plain(value)


def _describe_schedules(knobs: Sequence[LearningRate]) -> Iterator[tuple[str, Json]]:
    for knob in knobs:
        for step in _SAMPLED_STEPS:
            yield f"{_FACTORS}{step}", knob.factor(step)


def _describe_steps(steps: Sequence[OptimizerStep]) -> Iterator[tuple[str, Json]]:
    for step in steps:
        clipping = step.clipping
        numbers = (f"{name.strip('_')}={value}" for name, value in vars(clipping).items())
        yield _CLIPPING, f"{type(clipping).__name__}({', '.join(numbers)})"


def _describe_feed(feed: object) -> Iterator[tuple[str, Json]]:
    yield "feed", type(feed).__name__
    if not isinstance(feed, Feed):
        for text in _scalars_of(feed):
            name, _, value = text.partition("=")
            yield f"feed.{name}", value
        for loader in find_within(feed, LoaderFeed):
            yield from _describe_batches(loader.batches)
        return
    yield "feed.batch_size", feed.batch_size
    yield "feed.rows_of_a_step", [int(rows) for rows in feed.step_rows.values]
    yield "feed.rows", feed.rows
    last = min(feed.rows, _SAMPLED_ROWS)
    orders = [np.asarray(feed.order.at(epoch, 0, last)).tolist() for epoch in (0, 1)]
    yield "feed.order", _digest([repr(orders).encode()])
    rows = np.unique(np.linspace(0, feed.store.rows - 1, _SAMPLED_ROWS).astype(np.int64))
    yield DATA, _digest(_bytes_of(one) for one in feed.store.take(0, rows))


def _describe_batches(batches: object) -> Iterator[tuple[str, Json]]:
    yield BATCHES, type(batches).__name__
    if not isinstance(batches, DataLoader):
        return
    own = batches.batch_sampler if batches.batch_size is None else None
    made = own if isinstance(own, BatchSampler) else batches
    yield f"{BATCHES}.batch_size", made.batch_size
    yield f"{BATCHES}.drop_last", made.drop_last
    yield f"{BATCHES}.sampler", type(batches.sampler if own is None else own).__name__
    rows: object = batches.dataset
    if isinstance(rows, Sized) and not isinstance(batches.dataset, IterableDataset):
        yield f"{BATCHES}.rows", len(rows)


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _digest(parts: Iterator[bytes] | Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def _plain(value: object) -> Json:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, _SCALARS) else type(value).__name__


@final
class JobSettings:
    """Settings of a job, and the differences from a checkpoint's once one was compared."""

    def __init__(self, values: Mapping[str, Json]) -> None:
        self.values = dict(values)
        self.changed: Sequence[tuple[str, Json, Json]] = ()

    def compare(self, before: Json) -> Sequence[tuple[str, Json, Json]]:
        """Differences from the settings of a checkpoint."""
        self.changed = compare_settings(before, self.values)
        return self.changed
