"""Rules on how columns become numbers."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.features import History
from trainwright.contract.sections.data.split import TimeSplit
from trainwright.contract.sections.data.table_data import TableData
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
