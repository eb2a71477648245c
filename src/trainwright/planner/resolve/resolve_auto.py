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
    Metric,
    Slice,
)
from trainwright.contract.sections.model.traits import TableDefaults
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Training
from trainwright.core.files import Json
from trainwright.core.lazy_imports import LazyTable
from trainwright.data.base.messages import quoted
from trainwright.data.columns.fit_target import choose_positive
from trainwright.data.columns.resolve_doubts import said, with_doubts
from trainwright.data.read_table import DataFacts
from trainwright.model.families import family_of
from trainwright.planner.estimate import most_steps, steps_per_epoch, train_rows_of
from trainwright.planner.plan_facts import SEVERAL_METRICS, DeviceFacts, learning_task, several_task
from trainwright.planner.resolve.compute_choices import workers_by_rule
from trainwright.planner.resolve.training_choices import (
    Choice,
    Choosing,
    Chosen,
    checkpoint_choices,
    choose_average,
    choose_batches,
    choose_early_stopping,
    choose_length,
    choose_loss,
    choose_tracking,
    has_length,
    learning_rates,
    resume_choices,
)

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
_PARTS = 3


def decide(
    contract: Contract, facts: DataFacts, device: DeviceFacts
) -> tuple[Contract, tuple[Choice, ...]]:
    """The contract without any `auto` that is not a rule of its own, and the choices.

    The width of embeddings stays `auto`: it is a rule for each column. So do the threads, whose
    number is the machine's, the column types, which are in the data's facts, and `data.positive`
    unless there are two classes. `distributed.strategy` is measured where there are several
    processes. Precision and kernels of a network are resolved once its size is
    known: `decide_compute`.
    """
    choosing = Choosing()
    if contract.distributed.strategy == "auto":
        # Imported here: few contracts leave it open.
        from trainwright.planner.resolve.rank_choices import choose_alone

        contract = choose_alone(contract, device, choosing)
    contract = _choose_calibration(_task(contract, facts, choosing), choosing)
    update = {
        "metric": _metric(contract, facts, choosing),
        "data": _data(contract, facts, device, choosing),
    }
    contract = contract.model_copy(update=update)
    of_model = family_of(contract.model).choices(contract.model, learning_task(contract, facts))
    contract = contract.model_copy(
        update={
            "model": choosing.take(contract.model, "model", dict(of_model)),
            "resume": choosing.take(
                contract.resume, "resume", resume_choices(contract.resume, device)
            ),
            "distributed": choosing.take(
                contract.distributed, "distributed", _ranks(contract, device)
            ),
        }
    )
    slices = [
        _slice(part, at, contract.metric, choosing) for at, part in enumerate(contract.slices)
    ]
    contract = contract.model_copy(update={"slices": tuple(slices)})
    if contract.model.is_loop_trained:
        training = _training(contract, facts, choosing)
        tracking = choose_tracking(contract, choosing)
        contract = contract.model_copy(update={"training": training, "tracking": tracking})
        if chooser := BATCH_CHOOSERS.get(contract.data.kind):
            data = chooser(contract, contract.data, facts, choosing)
            contract = contract.model_copy(update={"data": data})
    return contract, tuple(choosing.made)


def _ranks(contract: Contract, device: DeviceFacts) -> dict[str, tuple[Json, str]]:
    """Over how many devices, and how they exchange tensors."""
    if contract.distributed.strategy == "single":
        return {"num_gpus": (1, "one process"), "backend": ("gloo", "one process sends nothing")}
    backend = ("nccl", "between GPUs") if device.kind == "cuda" else ("gloo", "between processes")
    return {"num_gpus": (device.ranks, "the devices of this machine"), "backend": backend}


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


def _choose_calibration(contract: Contract, choosing: Choosing) -> Contract:
    training = contract.training
    if training.calibration != "default":
        return contract
    chosen = "none"
    if contract.metric.quantiles and contract.data.possible_tasks == ("forecasting",):
        chosen, reason = "conformal", "intervals hold on the validation origins what they say"
        choosing.made.append(Choice("training.calibration", chosen, reason))
    training = training.model_copy(update={"calibration": chosen})
    return contract.model_copy(update={"training": training})


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


def _training(contract: Contract, facts: DataFacts, choosing: Choosing) -> Training:
    rows = train_rows_of(contract, facts)
    usual = family_of(contract.model).usual_training(contract.model)
    training = choose_batches(contract, rows, choosing)
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
            "loss": choose_loss(contract, choosing),
            "optimizer": optimizer,
            "checkpointing": checkpointing,
            "average": choose_average(training, steps, choosing),
            "early_stopping": choose_early_stopping(decided, rows, choosing),
        }
    )
