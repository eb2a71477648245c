"""Rules on a table: its parts, target and columns, and how columns become numbers."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.rules.data.source_rules import (
    QUALITY_RULES,
    no_source_column,
    one_source,
    query_is_whole,
)
from trainwright.contract.rules.target.ranking_rules import RANKING_RULES
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.data_traits import Mixture, Weighted
from trainwright.contract.sections.data.split import (
    AutoSplit,
    ColumnSplit,
    FileSplit,
    TimeSplit,
    split_columns,
)
from trainwright.contract.sections.data.table_data import History, TableData
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import Problem


def missing_numbers_are_filled(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Few models read a missing number; in the others it would make every output one."""
    if contract.model.traits.reads_missing:
        return
    imputed = {"data.features.impute": str(data.features.impute)}
    for name, column in data.columns.items():
        imputed[f"data.columns.{as_key(name)}.features.impute"] = column.features.impute
    reading = " or ".join(kinds_with(lambda traits: traits.reads_missing))
    for path, impute in imputed.items():
        if impute == "none":
            yield Problem(
                f"a model of kind {contract.model.kind} cannot read missing numbers",
                path=path,
                found="none",
                expected=f"none only where model.kind is {reading}",
                fix="change it to median, or remove it",
            )


def features_fit_the_kind(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """What is said of one column is said of its kind."""
    columns = data.columns
    meant = {
        "numeric": ("numeric", "impute"),
        "categorical": ("categorical", "rare_below", "max_categories"),
    }
    for name, column in columns.items():
        for key in type(column.features).model_fields:
            unfit = column.kind != "auto" and key not in meant.get(column.kind, ())
            if unfit and getattr(column.features, key) != "inherit":
                yield Problem(
                    f"{key} has no effect on a {column.kind} column",
                    path=f"data.columns.{as_key(name)}.features.{key}",
                    found=str(getattr(column.features, key)),
                    fix=f"remove {key}, or change kind",
                )


def history_is_past(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """The past of a training row lies in the training part, and is known when the row comes."""
    history = data.features.history
    if not isinstance(history, History):
        return
    path = "data.features.history"
    split = data.split
    if not isinstance(split, TimeSplit) or split.column != history.time:
        yield Problem(
            "the past of a row is defined only where the rows are divided by the same time",
            path=f"{path}.time",
            found=f"a split of kind {split.kind}",
            expected=f"data.split {{kind: time, column: {history.time}}}",
            fix=f"write data.split: {{kind: time, column: {history.time}}}",
        )
    if not history.lags and not (history.windows and history.statistics):
        yield Problem(
            "a history without lags and windows gives no column",
            path=path,
            expected="lags, or windows with statistics",
            fix="add for example: lags: [1]",
        )
    for at, lag in enumerate(history.lags):
        if lag < history.horizon:
            yield Problem(
                f"the row {lag} back is not known: the horizon is {history.horizon}",
                path=f"{path}.lags.{at}",
                found=str(lag),
                expected=f"at least {history.horizon}",
                fix=f"change it to {history.horizon}, or lower the horizon",
            )


def target_has_no_features(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """The target is predicted as it was measured; nothing is done to its numbers or classes."""
    for name in data.target_columns:
        column = data.columns.get(name)
        asked = column.features.model_dump(exclude_defaults=True) if column else {}
        for key, value in asked.items():
            yield Problem(
                f"the target {name!r} is no feature: {key} would change nothing",
                path=f"data.columns.{as_key(name)}.features.{key}",
                found=str(value),
                fix="remove the key; a transformed target is a column of its own in the file",
            )


FEATURE_RULES = (
    missing_numbers_are_filled,
    features_fit_the_kind,
    target_has_no_features,
    history_is_past,
)
"""All of them, for the list of rules."""


def split_of_given_parts(
    _contract: Contract, data: TableData, written: frozenset[str]
) -> Iterator[Problem]:
    """A part with a file of its own is not divided off again."""
    given = {"validation": ("val_path", data.val_path), "test": ("test_path", data.test_path)}
    for part, (key, path) in given.items():
        if path and f"data.split.{part}" in written:
            yield Problem(
                f"data.split.{part} has no effect beside data.{key}",
                path=f"data.split.{part}",
                expected=f"only one of data.split.{part} and data.{key}",
                fix="remove one of the two",
            )
    everything_given = all(path for _, path in given.values())
    split = data.split
    if everything_given and not isinstance(split, AutoSplit):
        yield Problem(
            f"the {split.kind} split divides nothing: validation and test have their own files",
            path="data.split",
            found=f"kind {split.kind}, data.val_path and data.test_path",
            fix="remove data.split, or val_path and test_path",
        )
    elif isinstance(split, ColumnSplit | FileSplit) and (data.val_path or data.test_path):
        yield Problem(
            f"a split by {split.kind} says where every row belongs, so no part has a file of its "
            "own",
            path="data.split",
            found=f"kind {split.kind} beside data.val_path or data.test_path",
            fix="remove data.split, or the path",
        )
    elif fold_count(data) and (data.val_path or data.test_path):
        yield Problem(
            "every row is tested once in its fold, so no part has a file of its own",
            path="data.split.folds",
            found="folds beside data.val_path or data.test_path",
            fix="remove folds, or the path",
        )


def target_is_not_a_feature(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """The target is read, never excluded, and never decides the split."""
    for target in data.target_columns:
        if target in data.exclude:
            yield Problem(
                f"the target {target!r} is excluded; a target is never a feature anyway",
                path="data.exclude",
                fix="remove it from exclude",
            )
        column = data.columns.get(target)
        if column is not None and column.kind == "ignored":
            yield Problem(
                f"the target {target!r} is ignored",
                path=f"data.columns.{as_key(target)}.kind",
                found="ignored",
                fix="remove the key, or name another target",
            )
    for field, name in split_columns(data.split):
        if name in data.target_columns:
            yield Problem(
                f"the {data.split.kind} split goes by the target {name!r}",
                path=f"data.split.{field}",
                found=name,
                expected="another column than data.target",
                fix="name the column that the rows are divided by",
            )


def column_kinds_fit(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A format is one of dates; a unit stands beside numbers."""
    for name, column in data.columns.items():
        written = (
            ("format", "datetime", column.format if column.format != "auto" else ""),
            ("unit", "numeric", column.unit),
        )
        for field, kind, value in written:
            if value and column.kind not in ("auto", kind):
                yield Problem(
                    f"a {column.kind} column has no {field}",
                    path=f"data.columns.{as_key(name)}.{field}",
                    found=value,
                    expected=f"{field} only beside kind: {kind}",
                    fix=f"remove {field}, or change kind to {kind}",
                )


def time_is_said_once(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A time split goes by a column, by parts of a time, or by the order of the file."""
    if not isinstance(data.split, TimeSplit):
        return
    split = data.split
    said = [bool(split.column), bool(split.parts), split.order == "file"]
    if sum(said) != 1:
        yield Problem(
            "a time split needs a time" if not any(said) else "the time is said twice",
            path="data.split",
            found=f"column {split.column!r}, parts {list(split.parts)}, order {split.order}",
            expected="one of column, parts and order: file",
            fix="write column: NAME, or order: file if the rows stand in the order of time",
        )
    if split.parts and (split.gap or split.window != "all"):
        yield Problem(
            "parts of a time have no distance",
            path="data.split.gap" if split.gap else "data.split.window",
            found=f"parts {list(split.parts)}",
            expected="gap and window only beside a column, or order: file",
            fix="remove it, or make one column of the parts",
        )


def positive_needs_classes(
    contract: Contract, data: TableData, written: frozenset[str]
) -> Iterator[Problem]:
    """Numbers have no positive class."""
    if contract.task in ("regression", "ranking", "multilabel") and "data.positive" in written:
        yield Problem(
            f"data.positive has no meaning in a {contract.task}",
            path="data.positive",
            found=data.positive,
            expected="positive only where task is classification",
            fix="remove positive, or change task",
        )


def check_source_column(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A mixture of rows names the column of their source."""
    sampling = data.sampling
    if isinstance(sampling, Mixture) and not sampling.column:
        yield no_source_column()


def check_row_weights(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A column of weights is neither the target nor what rows are drawn by, and the model has a use
    for it."""
    if not data.weight:
        return
    path = "data.weight"
    if data.weight in data.target_columns:
        yield Problem(
            f"the target {data.weight!r} is no weight",
            path=path,
            found=data.weight,
            expected="another column than data.target",
            fix="remove data.weight",
        )
    if not contract.model.traits.weighs_rows:
        fitting = kinds_with(lambda one: one.weighs_rows and "table" in one.reads)
        yield Problem(
            f"a model of kind {contract.model.kind} counts all rows alike",
            path=path,
            found=data.weight,
            expected=f"one of these models: {', '.join(fitting)}",
            fix="remove data.weight, or write model: {kind: boosting}",
        )
    if data.query:
        message = "the rows of a query are ranked together, and have no weights of their own"
        yield _beside_weight(data, message, "beside data.query")
    if contract.metric.quantiles:
        message = "several quantiles are learned from rows that count alike"
        yield _beside_weight(data, message, "beside metric.quantiles")
    if isinstance(data.sampling, Weighted) and data.sampling.column == data.weight:
        message = "rows that are drawn by their weight and weighed by it would count twice"
        yield _beside_weight(data, message, "also in data.sampling.column")


def _beside_weight(data: TableData, message: str, other: str) -> Problem:
    return Problem(
        message,
        path="data.weight",
        found=f"{data.weight}, {other}",
        expected="one of the two",
        fix="remove data.weight",
    )


def several_targets(
    contract: Contract, data: TableData, written: frozenset[str]
) -> Iterator[Problem]:
    """What several targets, or labels, go together with."""
    says_so = contract.task == "multilabel" or data.labels.empty != "missing"
    of_labels = contract.training.loss.name == "binary_cross_entropy"
    if data.has_several_targets or says_so or of_labels:
        # Imported here: few tables have several targets.
        from trainwright.contract.rules.target.several_rules import SEVERAL_RULES

        for rule in SEVERAL_RULES:
            yield from rule(contract, data, written)


TABLE_RULES = (
    one_source,
    query_is_whole,
    split_of_given_parts,
    target_is_not_a_feature,
    column_kinds_fit,
    time_is_said_once,
    *FEATURE_RULES,
    positive_needs_classes,
    check_source_column,
    check_row_weights,
    *QUALITY_RULES,
    *RANKING_RULES,
    several_targets,
)
"""All of them, for the rules of each kind of data."""
