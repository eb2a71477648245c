"""What is trained: a contract with made data, and what it comes to for a loop written by hand."""

from __future__ import annotations

import functools
import io
import math
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from loops.gate import Gate
from trainwright.contract.sections.section import settled
from trainwright.model.build_network import build_network
from trainwright.model.input_shape import shape_of
from trainwright.optim.build_optimizer import build_optimizer
from trainwright.run.compose.compose_feed import build_feed
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen

CLIPPING = 1.0
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where a run trains, so the others do too."""

Precision = Literal["fp32", "bf16"]


class Setting(NamedTuple):
    """How it is trained. `clipping` is the largest gradient norm of the loops that clip."""

    precision: Precision
    accumulate: int
    shuffle: bool = True
    clipping: float = CLIPPING

    def forward(self) -> AbstractContextManager[Any]:
        """The region of a forward pass; entered anew at each step."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(DEVICE, dtype=torch.bfloat16)


@final
@dataclass(frozen=True)
class Workload:
    """A contract, its data, and the loss as a loop written by hand computes it from outputs and
    target; a turn has `steps` steps of one micro-batch, and `share` of the rounds are made."""

    name: str
    what: str
    contract: str
    write: Callable[[Path], None]
    mean_loss: Callable[[Tensor, Tensor], Tensor]
    steps: int
    share: float = 1.0

    def rounds(self, asked: int) -> int:
        """Rounds of so many that are asked for; at least one."""
        return max(1, round(self.share * asked))


@final
@dataclass(frozen=True)
class Made:
    """A workload in a setting: the plan and the prepared data of a run, and what another loop needs
    of them. `tensors` are the inputs and, last, the target of the training rows, on the device."""

    ready: Ready
    setting: Setting
    mean_loss: Callable[[Tensor, Tensor], Tensor]
    tensors: tuple[Tensor, ...]
    batch: int
    peak: float
    warmup_steps: int
    total_steps: int
    floor: float

    def start(self, gate: Gate) -> tuple[nn.Module, torch.optim.AdamW]:
        """The model and its optimizer, which the gate is told."""
        model, optimizer = self.build()
        parameter = optimizer.param_groups[0]["params"][0]
        gate.watch(model, lambda: int(optimizer.state.get(parameter, {"step": 0})["step"]))
        return model, optimizer

    def build(self) -> tuple[nn.Module, torch.optim.AdamW]:
        """The model with its first weights on the device, and its optimizer."""
        contract = self.ready.plan.contract
        torch.manual_seed(contract.seed)
        model = build_network(contract.model, shape_of(self.ready.prepared)).to(DEVICE).train()
        optimizer = build_optimizer(contract.training.optimizer, model, self.batch)
        assert isinstance(optimizer, torch.optim.AdamW)
        return model, optimizer

    def factor_at(self, step: int) -> float:
        """Linear up to 1, then half a cosine down to the floor."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        share = (step - self.warmup_steps) / (self.total_steps - 1 - self.warmup_steps)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * share))

    def indices(self, passed: Callable[[], None]) -> Iterator[Tensor]:
        """The row numbers of each micro-batch, for ever, in a new order after each pass; `passed`
        is told before each."""
        draw = torch.Generator().manual_seed(0)
        rows = len(self.tensors[-1])
        while True:
            order = torch.randperm(rows, generator=draw)
            if not self.setting.shuffle:
                order = torch.arange(rows)
            for first in range(0, rows, self.batch):
                passed()
                yield order[first : first + self.batch]


@functools.cache
def _folder(name: str) -> Path:
    """Where the contract and the data of a workload lie; gone when the process ends."""
    folder = Path(_ALL.name) / name
    folder.mkdir()
    WORKLOADS[name].write(folder)
    (folder / "contract.yaml").write_text(WORKLOADS[name].contract, encoding="utf-8")
    return folder


_ALL = tempfile.TemporaryDirectory()


@functools.cache
def make(name: str, setting: Setting, clips: bool, extra: tuple[str, ...] = ()) -> Made:
    """Plan and prepare a workload. Without `clips` our own loop does not clip; `extra` is set in
    the contract."""
    ready = _ready(name, setting, clips, extra)
    contract = ready.plan.contract
    training = contract.training
    feed = build_feed(contract, ready.prepared, torch.device(DEVICE))
    total = settled(training.num_epochs) * feed.steps_per_epoch
    return Made(
        ready,
        setting,
        WORKLOADS[name].mean_loss,
        _tensors(name),
        settled(training.batch_size),
        settled(training.optimizer.learning_rate),
        math.ceil(training.scheduler.warmup_ratio * total),
        total,
        training.scheduler.min_lr_ratio,
    )


def _ready(name: str, setting: Setting, clips: bool, extra: tuple[str, ...] = ()) -> Ready:
    overrides = (
        *extra,
        f"training.mixed_precision={setting.precision}",
        f"training.gradient_accumulation_steps={setting.accumulate}",
        f"training.gradient_clipping={setting.clipping if clips else 'off'}",
        f"data.shuffle={str(setting.shuffle).lower()}",
    )
    folder = _folder(name)
    request = Request(folder / "contract.yaml", overrides, folder / "runs")
    return make_ready(request, StageTimes(), StreamScreen(io.StringIO()))


@functools.cache
def _tensors(name: str) -> tuple[Tensor, ...]:
    """All training rows as they lie, through one pass of a feed that does not shuffle."""
    ready = _ready(name, Setting("fp32", 1, shuffle=False), False)
    feed = build_feed(ready.plan.contract, ready.prepared, torch.device(DEVICE))
    steps = [feed.next_step() for _ in range(feed.steps_per_epoch)]
    batches = [batch for step in steps for batch in step.micro_batches]
    return tuple(torch.cat(parts).contiguous() for parts in zip(*batches, strict=True))


TRAINING = """
training:
  num_epochs: 10000
  early_stopping: off
  scheduler: {{name: cosine_with_warmup, warmup_ratio: 0.00001, min_lr_ratio: 0.01}}
  optimizer: {{name: adamw, learning_rate: 0.001}}
  batch_size: {batch}
  compute: {{matrix_products: exact, memory_format: {layout}, compile: off}}
