"""`training`: how a network is fitted. Boosting and linear models have no such section."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.clipping import GradientClipping
from trainwright.contract.guard import Guard
from trainwright.contract.section import (
    Auto,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Section,
    tagged_by,
)
from trainwright.contract.stop import Stop

Beta = Annotated[float, Field(ge=0, lt=1)]


class AdamW(Section):
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101). Norms, biases and embeddings are never
    decayed."""

    name: Literal["adamw"] = "adamw"

    learning_rate: Auto | Positive = "auto"
    """Peak learning rate, before the schedule. `auto`: 0.001."""

    weight_decay: NonNegative = 0.01
    """Decoupled weight decay per step, times the learning rate."""

    betas: Annotated[tuple[Beta, Beta], Field()] = (0.9, 0.999)
    """Decay of the running mean of the gradient and of its square."""

    eps: Positive = 1e-8
    """Added to the denominator."""


class Constant(Section):
    """The learning rate stays at its peak."""

    name: Literal["constant"]


class CosineWithWarmup(Section):
    """Linear from 0 to the peak over the warmup, then half a cosine down to the floor."""

    name: Literal["cosine_with_warmup"] = "cosine_with_warmup"

    warmup_ratio: Fraction = 0.05
    """Share of all optimizer steps that warm up."""

    min_lr_ratio: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The floor at the last step, as a share of the peak."""


Scheduler = Annotated[
    Annotated[Constant, Tag("constant")] | Annotated[CosineWithWarmup, Tag("cosine_with_warmup")],
    tagged_by("name", default="cosine_with_warmup"),
]


class EarlyStopping(Section):
    """Ends the training when the validation rows show no gain, and keeps the best weights."""

    patience: Count = 5
    """Validations without a better value after which training ends."""

    metric: str = "auto"
    """What is watched: `val_loss`, or `val_` and a metric, for example `val_f1`. `auto`: the
    contract's metric."""

    mode: Auto | Literal["min", "max"] = "auto"
    """Whether less or more is better. `auto`: the metric's own direction."""

    min_delta: NonNegative = 0.0
    """Gain that counts as one."""


class Checkpointing(Section):
    """What is written so that the run can go on after any interruption."""

    save_every_n_steps: Auto | Count = "auto"
    """Optimizer steps between checkpoints. `auto`: at each validation."""

    keep_top_k: Count = 3
    """Best checkpoints (by the watched metric) kept beside the newest one."""

    save_optimizer_state: bool = True
    """Without it a checkpoint is a third of the size and the run cannot be resumed from it."""


class Training(Section):
    """How a network is fitted."""

    num_epochs: Auto | Count = "auto"
    """Most passes over the training rows. `auto`: as many as make 4,000 optimizer steps, between 10
    and 100."""

    batch_size: Auto | Count = "auto"
    """Rows in one forward pass on one device (a micro-batch). `auto`: 256, fewer if there are fewer
    than 10,000 training rows."""

    gradient_accumulation_steps: Auto | Count = "auto"
    """Micro-batches whose gradients make one optimizer step. `auto`: what `effective_batch_size`
    needs, else 1."""

    effective_batch_size: Auto | Count = "auto"
    """Rows in one optimizer step: batch_size x gradient_accumulation_steps x devices."""

    optimizer: AdamW = AdamW()
    """What turns gradients into updates."""

    scheduler: Scheduler = CosineWithWarmup()
    """The learning rate as a function of the applied optimizer steps."""

    early_stopping: Literal["off"] | EarlyStopping = EarlyStopping()
    """When to stop before the last epoch; `off` never does."""

    mixed_precision: Auto | Literal["fp32", "tf32", "bf16", "fp16"] = "auto"
    """Number format of the forward and backward pass; weights stay fp32. `auto`: bf16 where a GPU
    has it, else fp32. `fp16` scales the loss by a factor that adapts; `tf32` rounds fp32 matrix
    products on a GPU and changes nothing on a CPU."""

    gradient_clipping: GradientClipping = 1.0
    """What is done to a gradient that is too large: `off`, a largest L2 norm of the whole gradient,
    or a section with its `kind`."""

    stop: Stop = Stop()
    """Reasons to end beside the epochs, the budget and early stopping."""

    guard: Guard = Guard()
    """What becomes of a run that goes wrong."""

    checkpointing: Checkpointing = Checkpointing()
    """What is written so that the run can go on."""

    validate_every_n_epochs: Count = 1
    """Epochs between validations."""
