"""Training settings for `auto`: batches, loss, learning rate, length, early stopping, average,
checkpoints, resume, tracking."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar, assert_never, final

from pydantic import BaseModel

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import (
    METRICS,
    METRICS_OF_COUNTS,
    NUMERIC_TASKS,
    steering_metric,
)
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.run_settings import Resume, Tracking
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training import optimizer as contract
from trainwright.contract.sections.training.objective import (
    AutoLoss,
    BinaryCrossEntropy,
    Contrastive,
    CrossEntropy,
    Dpo,
    ListNet,
    Loss,
    Ordinal,
    Poisson,
    Quantile,
    SquaredError,
)
from trainwright.contract.sections.training.scheduler import Average, Ema
from trainwright.contract.sections.training.training import (
    USUAL_PATIENCE,
    Checkpointing,
    EarlyStopping,
    Stop,
    Training,
)
from trainwright.core.files import Json
from trainwright.data.read_table import DataFacts
from trainwright.model.families import family_of
from trainwright.planner.estimate import Validations, steps_per_epoch
from trainwright.planner.plan_facts import DeviceFacts

_BATCH, _SMALLEST_BATCH = 256, 16
_FEW_ROWS = 10_000

S = TypeVar("S", bound=BaseModel)

Chosen = dict[str, tuple[Json, str]]
"""Field -> (value, reason)."""

_MOST_STEPS, _FEWEST_STEPS = 1000, 2
_SHARE = 10
NOTHING_USUAL: Mapping[str, tuple[Json, str]] = MappingProxyType({})
_AWS_SECONDS, _USUAL_SECONDS = 120.0, 30.0
_SHORT_STEPS, _LONG_STEPS = 200, 50


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """Value chosen for an `auto` of the contract, and its reason. `measured` are the numbers of a
    choice by measurement."""

    path: str
    value: Json
    reason: str
    measured: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> Json:
        """The fields by name; `measured` if present."""
        numbers = {"measured": dict(self.measured)} if self.measured else {}
        return {"path": self.path, "value": self.value, "reason": self.reason, **numbers}


@final
@dataclass(slots=True)
class Choosing:
    """The choices made so far. `take` changes one section by its `auto` fields only."""

    made: list[Choice] = field(default_factory=list)

    def take(self, section: S, prefix: str, chosen: Chosen) -> S:
        """`section` with each `auto` field set to its choice."""
        open_fields = {key: chosen[key] for key in chosen if getattr(section, key) == "auto"}
        for key, (value, reason) in open_fields.items():
            self.made.append(Choice(f"{prefix}.{key}" if prefix else key, value, reason))
        return section.model_copy(update={key: value for key, (value, _) in open_fields.items()})


def choose_average(training: Training, steps: int, choosing: Choosing) -> Average:
    """`training.average` for a run of at most `steps` optimizer steps."""
    average = training.average
    if not isinstance(average, Ema):
        return average
    back = min(_MOST_STEPS, max(_FEWEST_STEPS, steps // _SHARE))
    over = f"{back:,} of {steps:,} steps" if back < steps else "all steps"
    reason = f"the mean looks back over {over}"
    chosen = {"decay": (round(1 - 1 / back, 6), reason)}
    return choosing.take(average, "training.average", chosen)


def checkpoint_choices(contract: Contract, training: Training, steps_per_epoch: int) -> Chosen:
    """Field -> (value, reason) for `training.checkpointing`, with resolved batch sizes."""
    return {
        "save_every_n_steps": (
            _validation_steps(contract.model, training, steps_per_epoch),
            "one checkpoint at each validation",
        ),
        "save_every_minutes": _spacing(training.checkpointing),
        "rank_by": _ranking(training, contract.metric.name),
    }


def _validation_steps(model: ModelSection, training: Training, steps_per_epoch: int) -> int:
    """Steps between validations; for tokens, as if every position of a window had one."""
    if training.validate_every_n_steps != "off":
        return training.validate_every_n_steps
    if training.validate_every_n_tokens != "off":
        of_step = settled(training.effective_batch_size) * model.context_length
        return -(-training.validate_every_n_tokens // of_step)
    return steps_per_epoch * training.validate_every_n_epochs


def _spacing(section: Checkpointing) -> tuple[str, str]:
    hours = section.expected_hours_between_failures
    if hours == "off":
        return "off", "nothing is known of failures"
    return "measured", f"the machine lasts {hours:g} hours on average"


def _ranking(training: Training, metric: str) -> tuple[str, str]:
    stopping = training.early_stopping
    if stopping == "off":
        return "val_loss", "nothing else is watched"
    watched = f"val_{steering_metric(metric)}" if stopping.metric == "auto" else stopping.metric
    return watched, "what early stopping watches"


def has_length(training: Training) -> bool:
    """Does a contract give the length in steps or tokens?"""
    return training.num_steps != "off" or training.num_tokens != "off"


def choose_length(
    contract: Contract, training: Training, facts: DataFacts, rows: int, choosing: Choosing
) -> Training:
    """The limit that ends the training and that the schedule spans, and enough epochs to reach it:
    twice as many as the estimate of the rows says, so that none ends it."""
    stop, steps, tokens = training.stop, training.num_steps, training.num_tokens
    limits: dict[str, int]
    if steps != "off":
        why, limits = "num_steps", {"max_steps": steps}
        epochs = steps / steps_per_epoch(rows, settled(training.effective_batch_size))
    else:
        assert tokens != "off", "asked only of a training with a length"
        why, limits = "num_tokens", {"max_tokens": tokens}
        epochs = tokens / _tokens_of_epoch(contract, facts, rows)
    spans = stop.schedule_spans if isinstance(stop.schedule_spans, int) else "limits"
    values = {**limits, "schedule_spans": spans}
    choosing.made += [
        Choice(f"training.stop.{name}", value, f"what {why} says") for name, value in values.items()
    ]
    enough = 2 * math.ceil(epochs)
    choosing.made.append(Choice("training.num_epochs", enough, f"more than {why} needs"))
    ending: Stop = stop.model_copy(update=values)
    return training.model_copy(update={"stop": ending, "num_epochs": enough})


def _tokens_of_epoch(contract: Contract, facts: DataFacts, rows: int) -> float:
    """Targets of an epoch, as far as they are known; of a padded document all tokens but one."""
    if not contract.data.is_padded:
        return rows * contract.model.context_length
    lengths = [length - 1 for each in facts.documents.values() for length in each]
    longest = contract.model.context_length
    return max(1, sum(min(length, longest) for length in lengths))


def learning_rates(
    section: contract.AnyOptimizer, usual: Mapping[str, tuple[Json, str]] = NOTHING_USUAL
) -> Chosen:
    """Field -> (value, reason) for each learning rate of the optimizer; `usual` has the rate of
    Adam and AdamW where a family has its own."""
    match section:
        case contract.Sgd():
            rate, reason = 0.1, "the usual start of SGD with momentum on normalised networks"
            if not section.momentum:
                reason = "the usual start of SGD"
        case contract.Adam() | contract.AdamW() | contract.AdamW8bit():
            rate, reason = usual.get("learning_rate", (1e-3, "the usual start of Adam and AdamW"))
        case contract.Adafactor():
            rate, reason = 1e-2, "a hundredth of the weights' own size, as in Adafactor's paper"
        case contract.Lamb():
            rate, reason = 5e-3, "half a percent of each tensor's length a step"
        case contract.Lion():
            rate, reason = 1e-4, "a tenth of AdamW's: each number moves by the whole rate"
        case contract.ScheduleFreeAdamW():
            rate, reason = 2.5e-3, "more than AdamW's, as in the paper: the mean smooths the steps"
        case contract.Muon():
            return _of_muon(section)
        case _:
            assert_never(section)
    return {"learning_rate": (rate, reason)}


def _of_muon(section: contract.Muon) -> Chosen:
    match section.scale:
        case "match_rms_adamw":
            hidden = (1e-3, "updates of hidden matrices are as large as AdamW's")
        case "original":
            hidden = (0.02, "the original rate of Muon for hidden matrices")
        case _:
            assert_never(section.scale)
    rest = (1e-3, "a good start for AdamW, which trains the rest")
    return {"learning_rate": hidden, "adamw_learning_rate": rest}


def resume_choices(section: Resume, device: DeviceFacts) -> Chosen:
    """Field -> (value, reason) for `resume`."""
    grace = (_USUAL_SECONDS, "what most clouds and schedulers grant")
    if section.notice == "aws":
        grace = (_AWS_SECONDS, "AWS gives notice two minutes ahead")
    determinism = ("bitwise", "a CPU has algorithms that give the same bits every time")
    if device.kind == "cuda":
        determinism = ("off", "on a GPU it costs speed, and some operations have no such algorithm")
    return {"grace_seconds": grace, "determinism": determinism}


def window_steps(form: str) -> Chosen:
    """`every_n_steps` -> (value, reason). A measured step costs about the same for every network; a
    step over rows of a table, one `form` of data, is short."""
    if form == "table":
        return {"every_n_steps": (_SHORT_STEPS, "a step over a table is short")}
    return {"every_n_steps": (_LONG_STEPS, "often enough to see trouble early")}


def choose_tracking(contract: Contract, choosing: Choosing) -> Tracking:
    """`tracking` with the steps of a window, and the experiment."""
    tracking = contract.tracking
    if tracking.experiment == "auto":
        tracking = tracking.model_copy(update={"experiment": contract.name})
    if tracking.windows == "off":
        return tracking
    chosen = window_steps(contract.data.form)
    windows = choosing.take(tracking.windows, "tracking.windows", chosen)
    return tracking.model_copy(update={"windows": windows})


def choose_loss(contract: Contract, choosing: Choosing) -> Loss:
    """The loss of what is predicted."""
    loss = contract.training.loss
    if not isinstance(loss, AutoLoss):
        return loss
    chosen: Loss = CrossEntropy(name="cross_entropy")
    reason = f"{'classes' if contract.task == 'classification' else 'tokens'} are predicted"
    if contract.data.is_paired:
        chosen, reason = Dpo(name="dpo"), "one of two answers is preferred"
    if contract.data.class_order:
        chosen, reason = Ordinal(name="ordinal"), "the classes have an order"
    if contract.task in NUMERIC_TASKS:
        chosen, reason = SquaredError(name="mse"), "numbers are predicted"
    elif contract.task == "ranking":
        chosen, reason = ListNet(name="listnet"), "rows are ranked within queries"
    elif contract.task == "multilabel":
        chosen, reason = BinaryCrossEntropy(name="binary_cross_entropy"), "labels are predicted"
    elif contract.task == "retrieval":
        chosen, reason = Contrastive(name="contrastive"), "what belongs together is matched"
    if contract.metric.name in METRICS_OF_COUNTS:
        chosen, reason = Poisson(name="poisson"), f"the metric is {contract.metric.name}"
    if contract.metric.quantiles:
        chosen, reason = Quantile(name="quantile"), "quantiles are predicted"
    choosing.made.append(Choice("training.loss.name", chosen.name, reason))
    return chosen


def choose_early_stopping(contract: Contract, rows: int, choosing: Choosing) -> Json:
    """What early stopping watches, and how long it waits."""
    stopping, metric = contract.training.early_stopping, contract.metric
    if not isinstance(stopping, EarlyStopping):
        return stopping
    path = "training.early_stopping"
    watched = (f"val_{metric.name}", "the contract's metric")
    if (steering := steering_metric(metric.name)) != metric.name:
        watched = (f"val_{steering}", f"{metric.name} alone does not tell a better model")
    patience = _patience(contract, rows)
    stopping = choosing.take(stopping, path, {"metric": watched, "patience": patience})
    name = stopping.metric.removeprefix("val_")
    fact = METRICS.get(name)
    direction = fact.direction if fact is not None else "min"
    better = "more" if direction == "max" else "less"
    return choosing.take(stopping, path, {"mode": (direction, f"{better} {name} is better")})


def _patience(contract: Contract, rows: int) -> tuple[int, str]:
    """Validations without improvement before a training ends."""
    if contract.data.is_slow_to_improve:
        validations = Validations.of(contract, rows).count
        if validations // 3 > USUAL_PATIENCE:
            return validations // 3, f"a third of {validations} validations of {contract.data.kind}"
    return USUAL_PATIENCE, "enough for the noise of most validations"


def choose_batches(contract: Contract, rows: int, choosing: Choosing) -> Training:
    """The three batch sizes, whose product must be right; the rules have checked the given ones."""
    training = contract.training
    devices = contract.distributed.data_ranks
    usual = family_of(contract.model).usual_training(contract.model)
    batch, reason = usual.get("batch_size", _usual_batch(rows))
    accumulation, why = 1, "one micro-batch is a step"
    if training.effective_batch_size != "auto":
        wanted = training.effective_batch_size // devices
        if training.batch_size == "auto" and training.gradient_accumulation_steps == "auto":
            batch, reason = _divisor(wanted, batch), "a share of effective_batch_size"
        elif training.batch_size == "auto":
            batch = wanted // settled(training.gradient_accumulation_steps)
            reason = "what effective_batch_size leaves to a micro-batch"
        written = batch if training.batch_size == "auto" else training.batch_size
        accumulation, why = wanted // written, "what effective_batch_size needs"
    training = choosing.take(
        training,
        "training",
        {"batch_size": (batch, reason), "gradient_accumulation_steps": (accumulation, why)},
    )
    product = settled(training.batch_size) * settled(training.gradient_accumulation_steps) * devices
    why = "batch_size x gradient_accumulation_steps x devices"
    return choosing.take(training, "training", {"effective_batch_size": (product, why)})


def _usual_batch(rows: int) -> tuple[int, str]:
    """256; for fewer than 10,000 rows the power of two nearest to a fortieth of them."""
    if rows >= _FEW_ROWS:
        return _BATCH, f"{rows:,} training rows"
    power = 2 ** round(math.log2(max(1.0, rows / 40)))
    batch = min(_BATCH, max(_SMALLEST_BATCH, power))
    return batch, f"only {rows:,} training rows: about a fortieth of them"


def _divisor(whole: int, most: int) -> int:
    """The largest divisor of `whole` up to `most`; `whole` itself if that would be tiny."""
    largest = next(size for size in range(min(whole, most), 0, -1) if whole % size == 0)
    return largest if largest * 8 >= min(whole, most) else whole
