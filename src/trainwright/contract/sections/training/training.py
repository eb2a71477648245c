"""`training`: how a network is trained: its length, validation, checkpoints, guard and stop
rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import (
    Auto,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Section,
)
from trainwright.contract.sections.training.memory import Compute, Memory
from trainwright.contract.sections.training.objective import AutoLoss, Loss, Teacher
from trainwright.contract.sections.training.optimizer import (
    AdamW,
    GradientClipping,
    Optimizer,
    Ramps,
)
from trainwright.contract.sections.training.scheduler import Average, CosineWithWarmup, Scheduler

Calibrating = Auto | Literal["none", "temperature", "platt", "isotonic", "conformal"]

OF_EVERY_MODEL = frozenset(
    {"training.calibration", "training.threshold", "training.refit", "training.teacher"}
)
"""Keys that concern every kind of model, also one that a library fits."""

USUAL_PATIENCE = 5
"""Default patience, in validations."""


class LossPlateau(Section):
    """Ends when the training loss has stopped falling: its mean over the latest steps is not lower
    than over as many steps before them."""

    steps: Annotated[int, Field(ge=2)] = 1000
    """Steps in each of the two windows that are compared."""

    min_gain: Fraction = 0.001
    """Smallest relative decrease of the mean that counts."""


class Stop(Section):
    """Stop rules, each off by default. All are evaluated after every step; the first to apply ends
    the run with a validation and a checkpoint."""

    max_steps: Literal["off"] | Count = "off"
    """Maximum number of optimizer steps."""

    max_samples: Literal["off"] | Count = "off"
    """Maximum number of training rows read, over all epochs; for a text its windows. Rows of
    dropped steps count; the step that reaches the number is the last."""

    max_tokens: Literal["off"] | Count = "off"
    """Maximum number of predicted tokens, over all epochs; only for texts. Tokens of dropped steps
    count; the step that reaches the number is the last."""

    schedule_spans: Literal["epochs", "limits"] | Count = "epochs"
    """Span of the learning-rate schedule. `epochs`: all of them, so that a run cut short is the
    beginning of the whole one. `limits`: what `max_steps`, `max_samples` and `max_tokens` leave of
    them, so that the rate has fallen when they are reached. A number: this many optimizer steps,
    after which the rate stays constant; `resume --for` writes one."""

    target_reached: Literal["off"] | float = "off"
    """Value on the validation rows at which the run stops: of `early_stopping.metric`, or of the
    contract's metric if early stopping is off."""

    gradient_norm_below: Literal["off"] | Positive = "off"
    """Gradient norm below which, for 10 steps in a row, training counts as converged."""

    loss_plateau: Literal["off"] | LossPlateau = "off"
    """Ends when the training loss has stopped falling."""


class ValidationPass(Section):
    """How the validation rows are scored during training."""

    batch_size: Literal["default"] | Count = "default"
    """Rows in one forward pass of a validation, of a text its windows; no gradients are kept, so
    that more rows fit than in training. `default`: 8,192 rows of a table, 512 images, 8,192 tokens
    of a text. Halved where memory runs out, see `training.guard.out_of_memory`."""

    rows: Literal["all"] | Count = "all"
    """Validation rows that are scored each time: `all`, or so many of them, drawn once with the
    contract's seed; of a text segments. A budget that all of them do not fit into takes fewer where
    nothing is written here."""

    slices: bool = False
    """Computes the contract's slices at each validation too, each by its own metric."""


