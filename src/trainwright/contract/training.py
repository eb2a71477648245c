"""`training`: how a network is fitted. Boosting and linear models have no such section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from trainwright.contract.averaging import Average
from trainwright.contract.checkpointing import Checkpointing
from trainwright.contract.clipping import GradientClipping
from trainwright.contract.compute import Compute
from trainwright.contract.guard import Guard
from trainwright.contract.memory import Memory
from trainwright.contract.objective import AutoLoss, Loss
from trainwright.contract.optimizer import AdamW, Optimizer
from trainwright.contract.ramps import Ramps
from trainwright.contract.scheduler import CosineWithWarmup, Scheduler
from trainwright.contract.section import Auto, Count, NonNegative, Section
from trainwright.contract.stop import Stop
from trainwright.contract.validation import ValidationPass

USUAL_PATIENCE = 5
"""Validations without a gain, unless the contract says otherwise."""


class EarlyStopping(Section):
    """Ends the training when the validation rows show no gain, and keeps the best weights."""

    patience: Auto | Count = "auto"
    """Validations (not epochs) without a better value after which training ends. With
    `validate_every_n_steps` they are closer together, and so many of them are sooner over. `auto`:
    5; of images a third of the run's validations if that is more, for their score gains most while
    the learning rate falls."""

    metric: str = "auto"
    """What is watched: `val_loss`, or `val_` and a metric, for example `val_f1`. `auto`: the
    contract's metric."""

    mode: Auto | Literal["min", "max"] = "auto"
    """Whether less or more is better. `auto`: the metric's own direction."""

    min_delta: NonNegative = 0.0
    """Gain that counts as one."""


class Training(Section):
    """How a network is fitted."""

    seeds: Count = 1
    """Trainings with one seed after the other, from the contract's `seed` on, all on one split. The
    first is the run's model; the others show how much of its score is the luck of a seed."""

    num_epochs: Auto | Count = "auto"
    """Most passes over the training rows. `auto`: as many as make 4,000 optimizer steps, between 10
    and 100."""

    batch_size: Auto | Count = "auto"
    """Rows in one forward pass on one device (a micro-batch). `auto`: 256, fewer if there are fewer
    than 10,000 training rows."""

    gradient_accumulation_steps: Auto | Count = "auto"
    """Micro-batches whose gradients make one optimizer step. `auto`: what `effective_batch_size`
    needs once `batch_size` is chosen; with both on `auto` that is the largest divisor of the rows
    of a step that fits into the device's memory."""

    effective_batch_size: Auto | Count = "auto"
    """Rows in one optimizer step: batch_size x gradient_accumulation_steps x devices."""

    loss: Loss = AutoLoss()
    """What is made small. Metrics and the verdict do not depend on it."""

    optimizer: Optimizer = AdamW()
    """What turns gradients into updates."""

    freeze: Mapping[str, Literal["always"] | Count] = {}
    """Modules that are not trained, by path: `always`, or for so many epochs. The longest path
    counts."""

    scheduler: Scheduler = CosineWithWarmup()
    """The learning rate as a function of the applied optimizer steps."""

    early_stopping: Literal["off"] | EarlyStopping = EarlyStopping()
    """When to stop before the last epoch; `off` never does."""

    mixed_precision: Auto | Literal["fp32", "tf32", "bf16", "fp16", "fp8"] = "auto"
    """Number format of the forward and backward pass; weights stay fp32. `auto`: bf16 where a GPU
    has it, and on a CPU where a measurement at the start shows that it pays; else fp32. `fp16`
    scales the loss by a factor that adapts; `tf32` rounds fp32 matrix products on a GPU and changes
    nothing on a CPU; `fp8` needs a GPU that computes in it."""

    compute: Compute = Compute()
    """With which kernels, and over which layout of memory, a step computes."""

    gradient_clipping: GradientClipping = 1.0
    """What is done to a gradient that is too large: `off`, a largest L2 norm of the whole gradient,
    or a section with its `kind`."""

    average: Average = "off"
    """A mean of the weights over time that is evaluated and kept in their place."""

    ramps: Ramps = Ramps()
    """What starts small and grows: the rows of a step, the windows of a text."""

    stop: Stop = Stop()
    """Reasons to end beside the epochs, the budget and early stopping."""

    memory: Memory = Memory()
    """What is done so that the training needs less memory."""

    guard: Guard = Guard()
    """What becomes of a run that goes wrong."""

    checkpointing: Checkpointing = Checkpointing()
    """What is written so that the run can go on."""

    validate_every_n_epochs: Count = 1
    """Epochs between validations. There is always one after the last step."""

    validate_every_n_steps: Literal["off"] | Count = "off"
    """Applied optimizer steps between validations, in place of `validate_every_n_epochs`. Each
    validation has a checkpoint."""

    validate_every_n_tokens: Literal["off"] | Count = "off"
    """Tokens between validations, in place of `validate_every_n_epochs`; only for texts. The step
    that reaches a multiple is validated; tokens of dropped steps count."""

    validation: ValidationPass = ValidationPass()
    """How the validation rows are scored during the training."""
