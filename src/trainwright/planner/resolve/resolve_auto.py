"""Resolves every `auto` of a contract, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.data import Data, query_of
from trainwright.contract.sections.data.split import (
    AutoSplit,
    GroupSplit,
    RandomSplit,
    StratifiedSplit,
)
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.metric import (
    METRICS,
    METRICS_OF_COUNTS,
    NUMERIC_TASKS,
    Metric,
    steering_metric,
)
from trainwright.contract.sections.model import Model
from trainwright.contract.sections.model.traits import TableDefaults
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.slices import Slice
from trainwright.contract.sections.tracking import Tracking
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
from trainwright.contract.sections.training.training import USUAL_PATIENCE, EarlyStopping, Training
from trainwright.core.files import Json
from trainwright.core.lazy_table import LazyTable
from trainwright.data.base.messages import quoted
from trainwright.data.columns.fit_target import choose_positive
from trainwright.data.columns.propose_columns import said, with_doubts
from trainwright.data.read_table import DataFacts
from trainwright.model.families import family_of
from trainwright.planner.count_validations import Validations
from trainwright.planner.estimate import most_steps, steps_per_epoch, train_rows_of
from trainwright.planner.learning_task import SEVERAL_METRICS, learning_task, several_task
from trainwright.planner.read_device import DeviceFacts
from trainwright.planner.resolve.choice import Choice, Choosing, Chosen
from trainwright.planner.resolve.resume_choices import resume_choices
from trainwright.planner.resolve.worker_choices import workers_by_rule

if TYPE_CHECKING:
    from trainwright.contract.sections.data.series import SeriesData

DataChooser: TypeAlias = Callable[[Contract, Any, DataFacts, Choosing], Data]

BATCH_CHOOSERS: Mapping[str, DataChooser] = LazyTable(
    {
        "tokens": "trainwright.planner.resolve.padding_choices:decide_padding",
        "chats": "trainwright.planner.resolve.padding_choices:decide_padding",
    }
)
"""What `auto` means there that depends on the batch size."""

_STEPS_WANTED = 4000
_FEWEST_EPOCHS, _MOST_EPOCHS = 10, 100
_BATCH, _SMALLEST_BATCH = 256, 16
_FEW_ROWS = 10_000
_PARTS = 3


def decide(
    contract: Contract, facts: DataFacts, device: DeviceFacts
) -> tuple[Contract, tuple[Choice, ...]]:
    """The contract without any `auto` that is not a rule of its own, and the choices.

    The width of embeddings stays `auto`: it is a rule for each column. So do the column types,
    which are in the data's facts, and `data.positive` unless there are two classes. Precision and
    kernels of a network are resolved once its size is known: `decide_compute`.
    """
    choosing = Choosing()
    contract = _task(contract, facts, choosing)
    contract = contract.model_copy(
        update={
            "metric": _metric(contract, facts, choosing),
            "data": _data(contract, facts, device, choosing),
            "model": _model(contract, facts, choosing),
            "resume": choosing.take(
                contract.resume, "resume", resume_choices(contract.resume, device)
            ),
            "distributed": choosing.take(
                contract.distributed,
                "distributed",
                {"num_gpus": (1, "one process"), "backend": ("gloo", "one process sends nothing")},
            ),
        }
    )
    slices = [
        _slice(part, at, contract.metric, choosing) for at, part in enumerate(contract.slices)
    ]
    contract = contract.model_copy(update={"slices": tuple(slices)})
    if contract.model.is_loop_trained:
        training = _training(contract, facts, choosing)
        tracking = _tracking(contract, choosing)
        contract = contract.model_copy(update={"training": training, "tracking": tracking})
        if chooser := BATCH_CHOOSERS.get(contract.data.kind):
            data = chooser(contract, contract.data, facts, choosing)
            contract = contract.model_copy(update={"data": data})
    return contract, tuple(choosing.made)


def _task(contract: Contract, facts: DataFacts, choosing: Choosing) -> Contract:
    target = facts.target
    if query := query_of(contract.data):
        chosen = ("ranking", f"rows are ranked within {query}")
    elif contract.data.possible_tasks == ("retrieval",):
        chosen = ("retrieval", "what belongs together is found")
    elif contract.data.possible_tasks == ("forecasting",):
        chosen = ("forecasting", "series go on in time")
    elif contract.data.has_several_targets:
        chosen = several_task(target.kind)
    elif target.kind == "numbers":
        chosen = ("regression", f"the target is a number with {target.distinct:,} different values")
    elif contract.data.possible_tasks == ("generation",):
        chosen = ("generation", "a text is continued")
    else:
        chosen = ("classification", f"the target has {len(target.classes)} classes")
    return choosing.take(contract, "", {"task": chosen})


def _metric(contract: Contract, facts: DataFacts, choosing: Choosing) -> Metric:
    if contract.data.has_several_targets:
        chosen = SEVERAL_METRICS[contract.task]
    elif contract.task == "regression":
        chosen = ("rmse", "the target is a number")
    elif contract.task == "ranking":
        chosen = ("ndcg", "rows are ranked within queries")
    elif contract.task == "forecasting":
        name = "scaled_pinball" if contract.metric.quantiles else "mase"
        chosen = (name, "errors of all series count in units of their own changes")
    elif contract.task == "retrieval":
        chosen = contract.data.usual_metric
    elif contract.task == "generation" and not contract.data.is_paired:
        chosen = ("nats_per_token", "what is predicted are tokens")
    elif contract.metric.costs:
        chosen = ("cost", "errors have costs")
    elif contract.data.class_order:
        chosen = ("quadratic_kappa", "the classes have an order")
    elif contract.data.usual_metric[0]:
        chosen = contract.data.usual_metric
    elif len(facts.target.classes) == 2:
        chosen = ("roc_auc", "there are two classes")
    else:
        chosen = ("f1_macro", f"there are {len(facts.target.classes)} classes")
    return choosing.take(contract.metric, "metric", {"name": chosen, "target": _clause(contract)})


def _clause(contract: Contract) -> tuple[Json, str]:
    if contract.model.traits.is_linear:
        return "baseline", "a linear model is one of the other baselines itself"
    return "every_baseline", "a model that a baseline replaces proves nothing"


def _slice(part: Slice, at: int, metric: Metric, choosing: Choosing) -> Slice:
    return choosing.take(part, f"slices.{at}", {"metric": (metric.name, "the contract's metric")})


def _data(contract: Contract, facts: DataFacts, device: DeviceFacts, choosing: Choosing) -> Data:
    on_gpu = device.kind == "cuda"
    data = choosing.take(
        contract.data,
        "data",
        {
            **workers_by_rule(contract, device),
            "pin_memory": (on_gpu, "there is a GPU" if on_gpu else "there is no GPU"),
        },
    )
    chooser = DATA_CHOOSERS.get(data.kind)
    return chooser(contract, data, facts, choosing) if chooser else data


def _table(contract: Contract, data: TableData, facts: DataFacts, choosing: Choosing) -> TableData:
    if contract.task == "classification" and len(facts.target.classes) == 2:
        data = choosing.take(data, "data", {"positive": choose_positive(facts.target.classes)})
    data = with_doubts(data, facts.doubts)
    for doubt in facts.doubts:
        path = f"data.columns.{as_key(doubt.column)}"
        choosing.made.append(Choice(path, said(doubt.settings), doubt.reason))
    rows_in: dict[str, tuple[Json, str]] = {"rows_in": facts.placing}
    reading = choosing.take(data.reading, "data.reading", rows_in)
    defaults = contract.model.traits.table
    features = choosing.take(
        data.features, "data.features", _features(defaults, settled(reading.rows_in))
    )
    # Reported only if there is a text.
    told = choosing if any(column.kind == "text" for column in facts.columns) else Choosing()
    texts: Chosen = {"reduce": defaults.reduce, "terms": defaults.terms}
    text = told.take(features.text, "data.features.text", texts)
    features = features.model_copy(update={"text": text})
    split = data.split
    if isinstance(split, AutoSplit):
        kept = {"validation": split.validation, "test": split.test, "folds": split.folds}
        if contract.task == "ranking":
            reason = "the rows of a query stay together"
            split = GroupSplit.model_validate({"kind": "group", "column": data.query, **kept})
        elif contract.task == "classification":
            reason = "the same class shares in every part"
            rare = [name for name, rows in facts.target.classes.items() if rows < _PARTS]
            few = "refuse"
            if rare and split.folds == "off":
                few = "train"
                reason += f"; {quoted(rare)} have too few rows to be judged, and train"
            split = StratifiedSplit.model_validate({"kind": "stratified", "rare": few, **kept})
        else:
            reason = "nothing says that rows depend on each other"
            split = RandomSplit.model_validate({"kind": "random", **kept})
        choosing.made.append(Choice("data.split.kind", split.kind, reason))
    return data.model_copy(update={"features": features, "split": split, "reading": reading})


def _series(
    contract: Contract, data: SeriesData, facts: DataFacts, choosing: Choosing
) -> SeriesData:
    traits = contract.model.traits
    of_trees = traits.trained_by == "library" and not traits.is_linear
    data = choosing.take(data, "data", dict(facts.choices(of_trees)))
    chosen = _features(traits.table, "memory")
    chosen["categorical"] = ("codes", "a series is a category of its own")
    features = choosing.take(data.features, "data.features", chosen)
    return data.model_copy(update={"features": features})


DATA_CHOOSERS: Mapping[str, DataChooser] = MappingProxyType({"table": _table, "series": _series})
"""What `auto` means in the sections of a kind of data that has some of its own."""


def _features(table: TableDefaults, rows_in: str) -> Chosen:
    """Encoding of columns; target statistics need all rows in memory."""
    categorical = table.categorical if rows_in == "memory" else TableDefaults().categorical
    return {"numeric": table.numeric, "impute": table.impute, "categorical": categorical}


def _model(contract: Contract, facts: DataFacts, choosing: Choosing) -> Model:
    resolved = contract.model_copy(update={"metric": _metric(contract, facts, Choosing())})
    task = learning_task(resolved, facts)
    chosen = dict(family_of(contract.model).choices(contract.model, task))
    return choosing.take(contract.model, "model", chosen)


def _training(contract: Contract, facts: DataFacts, choosing: Choosing) -> Training:
    # Imported here: only networks are trained by the loop.
    from trainwright.planner.resolve.average_choices import choose_average
    from trainwright.planner.resolve.checkpoint_choices import checkpoint_choices
    from trainwright.planner.resolve.length_choices import choose_length, has_length
    from trainwright.planner.resolve.optimizer_choices import learning_rates

    rows = train_rows_of(contract, facts)
    usual = family_of(contract.model).usual_training(contract.model)
    training = _batches(contract, rows, choosing)
    in_epoch = steps_per_epoch(rows, settled(training.effective_batch_size))
    if has_length(training):
        training = choose_length(contract, training, facts, rows, choosing)
    epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, math.ceil(_STEPS_WANTED / in_epoch)))
    length = (epochs, f"about {epochs * in_epoch:,} steps of {in_epoch:,} an epoch")
    lengths: Chosen = {"num_epochs": usual.get("num_epochs", length)}
    training = choosing.take(training, "training", lengths)
    decided = contract.model_copy(update={"training": training})
    steps = most_steps(decided, rows)
    optimizer = choosing.take(
        training.optimizer, "training.optimizer", learning_rates(training.optimizer, usual)
    )
    checkpointing = choosing.take(
        training.checkpointing,
        "training.checkpointing",
        checkpoint_choices(contract, training, in_epoch),
    )
    return training.model_copy(
        update={
            "loss": _loss(contract, choosing),
            "optimizer": optimizer,
            "checkpointing": checkpointing,
            "average": choose_average(training, steps, choosing),
            "early_stopping": _early_stopping(decided, rows, choosing),
        }
    )


def _tracking(contract: Contract, choosing: Choosing) -> Tracking:
    tracking = contract.tracking
    if tracking.windows == "off":
        return tracking
    from trainwright.planner.resolve.tracking_choices import window_steps

    chosen = window_steps(contract.data.form)
    windows = choosing.take(tracking.windows, "tracking.windows", chosen)
    return tracking.model_copy(update={"windows": windows})


def _loss(contract: Contract, choosing: Choosing) -> Loss:
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


def _early_stopping(contract: Contract, rows: int, choosing: Choosing) -> Json:
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


def _batches(contract: Contract, rows: int, choosing: Choosing) -> Training:
    """The three batch sizes, whose product must be right; the rules have checked the given ones."""
    training = contract.training
    devices = settled(contract.distributed.num_gpus)
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
