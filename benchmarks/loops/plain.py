"""The loops that a person writes by hand."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from loops.gate import Gate
from loops.workloads import DEVICE, Made, Setting, make


def plain(work: str, setting: Setting, gate: Gate) -> None:
    """As an expert writes it: nothing is logged, nothing is checked, no norm is computed."""
    _plain(work, setting, gate, clips=False)


def plain_clipping(work: str, setting: Setting, gate: Gate) -> None:
    """The same with torch's clipping by norm."""
    _plain(work, setting, gate, clips=True)


def _plain(work: str, setting: Setting, gate: Gate, *, clips: bool) -> None:
    made = make(work, setting, clips)
    model, optimizer = made.start(gate)
    tensors, rows, accumulate = made.tensors, len(made.tensors[-1]), setting.accumulate
    parameters = list(model.parameters())
    draw = torch.Generator().manual_seed(0)
    order, first = torch.empty(0, dtype=torch.int64), rows
    for step in itertools.count():
        gate.passed(accumulate)
        if step < made.warmup_steps:
            factor = (step + 1) / made.warmup_steps
        else:
            share = (step - made.warmup_steps) / (made.total_steps - 1 - made.warmup_steps)
            factor = made.floor + (1 - made.floor) * 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = made.peak * factor
        for _ in range(accumulate):
            if first >= rows:
                order = torch.randperm(rows, generator=draw)
                if not setting.shuffle:
                    order = torch.arange(rows)
                first = 0
            index = order[first : first + made.batch]
            first += made.batch
            *inputs, target = [tensor[index] for tensor in tensors]
            with setting.forward():
                loss = made.mean_loss(model(*inputs), target)
            if accumulate > 1:
                loss = loss / accumulate
            loss.backward()
        if clips:
            torch.nn.utils.clip_grad_norm_(parameters, setting.clipping)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


class Rows(Dataset[tuple[Tensor, ...]]):
    """Micro-batches by their row numbers: the fastest way through a `DataLoader`."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors[-1])

    def __getitems__(self, index: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self._tensors)


class Endless:
    """A sampler of micro-batches that has no end."""

    def __init__(self, made: Made, gate: Gate) -> None:
        self._made = made
        self._gate = gate

    def __iter__(self) -> Iterator[Tensor]:
        return self._made.indices(self._gate.passed)

    def __len__(self) -> int:
        return self._made.total_steps


def loader(made: Made, gate: Gate) -> DataLoader[tuple[Tensor, ...]]:
    """A `DataLoader` without workers that fetches each micro-batch with one indexing."""
    endless = Endless(made, gate)
    return DataLoader(Rows(made.tensors), batch_sampler=endless, collate_fn=lambda batch: batch)


def plain_loader(work: str, setting: Setting, gate: Gate) -> None:
    """The plain loop over a `DataLoader`, with torch's own scheduler: what the others wrap."""
    made = make(work, setting, False)
    model, optimizer = made.start(gate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, made.factor_at)
    batches = iter(loader(made, gate))
    for _ in itertools.count():
        for _ in range(setting.accumulate):
            *inputs, target = next(batches)
            with setting.forward():
                loss = made.mean_loss(model(*inputs), target)
            (loss / setting.accumulate).backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)


def stacked_batches(made: Made, *, shuffle: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Without end, each of rows stacked one by one."""
    inputs, targets = (tensor.cpu().numpy() for tensor in made.tensors)
    draw = np.random.default_rng(0)
    for first in itertools.count(step=made.batch):
        rows = draw.integers(len(inputs), size=made.batch)
        if not shuffle:
            rows = np.arange(first, first + made.batch)
        x = torch.stack([torch.from_numpy(inputs[row].astype(np.int64)) for row in rows])
        y = torch.stack([torch.from_numpy(targets[row].astype(np.int64)) for row in rows])
        yield x.to(DEVICE), y.to(DEVICE)


def nano(work: str, setting: Setting, gate: Gate) -> None:
    """In the manner of nanoGPT's train.py: rows stacked one by one from a numpy array, a scaler
    that is off, clipping, and the loss read every tenth step."""
    made = make(work, setting, True)
    model, optimizer = made.start(gate)
    batches = stacked_batches(made, shuffle=setting.shuffle)
    scaler = torch.amp.GradScaler(DEVICE, enabled=False)
    gate.passed(setting.accumulate)
    x, y = next(batches)
    began = time.time()
    for step in itertools.count():
        if step:
            gate.passed(setting.accumulate)
        rate = made.peak * made.factor_at(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for _ in range(setting.accumulate):
            with setting.forward():
                loss = made.mean_loss(model(x), y) / setting.accumulate
            x, y = next(batches)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), setting.clipping)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        now = time.time()
        seconds, began = now - began, now
        if step % 10 == 0:
            loss_now = loss.item() * setting.accumulate
            print(f"iter {step}: loss {loss_now:.4f}, time {seconds * 1e3:.2f}ms")
