"""Feed from a torch `DataLoader`, or any iterable of batches."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import DataChanged, Mistake, Problem
from trainwright.data.loading.batch import Batch, as_batch
from trainwright.data.loading.feed import StepBatches

Collated = Any
"""Element of the iterable: a tensor, or a tuple, list or mapping of tensors, which is named here. A
single tensor stays one."""


@final
class LoaderFeed:
    """Feed of the batches of an iterable, epoch after epoch.

    All randomness of a batch (the order of a `DataLoader`, the seeds of its workers, augmentation)
    follows from `seed` and its position, so it is the same in every process. Resuming reads the
    batches of the interrupted epoch again without training on them, which takes as long as loading
    them, and compares the last one with the batch that was trained on; if they differ, as for a
    stream that cannot be repeated, it refuses to resume. The feed is stateful: put it into
    `Job.state` as `"feed"`.

    Args:
        batches: iterated once per epoch; a generator, which can be iterated only once, serves one
            epoch.
        accumulate: batches per step; the last step of an epoch may have fewer.
        seed: seed of the order of a `DataLoader`.
        device: device of the tensors; empty leaves them in place.
        count_targets: number of targets in a batch, if not its number of rows (without those that
            are masked); the objective must count the same.
        target: name of the target in batches that are mappings; by default the first of `target`,
            `targets`, `labels`, `label` and `y`.
        mask: name of the tensor that says which targets count, bool or 0 and 1 in the shape of the
            target; empty if all do.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        batches: Iterable[Collated],
        accumulate: int = 1,
        *,
        seed: int = 0,
        device: str | torch.device = "",
        count_targets: Callable[[Collated], int] | None = None,
        target: str = "",
        mask: str = "",
    ) -> None:
        if accumulate < 1:
            raise Mistake(Problem("a feed needs at least one batch a step", found=f"{accumulate}"))
        self._batches = batches
        self.accumulate = accumulate
        self.seed = seed
        self._device = device
        self._count = count_targets or _count_targets
        self._target, self._mask = target, mask
        self.samples = 0
        self._pass = 0
        self._taken = 0
        self._rows = 0
        self._digest = 0
        self._takes_others = False
        self._has_workers = False
        self._iterator: Iterator[Collated] | None = None

    @property
    def batches(self) -> Iterable[Collated]:
        """What is iterated."""
        return self._batches

    def take_other_batches(self, allowed: bool) -> None:
        """Whether a resume goes on where the iterable gives other batches than before: behind as
        many rows of the pass."""
        self._takes_others = allowed

    def next_step(self) -> StepBatches:
        """Batches of the next step; a step never spans two epochs.

        Raises:
            Mistake: the iterable is empty, or yields no tensors.
        """
        started = time.perf_counter()
        batches, rows = self._take_step()
        if not batches:
            self._pass, self._taken, self._rows, self._iterator = self._pass + 1, 0, 0, None
            batches, rows = self._take_step()
        if not batches:
            raise _no_batches(self._pass)
        self._digest = digest_of(batches[-1])
        self.samples += rows
        batches = list(map(self._named, batches))
        waited = time.perf_counter() - started
        targets = sum(map(self._count, batches))
        return StepBatches(batches, targets, rows, self.samples, self._pass, waited)

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed, at the position of the restored state.

        Raises:
            Mistake: no state for this position. DataChanged: the iterable yields different batches
                than before.
        """
        if samples == 0:
            self._pass = self._taken = self._rows = self.samples = 0
        if samples != self.samples:
            raise Mistake(
                Problem(
                    "the position of an iterable is more than a number of samples",
                    path="Job.state",
                    fix='keep the feed in the job\'s state: "feed": feed',
                )
            )
        taken, rows = self._taken, self._rows
        self._begin_again()
        last: Collated = None
        while self._taken < taken and (last := self._take()) is not None:
            pass
        if not taken or (last is not None and digest_of(last) == self._digest):
            return
        if not self._takes_others:
            raise _other_batches(taken, self._pass)
        if rows:
            self._begin_again()
            while self._rows < rows and (batch := self._take()) is not None:
                last = batch
        self._digest = digest_of(last) if last is not None else 0

    def _named(self, batch: Collated) -> Batch | Tensor:
        """The batch with names, on the device."""
        if not isinstance(batch, Tensor):
            batch = as_batch(batch, target=self._target, mask=self._mask)
        named: Batch | Tensor = _to(batch, self._device) if self._device else batch
        return named

    def _begin_again(self) -> None:
        self._taken, self._rows, self._iterator = 0, 0, None

    def snapshot(self) -> Snapshot:
        """Epoch, its batches and rows, samples, and a checksum of the last batch."""
        values = [self._pass, self._taken, self.samples, self._digest]
        return Snapshot(values={"position": values, "rows": self._rows})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the position, to which `seek` then moves."""
        values = snapshot.values
        self._pass, self._taken, self.samples, self._digest = values["position"]
        self._rows = values.get("rows", self.samples if self._pass == 0 else 0)
        self._iterator = None

    def _take_step(self) -> tuple[list[Collated], int]:
        """Batches of the next step, and their rows."""
        batches: list[Collated] = []
        before = self._rows
        while len(batches) < self.accumulate and (batch := self._take()) is not None:
            batches.append(batch)
        return batches, self._rows - before

    def _take(self) -> Collated:
        """Next batch of the epoch; None at its end. Its randomness follows from its position, and
        the RNG state of the training is preserved."""
        with _seeded((self.seed, self._pass, self._taken)):
            if self._iterator is None:
                self._iterator = self._begin_pass()
            batch = next(self._iterator, None)
        if batch is not None:
            self._taken += 1
            self._rows += count_rows(batch)
        return batch

    def _begin_pass(self) -> Iterator[Collated]:
        if isinstance(self._batches, DataLoader):
            self._start_workers(self._batches)
            if isinstance(self._batches.sampler, DistributedSampler):
                self._batches.sampler.set_epoch(self._pass)
            if isinstance(self._batches.generator, torch.Generator):
                self._batches.generator.manual_seed(_seed_of((self.seed, self._pass)))
        return iter(self._batches)

    def _start_workers(self, loader: DataLoader[Collated]) -> None:
        """Start workers that live on where an unbroken run has them from its first pass: a pass
        that starts them draws one random number more, and its order would be another."""
        if loader.persistent_workers and self._pass and not self._has_workers:
            with _seeded((self.seed, 0, 0)):
                iter(loader)
        self._has_workers = True


