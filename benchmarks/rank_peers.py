"""Data-parallel steps by Lightning and accelerate, for `benchmarks/distributed.py`; both are in the
environment that `make peers` makes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

Turn = Callable[[], float]
Build = Callable[[nn.Module, Tensor, Tensor, int, int], Turn]
LEARNING_RATE = 1e-3


def train_by_accelerate(network: nn.Module, x: Tensor, y: Tensor, rows: int, steps: int) -> Turn:
    """Seconds of a step, of a turn of some steps."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, fused=True)
    loader = DataLoader(TensorDataset(x, y), rows)
    model, optimizer, loader = accelerator.prepare(network, optimizer, loader)

    def turn() -> float:
        batches = iter(loader)
        started = time.perf_counter()
        for _ in range(steps):
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                batch = next(batches)
            features, target = batch
            optimizer.zero_grad()
            loss = (model(features) - target).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            accelerator.reduce(loss.detach(), "sum").item()
        return (time.perf_counter() - started) / steps

    return turn


def train_by_lightning(network: nn.Module, x: Tensor, y: Tensor, rows: int, steps: int) -> Turn:
    """The same inside `Trainer.fit`, whose start and end are not counted."""
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.times: list[float] = []

        def training_step(self, batch: Any, _number: int) -> Tensor:
            features, target = batch
            loss = (self.network(features) - target).square().mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def on_train_batch_start(self, *_: object) -> None:
            self.times.append(time.perf_counter())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=LEARNING_RATE, fused=True)

    def turn() -> float:
        module, loader = Module(), DataLoader(TensorDataset(x, y), rows)
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=int(os.environ["WORLD_SIZE"]),
            strategy="ddp",
            max_steps=steps + 1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(module, loader)
        return (module.times[-1] - module.times[0]) / steps

    return turn


def find_peers() -> dict[str, Build]:
    """Those that are installed."""
    peers: dict[str, Build] = {"accelerate": train_by_accelerate, "lightning": train_by_lightning}
    return {name: build for name, build in peers.items() if find_spec(name)}