class Guard(Section):
    """What becomes of a run at a number that is not finite, at a loss that leaps up and stays, and
    when memory runs out.

    `raise` ends the run with exit code 14, `skip` leaves the step out, `rollback` puts the last
    good checkpoint back and goes on behind the bad rows, `ignore` goes on. Whatever is chosen here,
    an update with a number that is not finite is dropped before it reaches the weights.
    """

    non_finite: Literal["raise", "skip", "rollback", "ignore"] = "raise"
    """At a loss or gradient that is not finite. The default is `raise`, because the cause is nearly
    always a row or a setting that a person must mend, and its rows are named."""

    non_finite_in_a_row: Count = 3
    """With `skip`: consecutive dropped steps that trigger a rollback."""

    spike: Literal["raise", "rollback", "ignore"] = "rollback"
    """Reaction to a loss far above its recent values in several steps. The default is `rollback`:
    such a run rarely recovers by itself, and the same model mostly continues well on other rows.
    There is no `skip`: the update is made before a spike can be distinguished from noise."""

    spike_z: Annotated[float, Field(gt=1)] = 6.0
    """Robust z-score of the log-loss above which a step is suspicious, in standard deviations
    (1.4826 times the median absolute deviation) from the median of the last 64 steps."""

    out_of_memory: Literal["split", "raise"] = "split"
    """Reaction to running out of memory in a forward or backward pass. `split` repeats the step
    with micro-batches of half as many rows, for the rest of the run; `raise` ends the run with exit
    code 14 and a checkpoint, and so does `split` at micro-batches of one row. The default is
    `split`, because the rows of a step and its update are the same up to rounding (except with
    batch norm), and the size of a micro-batch depends on the machine, not on the experiment."""

    rollbacks: Annotated[int, Field(ge=0)] = 3
    """Rollback budget of a run; the next one ends it."""

    learning_rate_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor on the learning rate after a rollback; 1 disables it."""

    learning_rate_steps: Count = 200
    """Steps for which that factor applies."""


class Checkpointing(Section):
    """What is written so that the run can go on after any interruption, and what of it is kept.

    Saves fall on steps, and with `save_every_minutes` on the clock too. `measured` spaces them so
    that the least time is lost to saving and to failures together: with d the seconds that the
    training stands still for a save and M the mean seconds between failures, about sqrt(2 d M)
    apart (Young 1974, Comm. ACM 17, 530; the formula used is that of Daly 2006, Future Generation
    Computer Systems 22, 303).
    """

    save_every_n_steps: Auto | Count = "auto"
    """Optimizer steps between checkpoints, beside those at validations. `auto`: at validations
    alone."""

    save_every_n_tokens: Literal["off"] | Count = "off"
    """Tokens between checkpoints, beside the others; only for texts."""

    save_every_minutes: Auto | Literal["off", "measured"] | Positive = "auto"
    """Minutes after which a checkpoint is due, whatever the step; `measured`: from what a save
    costs, see above. `auto`: `measured` if `expected_hours_between_failures` is given, else
    `off`; of trees, which have no steps, 10 seconds or more, so that it takes at most 2 % of the
    time."""

    expected_hours_between_failures: Literal["off"] | Positive = "off"
    """Mean time between failures of the machine, for example 6 for a spot machine that is often
    preempted. Used only by `save_every_minutes: measured`."""

    keep_top_k: Count = 3
    """Number of best checkpoints kept."""

    rank_by: str = "auto"
    """Value that ranks checkpoints: `val_loss`, or `val_` and a metric, for example `val_f1`.
    `auto`: what early stopping watches. With early stopping the model has the weights of the best,
    without it the last ones."""

    keep_last: Annotated[int, Field(ge=2)] = 2
    """Number of newest checkpoints kept; at least two, because the newest may turn out damaged or
    be rolled back."""

    keep_every_n_steps: Literal["off"] | Count = "off"
    """Keeps the first checkpoint at or after each multiple of this many steps forever, for a later
    analysis of the training."""

    remote: Literal["off"] | str = "off"
    """Where checkpoints are copied to while the training goes on, with the run's own files beside
    them, for example `s3://bucket/folder`; the run's name is added. A machine that has nothing else
    of the run goes on with `trainwright resume s3://bucket/folder/RUN`, and a run whose own folder
    lost its checkpoints brings them back from there. Credentials come from the environment and
    never stand in the address."""

    asynchronous: bool = False
    """Writes checkpoints in the background: training stalls only while its state is copied; on a
    CPU most of that is copied during the passes of the next step. Costs memory for one more copy of
    the state."""

    on_failure: Literal["stop", "continue"] = "stop"
    """Reaction to a checkpoint that cannot be written, for example on a full disk: `stop` ends the
    run with exit code 13, `continue` reports and counts it and tries again when the next one is
    due. Without a checkpoint before the first step, or at an interruption, a run stops either
    way."""

    save_optimizer_state: bool = True
    """Without it a checkpoint is a third of the size and the run cannot be resumed from it."""


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

    calibration: Literal["default"] | Calibrating = "default"
    """Calibration of class probabilities after the training, fitted on the validation rows: by a
    `temperature`, by `platt` (a sigmoid of the log-odds), or by `isotonic` regression, which wants
    a thousand rows. `auto`: the simplest that is not worse in log loss by cross-validation over
    these rows, or none. For `metric.quantiles` it is `conformal`: each quantile but the median is
    shifted so that new rows like the validation rows lie beyond it as rarely as it says. `default`:
    `conformal` for the quantiles of forecasts, else `none`. For every kind of model."""

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
