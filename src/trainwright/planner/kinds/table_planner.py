"""Planning of a table, and uses of rows in files that would need all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never, final

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key, nearest_word
from trainwright.contract.rules.data.table_rules import positive_needs_classes
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.data_traits import Balanced, Blocks, Uniform
from trainwright.contract.sections.data.split import split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.model.traits import Traits
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Problem
from trainwright.data.prepare_table import feature_columns
from trainwright.data.quality.columns.implausible_values import problem_with_pattern
from trainwright.data.read_table import DataFacts
from trainwright.planner.kinds.data_planner import DataPlanner, rows_after_split

_IN_MEMORY = "data.reading.rows_in: memory, on a machine that has as much"
_MOST_NAMED = 12
_NUMBER_BYTES = 4
_TERM_BYTES, _TERMS_OF_A_TEXT = 20, 200
_CODE_BYTES = 8
_TARGET_BYTES = 8


def problems_with_rows(contract: Contract, data: TableData, facts: DataFacts) -> Iterator[Problem]:
    """All problems with their paths, without places, for a resolved contract."""
    if not data.is_in_files:
        return
    why = facts.placing.reason
    model = contract.model
    divides = model.traits.divides_rows and contract.distributed.strategy != "single"
    if not (model.traits.reads_files or divides):
        libraries = kinds_with(lambda traits: _streams(traits) and traits.trained_by == "library")
        first, *others = kinds_with(_streams)
        yield Problem(
            f"a {model.kind} model needs all rows in memory, and they lie in files",
            path="model.kind",
            found=f"{model.kind}; {why}",
            expected=f"a network or {' or '.join(libraries)}, which read them a slice at a time",
            fix=f"model: {{kind: {first}}}, {' or '.join(others)}, or {_IN_MEMORY}",
        )
    yield from (
        Problem(
            f"{what} needs all rows in memory, and they lie in files",
            path=path,
            found=why,
            fix=f"{fix}, or {_IN_MEMORY}",
        )
        for path, what, fix in _needs(data, facts)
    )


def _streams(traits: Traits) -> bool:
    return "table" in traits.reads and traits.reads_files


def _needs(data: TableData, facts: DataFacts) -> Iterator[tuple[str, str, str]]:
    """Contract path, its value, and what to write instead."""
    # Imported here: few tables lie in files.
    from trainwright.data.quality.row_faults import is_by_row

    features = data.features
    if fold_count(data):
        yield "data.split.folds", "training once a fold", "remove folds"
    for kind, action in data.quality.asked().items():
        if not is_by_row(kind, action):
            path = f"data.quality.actions.{kind}"
            yield path, f"to {action} what the check of {kind} finds", "report it"
    if data.query:
        yield "data.query", "ranking the rows of a query", "take a sample of queries"
    if features.history != "off":
        yield "data.features.history", "the past of a row", "compute it into columns beforehand"
    encoded = {"data.features.categorical": str(features.categorical)}
    for name, column in data.columns.items():
        encoded[f"data.columns.{as_key(name)}.features.categorical"] = column.features.categorical
    for path, encoding in encoded.items():
        if encoding in ("target", "both", "by_count"):
            yield path, "a category as its mean target", "write codes"
    for typed in facts.columns:
        if typed.kind == "text":
            yield f"data.columns.{as_key(typed.name)}.kind", "a text as its terms", "write ignored"


def several_target_problems(contract: Contract, kind: str) -> Iterator[Problem]:
    """Several targets that are not what the task predicts."""
    if kind == "classes":
        yield Problem(
            "the targets are neither all numbers nor all labels",
            path="data.target",
            found="a column of words",
            expected="columns of numbers, or columns of 1 and 0, true and false, yes and no",
            fix="name one column in data.target, or columns of one kind",
        )
    elif kind == "numbers" and contract.task == "multilabel":
        yield Problem(
            "the targets are numbers, but the task is multilabel",
            path="task",
            found="other values than 1 and 0, true and false, yes and no",
            expected="columns that say of each label whether a row has it",
            fix="write task: regression",
        )


@final
class TablePlanner(DataPlanner[TableData]):
    """Planning of a table."""

    def train_rows(self) -> int:
        """As the interface says: exact for random and stratified splits. A network that ranks is
        trained on queries."""
        rows = rows_after_split(self.data.split, self.facts)
        if self.contract.task != "ranking" or not self.contract.model.is_loop_trained:
            return rows
        queries = next(one.distinct for one in self.facts.columns if one.name == self.data.query)
        return max(1, round(rows * queries / self.facts.rows))

    def encoded_bytes(self) -> int:
        """The encoded columns; 0 for rows in files."""
        if self.data.is_in_files:
            return 0
        a_row = _TARGET_BYTES
        for column in self.facts.columns:
            match column.kind:
                case "numeric" | "datetime":
                    # A column with missing values has an additional indicator.
                    a_row += _NUMBER_BYTES * (2 if column.missing else 1)
                case "categorical":
                    a_row += _CODE_BYTES
                case "text":
                    a_row += self._text_bytes()
                case "ignored":
                    pass
                case _:
                    assert_never(column.kind)
        return self.facts.rows * a_row

    def kinds_of_features(self) -> Mapping[str, str]:
        """As `feature_columns` chooses them."""
        return {one.name: one.kind for one in feature_columns(self.facts.columns, self.data)}

    def _text_bytes(self) -> int:
        """What a text takes: its directions, or those of its terms that occur in it."""
        text = self.data.features.text
        if text.reduce == "svd":
            return _NUMBER_BYTES * text.components
        return _TERM_BYTES * min(_TERMS_OF_A_TEXT, settled(text.terms))

    def decisive_problems(self) -> Iterator[Problem]:
        """The task that the target has."""
        data, contract, target = self.data, self.contract, self.facts.target
        name = data.target_name
        kind = f"data.columns.{as_key(name)}.kind"
        if data.has_several_targets:
            yield from several_target_problems(contract, target.kind)
            return
        if contract.task == "classification" and target.kind == "numbers":
            yield Problem(
                f"the target {name!r} is a number, but the task is classification",
                path="task",
                found=f"{target.distinct:,} different values",
                expected="a target of classes",
                fix=f"change task to regression, or {kind} to categorical",
            )
        if contract.task in ("regression", "ranking") and not all(map(_is_number, target.classes)):
            words = [label for label in target.classes if not _is_number(label)]
            yield Problem(
                f"the target {name!r} holds words, but the task is {contract.task}",
                path="task",
                found=_some(sorted(words)),
                expected="a target of numbers",
                fix="change task to classification, or name another target"
                if contract.task == "regression"
                else f"say what is relevant: data.columns.{as_key(name)}.values: "
                '{"yes": "1", "no": "0"}',
            )

    def column_problems(self) -> Iterator[Problem]:
        """Columns named by the contract must exist, and those of `model.monotone` be numeric
        features."""
        data, contract, facts = self.data, self.contract, self.facts
        names = [column.name for column in facts.columns]
        named = [(f"data.exclude.{at}", name) for at, name in enumerate(data.exclude)]
        named += [(f"data.columns.{as_key(name)}", name) for name in data.columns]
        named += [("data.query", data.query)] if data.query else []
        named += [("data.weight", data.weight)] if data.weight else []
        by = split_columns(data.split)
        named += [(f"data.split.{field}", name) for field, name in by if name != data.query]
        if not isinstance(data.sampling, Uniform | Balanced | Blocks):
            named.append(("data.sampling.column", data.sampling.column))
        named += [
            (f"slices.{at}.column", part.column)
            for at, part in enumerate(contract.slices)
            if part.column
        ]
        for name in contract.model.monotone_columns:
            named.append((f"model.monotone.{as_key(name)}", name))
        for path, name in named:
            if name not in names and name not in data.target_columns:
                close = nearest_word(name, [*names, *data.target_columns])
                yield Problem(
                    f"the data has no column {name!r}",
                    path=path,
                    found=name,
                    expected=f"one of: {_some(names)}",
                    fix=f"did you mean {close}?" if close else "choose one of the columns",
                )
        yield from self._without_direction()

    def _without_direction(self) -> Iterator[Problem]:
        """A prediction follows a numeric feature only."""
        columns = {column.name: column for column in self.facts.columns}
        kinds = self.kinds_of_features()
        numbers = [name for name, kind in kinds.items() if kind == "numeric"]
        for name in self.contract.model.monotone_columns:
            if name in numbers or (name not in columns and name not in self.data.target_columns):
                continue
            if name in self.data.target_columns:
                found = "the target"
            elif name in kinds:
                found = f"a {kinds[name]} column"
            else:
                found = f"a column that is no feature: {columns[name].reason}"
            yield Problem(
                f"the column {name!r} is no numeric feature of the model",
                path=f"model.monotone.{as_key(name)}",
                found=found,
                expected=f"one of: {_some(numbers)}" if numbers else "a numeric feature",
                fix="remove it",
            )

    def problems(self, written: frozenset[str]) -> Iterator[Problem]:
        """Patterns that the engine of regular expressions supports, and a positive class."""
        yield from self._patterns()
        yield from positive_needs_classes(self.contract, self.data, written)
        yield from self._positive()

    def storage_problems(self) -> Iterator[Problem]:
        """Uses of rows in files that would need all of them in memory."""
        return problems_with_rows(self.contract, self.data, self.facts)

    def _patterns(self) -> Iterator[Problem]:
        for name, column in self.data.columns.items():
            if column.pattern:
                path = f"data.columns.{as_key(name)}.pattern"
                if problem := problem_with_pattern(column.pattern, path):
                    yield problem

    def _positive(self) -> Iterator[Problem]:
        positive, classes = self.data.positive, sorted(self.facts.target.classes)
        if self.contract.task != "classification" or positive == "auto":
            return
        if len(classes) != 2:
            yield Problem(
                f"data.positive needs two classes, but the target has {len(classes)}",
                path="data.positive",
                found=positive,
                fix="remove positive",
            )
        elif positive not in classes:
            close = nearest_word(positive, classes)
            yield Problem(
                f"no row has the class {positive!r}",
                path="data.positive",
                found=positive,
                expected=f"one of: {', '.join(classes)}",
                fix=f"did you mean {close}?" if close else "choose one of the two",
            )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
