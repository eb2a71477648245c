"""`training`: how a network is trained. Boosting and linear models have no such section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, NonNegative, Section
from trainwright.contract.sections.training.averaging import Average
from trainwright.contract.sections.training.checkpointing import Checkpointing
from trainwright.contract.sections.training.clipping import GradientClipping
from trainwright.contract.sections.training.compute import Compute
from trainwright.contract.sections.training.guard import Guard
from trainwright.contract.sections.training.memory import Memory
from trainwright.contract.sections.training.objective import AutoLoss, Loss
from trainwright.contract.sections.training.optimizer import AdamW, Optimizer
from trainwright.contract.sections.training.ramps import Ramps
from trainwright.contract.sections.training.scheduler import CosineWithWarmup, Scheduler
from trainwright.contract.sections.training.stop import Stop
from trainwright.contract.sections.training.teacher import Teacher
from trainwright.contract.sections.training.validation import ValidationPass

Calibrating = Auto | Literal["none", "temperature", "platt", "isotonic", "conformal"]

OF_EVERY_MODEL = frozenset(
    {"training.calibration", "training.threshold", "training.refit", "training.teacher"}
)
"""Keys that concern every kind of model, also one that a library fits."""

USUAL_PATIENCE = 5
"""Default patience, in validations."""


class EarlyStopping(Section):
    """Ends the training when the validation rows show no improvement, and keeps the best
    weights."""

    patience: Auto | Count = "auto"
    """Validations (not epochs) without improvement after which training ends. With
    `validate_every_n_steps` they are closer together, so the same number of them is over sooner.
    `auto`: 5; for images a third of the run's validations if that is more, because their score
    improves most while the learning rate falls."""

    metric: str = "auto"
    """Watched value: `val_loss`, or `val_` and a metric, for example `val_f1`. `auto`: the
    contract's metric."""

    mode: Auto | Literal["min", "max"] = "auto"
    """Whether lower or higher values are better. `auto`: the metric's own direction."""

    min_delta: NonNegative = 0.0
    """Smallest improvement that counts."""


class Training(Section):
    """How a network is trained."""

    seeds: Count = 1
    """Number of trainings with consecutive seeds, from the contract's `seed` on, all on one split.
    The first is the run's model; the others show how much of its score is due to the seed."""

    calibration: Calibrating = "none"
    """Calibration of class probabilities after the training, fitted on the validation rows: by a
    `temperature`, by `platt` (a sigmoid of the log-odds), or by `isotonic` regression, which wants
    a thousand rows. `auto`: the simplest that is not worse in log loss by cross-validation over
    these rows, or none. For `metric.quantiles` it is `conformal`: each quantile but the median is
    shifted so that new rows like the validation rows lie beyond it as rarely as it says. For every
    kind of model."""

    threshold: Auto | Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Probability from which on a row is given the positive class of two. `auto`: the one with the
    best value of the contract's metric on the validation rows, after a calibration; for `accuracy`,
    `balanced_accuracy`, `f1`, `f1_macro` and `f1_weighted`; `metric.costs` decide instead. For
    every kind of model."""

    refit: bool = False
    """Train the model a second time, on training and validation rows, once the validation rows have
    shown how long to train: trees as many as were kept, a network as many updates, on the same
    schedule. This second model is the run's. Its calibration and threshold are those of the first,
    and it has no validation rows. For tables, and every kind of model."""

    teacher: Literal["none"] | Teacher = "none"
    """A trained model to learn from beside the targets. For every kind of model but neighbours and
    `auto`, of tables, images and the tokens of texts and chats."""

    num_epochs: Auto | Count = "auto"
    """Maximum number of passes over the training rows. `auto`: as many as make 4,000 optimizer
    steps, between 10 and 100."""

    num_steps: Literal["off"] | Count = "off"
    """Optimizer steps of the training, in place of `num_epochs`; the learning-rate schedule spans
    them. An epoch may be longer or shorter."""

    num_tokens: Literal["off"] | Count = "off"
    """Predicted tokens of the training, in place of `num_epochs`; only for texts. The step that
    reaches the number is the last; the learning-rate schedule spans the steps."""

    batch_size: Auto | Count = "auto"
    """Rows in one forward pass on one device (a micro-batch); of a ranking, whole queries. `auto`:
    256, fewer if there are fewer than 10,000 training rows."""

    gradient_accumulation_steps: Auto | Count = "auto"
    """Micro-batches whose gradients make one optimizer step. `auto`: what `effective_batch_size`
    needs once `batch_size` is chosen; with both on `auto` that is the largest divisor of the rows
    of a step that fits into the device's memory."""

    effective_batch_size: Auto | Count = "auto"
    """Rows in one optimizer step: batch_size x gradient_accumulation_steps x devices."""

    loss: Loss = AutoLoss()
    """Training loss. Metrics and the verdict do not depend on it."""

    optimizer: Optimizer = AdamW()
    """Optimizer."""

    freeze: Mapping[str, Literal["always"] | Count] = {}
    """Frozen modules, by path: `always`, or for a number of epochs. The longest path counts."""

    scheduler: Scheduler = CosineWithWarmup()
    """The learning rate as a function of the applied optimizer steps."""

    early_stopping: Literal["off"] | EarlyStopping = EarlyStopping()
    """Early stopping before the last epoch; `off` never stops."""

    mixed_precision: Auto | Literal["fp32", "tf32", "bf16", "fp16", "fp8"] = "auto"
    """Number format of the forward and backward pass; weights stay fp32. `auto`: bf16 on a GPU that
    supports it, and on a CPU if a measurement at the start shows that it pays off; else fp32.
    `fp16` uses dynamic loss scaling; `tf32` rounds fp32 matrix products on a GPU and changes
    nothing on a CPU; `fp8` needs a GPU with float8 units."""

    compute: Compute = Compute()
    """Kernels and memory layout of a step."""

    gradient_clipping: GradientClipping = 1.0
    """Gradient clipping: `off`, a limit on the L2 norm of the whole gradient, or a section with its
    `kind`."""

    average: Average = "off"
    """Weight average (EMA, SWA), evaluated and kept instead of the trained weights."""

    ramps: Ramps = Ramps()
    """Ramps: the batch size of a step, or the window length of a text, starts small and grows."""

    stop: Stop = Stop()
    """Stop rules besides the epochs, the budget and early stopping."""

    memory: Memory = Memory()
    """Reducing the memory that training needs."""

    guard: Guard = Guard()
    """Reaction to non-finite numbers, loss spikes and out-of-memory errors."""

    checkpointing: Checkpointing = Checkpointing()
    """Checkpoints, from which the run can resume."""

    validate_every_n_epochs: Count = 1
    """Epochs between validations. There is always one after the last step."""

    validate_every_n_steps: Literal["off"] | Count = "off"
    """Applied optimizer steps between validations, in place of `validate_every_n_epochs`. Each
    validation has a checkpoint."""

    validate_every_n_tokens: Literal["off"] | Count = "off"
    """Tokens between validations, in place of `validate_every_n_epochs`; only for texts. The step
    that reaches a multiple is followed by one; tokens of dropped steps count."""

    validation: ValidationPass = ValidationPass()
    """How the validation rows are scored during the training."""

    @property
    def learns_states(self) -> bool:
        """Are hidden states of a teacher learned?"""
        return self.teacher != "none" and self.teacher.hidden != "none"