"""


def _table(folder: Path) -> None:
    draw = np.random.default_rng(0)
    inputs = draw.standard_normal((20_480, 16))
    rows = np.column_stack([inputs, np.sin(inputs).sum(axis=1)])
    header = ",".join([*(f"x{column}" for column in range(16)), "y"])
    np.savetxt(folder / "rows.csv", rows, "%.6f", ",", header=header, comments="")


def _text(folder: Path) -> None:
    draw = np.random.default_rng(0)
    text = bytes(draw.integers(97, 123, 100_000, dtype=np.uint8).tolist()).decode("ascii")
    (folder / "text.txt").write_text(text, encoding="ascii")


def _images(folder: Path) -> None:
    draw = np.random.default_rng(0)
    for part, count in (("train", 1200), ("t10k", 120)):
        pixels = draw.integers(0, 256, (count, 32, 32))
        labels = np.arange(count) % 10
        (folder / f"{part}-images-idx3-ubyte").write_bytes(_idx(pixels))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(_idx(labels))


def _idx(values: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def _gpt(name: str, model: str, what: str, batch: int, steps: int, share: float = 1.0) -> Workload:
    contract = f"""name: {name}
task: generation
data: {{kind: tokens, path: text.txt, vocabulary: bytes}}
model: {{kind: gpt, {model}, context: 64}}
metric: {{name: nats_per_token, target: 1.0}}
"""
    return Workload(
        name=name,
        what=f"{what}, batches of {batch} x 64 tokens",
        contract=contract + TRAINING.format(batch=batch, layout="contiguous"),
        write=_text,
        mean_loss=lambda outputs, target: functional.cross_entropy(
            outputs.view(-1, outputs.shape[-1]), target.view(-1)
        ),
        steps=steps,
        share=share,
    )


_TABLE = """name: tiny_mlp
task: regression
data: {path: rows.csv, target: y, features: {numeric: standard}}
model: {kind: mlp, hidden: [64], dropout: 0.0, numeric_embedding: none}
metric: {name: rmse, target: 1.0}
"""

_IMAGES = """name: resnet
task: classification
data: {kind: images, path: .}
model: {kind: resnet, width: 16, blocks: [1, 1, 1]}
metric: {name: accuracy, target: 0.5}
"""

_ALL_WORKLOADS: Sequence[Workload] = (
    Workload(
        name="tiny_mlp",
        what="16-64-1, batches of 32 rows",
        contract=_TABLE + TRAINING.format(batch=32, layout="contiguous"),
        write=_table,
        mean_loss=lambda outputs, target: functional.mse_loss(outputs.squeeze(1), target),
        steps=400,
    ),
    _gpt("gpt_1m", "layers: 5, heads: 4, width: 128", "5 blocks of width 128", 4, 2),
    _gpt("gpt_10m", "layers: 6, heads: 6, width: 384", "6 blocks of width 384", 4, 1, 0.5),
    Workload(
        name="resnet",
        what="3 stages from 16 channels, batches of 8 images of 32 x 32",
        contract=_IMAGES + TRAINING.format(batch=8, layout="channels_last"),
        write=_images,
        mean_loss=functional.cross_entropy,
        steps=2,
    ),
)

WORKLOADS = {work.name: work for work in _ALL_WORKLOADS}
