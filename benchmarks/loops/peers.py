"""The loops of other libraries, each fed in the fastest way that it takes.

All of them go over one epoch without an end, so that none of what they do between epochs counts,
and with the scheduler of torch that they expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from loops.gate import Gate
from loops.plain import loader
from loops.workloads import DEVICE, Made, Setting, make


def lightning_off(work: str, setting: Setting, gate: Gate) -> None:
    """Everything that can be switched off is."""
    _lightning(
        work,
        setting,
        gate,
        logs=False,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )


def lightning(work: str, setting: Setting, gate: Gate) -> None:
    """Its defaults with a CSV logger and one `self.log` of the loss. The bar is that of an
    installation without `rich`: the other one draws from a thread of its own."""
    from lightning.pytorch.callbacks import TQDMProgressBar
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(str(gate.folder / "lightning"))
    _lightning(work, setting, gate, logs=True, logger=logger, callbacks=[TQDMProgressBar()])


def _lightning(work: str, setting: Setting, gate: Gate, *, logs: bool, **options: Any) -> None:
    from lightning.pytorch import LightningModule, Trainer

    made = make(work, setting, False)
    model, optimizer = made.start(gate)

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def training_step(self, batch: tuple[Tensor, ...], _index: int) -> Tensor:
            *inputs, target = batch
            loss = made.mean_loss(self.inner(*inputs), target)
            if logs:
                self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> dict[str, Any]:
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, made.factor_at)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
            }

    trainer = Trainer(
        accelerator="gpu" if DEVICE == "cuda" else "cpu",
        devices=1,
        max_steps=made.total_steps,
        precision="bf16-mixed" if setting.precision == "bf16" else "32-true",
        accumulate_grad_batches=setting.accumulate,
        default_root_dir=gate.folder,
        **options,
    )
    trainer.fit(Module(), loader(made, gate))


class WithLoss(nn.Module):
    """A model as the `Trainer` of transformers wants it: it returns its loss."""

    def __init__(self, made: Made, model: nn.Module) -> None:
        super().__init__()
        self.mean_loss = made.mean_loss
        self.model = model

    def forward(self, inputs: list[Tensor], labels: Tensor) -> dict[str, Tensor]:
        outputs = self.model(*inputs)
        return {"loss": self.mean_loss(outputs, labels), "logits": outputs}


def trainer(work: str, setting: Setting, gate: Gate) -> None:
    """transformers' `Trainer` with its defaults, which clip; but it writes no checkpoint."""
    from transformers import Trainer, TrainingArguments

    made = make(work, setting, False)
    model, optimizer = made.start(gate)
    batches = loader(made, gate)

    class FromLoader(Trainer):
        def get_train_dataloader(self) -> Any:
            return _Named(batches, made.total_steps)

    arguments = TrainingArguments(
        output_dir=str(gate.folder / "trainer"),
        max_steps=made.total_steps,
        per_device_train_batch_size=made.batch,
        gradient_accumulation_steps=setting.accumulate,
        max_grad_norm=setting.clipping,
        bf16=setting.precision == "bf16",
        use_cpu=DEVICE == "cpu",
        save_strategy="no",
        report_to="none",
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, made.factor_at)
    FromLoader(
        model=WithLoss(made, model),
        args=arguments,
        train_dataset=batches.dataset,
        optimizers=(optimizer, scheduler),
    ).train()


class _Named:
    """Micro-batches as the keyword arguments of the model."""

    batch_size = None

    def __init__(self, batches: DataLoader[tuple[Tensor, ...]], steps: int) -> None:
        self._batches = batches
        self._steps = steps
        self.dataset = batches.dataset

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for *inputs, labels in self._batches:
            yield {"inputs": inputs, "labels": labels}


def accelerate(work: str, setting: Setting, gate: Gate) -> None:
    """The loop of accelerate's own guide, everything prepared by it."""
    from accelerate import Accelerator

    made = make(work, setting, False)
    model, optimizer = made.start(gate)
    accelerator = Accelerator(
        cpu=DEVICE == "cpu",
        mixed_precision="bf16" if setting.precision == "bf16" else "no",
        gradient_accumulation_steps=setting.accumulate,
    )
    model, optimizer, batches, scheduler = accelerator.prepare(
        model,
        optimizer,
        loader(made, gate),
        torch.optim.lr_scheduler.LambdaLR(optimizer, made.factor_at),
    )
    for *inputs, target in batches:
        with accelerator.accumulate(model):
            loss = made.mean_loss(model(*inputs), target)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


def skorch(work: str, setting: Setting, gate: Gate) -> None:
    """A `NeuralNet` with its defaults, in fp32 and without accumulation: it has neither."""
    from skorch import NeuralNet
    from skorch.callbacks import LRScheduler

    made = make(work, setting, False)
    model, optimizer = made.start(gate)

    class Loss(nn.Module):
        def forward(self, outputs: Tensor, target: Tensor) -> Tensor:
            return made.mean_loss(outputs, target)

    batches = _Pairs(loader(made, gate))
    net = NeuralNet(
        _Spread(model),
        criterion=Loss,
        optimizer=lambda *_arguments, **_options: optimizer,
        iterator_train=lambda *_arguments, **_options: batches,
        train_split=None,
        max_epochs=1,
        device=DEVICE,
        callbacks=[
            (
                "rate",
                LRScheduler(
                    torch.optim.lr_scheduler.LambdaLR, step_every="batch", lr_lambda=made.factor_at
                ),
            )
        ],
    )
    net.fit(made.tensors[0], made.tensors[-1])


class _Spread(nn.Module):
    """A model that is handed its inputs as one list."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return self._model(*inputs)


class _Pairs:
    """Micro-batches as (inputs, target)."""

    def __init__(self, batches: DataLoader[tuple[Tensor, ...]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[list[Tensor], Tensor]]:
        for *inputs, target in self._batches:
            yield inputs, target