def _seed_of(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1)[0])


@contextmanager
def _seeded(key: tuple[int, ...]) -> Iterator[None]:
    """Seed the generators of Python, NumPy and torch (CPU) with `key` inside the block."""
    before = random.getstate(), np.random.get_state(legacy=True), torch.get_rng_state()
    seed = _seed_of(key)
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


def tensors_of(batch: Collated) -> list[Tensor]:
    """Tensors of a batch, in order."""
    if isinstance(batch, Tensor):
        return [batch]
    if isinstance(batch, Mapping | Batch):
        batch = list(batch.values())
    if isinstance(batch, tuple | list):
        return [tensor for one in batch for tensor in tensors_of(one)]
    return []


def count_rows(batch: Collated) -> int:
    """Length of the first tensor of a batch.

    Raises:
        Mistake: the batch has no tensor.
    """
    for tensor in tensors_of(batch):
        if tensor.ndim:
            return len(tensor)
    raise Mistake(
        Problem(
            "a batch holds no tensor",
            found=type(batch).__name__,
            expected="a tensor, or a tuple, list or mapping that holds tensors with rows first",
            fix="collate the samples into tensors",
        )
    )


def digest_of(batch: Collated) -> int:
    """CRC-32 of the tensors of a batch."""
    digest = 0
    for tensor in tensors_of(batch):
        flat = tensor.detach().cpu().contiguous().flatten()
        digest = zlib.crc32(flat.view(torch.uint8).numpy().tobytes(), digest)
    return digest


def _count_targets(batch: Batch | Tensor) -> int:
    if isinstance(batch, Tensor) or isinstance(batch.mask, str):
        return count_rows(batch)
    return batch.mask.targets


def _to(batch: Collated, device: str | torch.device) -> Any:
    if isinstance(batch, Batch):
        return batch.move(lambda one: _to(one, device))
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: _to(one, device) for key, one in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(_to(one, device) for one in batch)
    return batch


def _other_batches(taken: int, number: int) -> DataChanged:
    return DataChanged(
        f"batch {taken:,} of pass {number + 1:,} is not the one that was trained on: the iterable "
        "cannot be repeated, or its rows, their order or the size of a batch are others, so the "
        "run cannot go on from here. Give the DataLoader a dataset whose rows do not change (and "
        "persistent_workers=False where workers draw random numbers), train into another folder, "
        'or go on with these: tw.fit(job, changed="record")'
    )


def _no_batches(number: int) -> Mistake:
    what = "it has ended, as generators do" if number else "it gives no batch"
    return Mistake(
        Problem(
            "the iterable of batches is empty",
            found=what,
            expected="an iterable that starts again, such as a DataLoader or a list",
            fix="pass that, or end the training with the last of its steps: tw.StepLimit(...)",
        )
    )
