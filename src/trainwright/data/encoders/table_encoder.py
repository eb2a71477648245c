"""Table encoder: typed columns to model inputs, fitted on the training rows only, stored as
JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.table_data import Column
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.contract.sections.section import settled
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import Vocabulary, fit_vocabulary
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import Floats, Inputs, Part, TableInputs, below, beside
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, is_one_slice, slices_of
from trainwright.data.columns.column_kinds import ColumnType, new_problems
from trainwright.data.columns.typed_rows import (
    Limit,
    check_known,
    limited,
    missing_column,
    share_filled,
)
from trainwright.data.encoders.encoding import (
    FrameEncoding,
    InputColumn,
    NewRows,
    describe_columns,
    names_of_kind,
    number_columns,
    number_matrix,
    number_rows,
    profile_columns,
)
from trainwright.data.encoders.scaling import NumberState, fit_numbers
from trainwright.data.encoders.target_encoding import (
    TargetMeans,
    TrainTarget,
    cross_fitted,
    fit_means,
)
from trainwright.data.encoders.tfidf import Terms, fit_terms
from trainwright.data.encoders.time_features import NO_HISTORY, DatePart, LagFeatures, fit_dates
from trainwright.data.sources.source_file import FileVersion, SourceFile

FORMAT = 2
_MANY, _MOST_MEANS = 100, 10
"""Categories from which on mean targets help trees beside the codes, and the most columns of them:
there is one for each class."""


@final
@dataclass(frozen=True, slots=True)
class TableEncoder(FrameEncoding):
    """Fitted encoder of table rows.

    `columns` are the typed feature columns, `dates` the date parts that differ between training
    rows, `history` what earlier rows say, `means` the categories that become mean targets.
    `numbers` is the fitted imputation and scaling of numeric columns, followed by those of dates,
    history and means. `texts` stand behind them unchanged. `limits` are applied before anything
    else; `filled` are the shares of training rows with a known value, by column.
    """

    columns: tuple[ColumnType, ...]
    cleaning: Cleaning
    dates: tuple[DatePart, ...]
    history: LagFeatures
    means: tuple[TargetMeans, ...]
    numbers: NumberState
    vocabularies: tuple[Vocabulary, ...]
    texts: tuple[Terms, ...]
    limits: tuple[Limit, ...] = ()
    filled: Mapping[str, float] = field(default_factory=dict)

    modality: ClassVar[str] = "table"
    reads_columns: ClassVar[bool] = True

    @property
    def typed(self) -> TableEncoder:
        """Itself."""
        return self

    @property
    def plotted_columns(self) -> tuple[str, ...]:
        """The columns of numbers, categories and dates."""
        return tuple(column.name for column in self.columns if column.kind != "text")

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """The feature columns."""
        return tuple(column.name for column in self.columns)

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """The columns of `TableInputs.numeric`, then those of its terms."""
        names = (
            *names_of_kind(self.columns, "numeric"),
            *(date.name for date in self.dates),
            *self.history.names,
            *(name for means in self.means for name in means.names),
        )
        indicators = (f"{names[i]} (missing)" for i in self.numbers.indicated)
        texts = (*self._texts(reduced=True), *self._texts(reduced=False))
        return (*names, *indicators, *(name for text in texts for name in text.names))

    def _texts(self, *, reduced: bool) -> tuple[Terms, ...]:
        return tuple(text for text in self.texts if text.is_reduced == reduced)

    @property
    def categorical_names(self) -> tuple[str, ...]:
        """The columns of `Inputs.categories`."""
        return tuple(vocabulary.name for vocabulary in self.vocabularies)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of codes of each categorical column."""
        return tuple(vocabulary.cardinality for vocabulary in self.vocabularies)

    @property
    def known(self) -> tuple[Vocabulary, ...]:
        """The categories of each column that has some, one vocabulary a column."""
        every = (*self.vocabularies, *(one.vocabulary for one in self.means))
        return tuple({one.name: one for one in reversed(every)}.values())

    def read_new(self, rows: NewRows, /) -> TableInputs:
        """Typed as `read`, and encoded."""
        return self.transform(self.read(rows.frame(), rows.source))

    def count_unseen(self, rows: NewRows, /) -> dict[str, int]:
        """As `count_unseen_in`; raises what `read` does."""
        return self.count_unseen_in(self.read(rows.frame()))

    def count_unseen_in(self, typed: pl.DataFrame) -> dict[str, int]:
        """Rows with an unseen category, or with no value where every training row has one, for each
        column that has any."""
        lacked = (one.name for one in self.columns if not one.missing)
        counts = Counter({name: typed[name].null_count() for name in lacked})
        counts.update({one.name: one.count_unseen(typed[one.name]) for one in self.known})
        return {name: count for name, count in counts.items() if count}

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """The rows of the part's frame, encoded a slice at a time."""
        return (self.transform(rows) for rows in slices_of(part.frame))

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Distribution of each column."""
        return {"columns": profile_columns(part.frame, self.columns)}

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """The feature columns."""
        return describe_columns(self.columns, profile["columns"])

    def shape_json(self, outputs: int) -> Json:
        """Numbers and codes."""
        shape = {"numeric": len(self.numeric_names), "cardinalities": list(self.cardinalities)}
        return {"kind": "table", **shape, "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number, and the kinds of the columns."""
        kinds = Counter(column.kind for column in self.columns)
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        return f"{many(rows, 'row')} · {listed} column{'s' * (len(self.columns) != 1)}"

    def transform(self, frame: pl.DataFrame, space: RowStorage = IN_MEMORY) -> TableInputs:
        """Encode typed rows (from `read`, or a `Part.frame`) a slice at a time into `space`; where
        mean targets are among the features, `fit_features` gives the training rows."""
        means = [one.values(frame[one.vocabulary.name]) for one in self.means]
        return self.encode(frame, means, space)

    def encode(
        self, frame: pl.DataFrame, means: list[Floats], space: RowStorage = IN_MEMORY
    ) -> TableInputs:
        """Encode typed rows whose mean targets [N, K] are given."""
        if is_one_slice(frame.height) and space is IN_MEMORY:
            return self._encoded(frame, means)
        terms_wide = sum(len(text.names) for text in self._texts(reduced=False))
        width = len(self.numeric_names) - terms_wide
        numeric = space.array((frame.height, width), np.float32)
        categories = space.array((frame.height, len(self.vocabularies)), np.int64)
        terms = []
        for start, stop in bounds(frame.height):
            rows = frame.slice(start, stop - start)
            some = self._encoded(rows, [one[start:stop] for one in means])
            numeric[start:stop], categories[start:stop] = some.numeric, some.categories
            terms.append(some.terms)
        return TableInputs(numeric, categories, space is not IN_MEMORY, below(terms))

    def _encoded(self, frame: pl.DataFrame, means: list[Floats]) -> TableInputs:
        frame = limited(frame, self.limits)
        values = number_matrix(frame, number_columns(self.columns, self.dates, self.history))
        numeric = self.numbers.transform(np.concatenate([values, *means], axis=1))
        directions = [text.transform(frame[text.column]) for text in self._texts(reduced=True)]
        numeric = np.concatenate([numeric, *directions], axis=1)
        terms = [text.weigh(frame[text.column]) for text in self._texts(reduced=False)]
        codes = [vocabulary.encode(frame[vocabulary.name]) for vocabulary in self.vocabularies]
        categories = np.stack(codes, axis=1) if codes else np.empty((frame.height, 0), np.int64)
        return TableInputs(numeric, categories, terms=beside(terms))

    def read(self, frame: pl.DataFrame, source: str = "the rows") -> pl.DataFrame:
        """Type new rows (all text, or typed) as the training file was typed.

        Other columns are ignored, in any order; earlier rows that count must be among these.

        Raises:
            DataMistake: a feature column is missing or empty, or values are not of its kind.
        """
        file = SourceFile(frame, FileVersion(source, "", 0, frame.height), np.empty(0, np.int64))
        names = dict.fromkeys(frame.columns)
        typed: list[pl.Series] = []
        problems: list[Problem] = []
        for column in dict.fromkeys((*self.columns, *self._read_beside())):
            if column.name not in names:
                problems.append(missing_column(column, list(names), file))
                continue
            cells = frame[column.name]
            if column.kind == "numeric" and cells.dtype == pl.Boolean:
                cells = cells.cast(pl.Int8)
            series, found = new_problems(self.cleaning.cells(cells), column, file)
            typed.append(series)
            problems += found
        if problems:
            raise DataMistake(problems)
        check_known(self.filled, typed, self.known, source)
        return self.history.added(pl.DataFrame(typed))

    def allow_unknown(self, columns: Collection[str], /) -> TableEncoder:
        """The same, for new rows in most of which these columns may be empty or unknown."""
        return replace(self, filled={n: s for n, s in self.filled.items() if n not in columns})

    def trial_inputs(self) -> list[Inputs]:
        """A row of missing values, and the same with the last code of each category."""
        blank = self.transform(pl.concat([self.blank_row()] * 2))
        codes = np.stack([blank.categories[0], np.array(self.cardinalities, np.int64) - 1])
        return [TableInputs(blank.numeric, codes, terms=blank.terms)]

    def blank_row(self) -> pl.DataFrame:
        """A typed row in which everything is missing."""
        kinds = {"numeric": pl.Float64(), "datetime": pl.Datetime("us")}
        known = {one.name: kinds.get(one.kind, pl.String()) for one in self.columns}
        known |= {name: pl.Float64() for name in self.history.names}
        return pl.DataFrame([pl.Series(name, [None], kind) for name, kind in known.items()])

    def _read_beside(self) -> tuple[ColumnType, ...]:
        """Columns that are no features and are read for the past of others."""
        names = {column.name for column in self.columns}
        return tuple(column for column in self.history.types if column.name not in names)

    def to_json(self) -> Json:
        """What `from_json` reads; both encode every row to the same bits."""
        return {"kind": self.modality, **self._content(), "filled": dict(self.filled)}

    def _content(self) -> Json:
        return {
            "format": FORMAT,
            "columns": [column.to_json() for column in self.columns],
            "cleaning": self.cleaning.to_json(),
            "dates": [[date.column, date.part] for date in self.dates],
            "history": self.history.to_json(),
            "means": [means.to_json() for means in self.means],
            "numbers": self.numbers.to_json(),
            "vocabularies": [vocabulary.to_json() for vocabulary in self.vocabularies],
            "texts": [text.to_json() for text in self.texts],
            "limits": [limit.to_json() for limit in self.limits],
        }

    def identity(self) -> Json:
        """What decides every encoded row, for the version of the data."""
        return {**self._content(), "texts": [text.identity() for text in self.texts]}

    @classmethod
    def from_json(cls, value: Json) -> TableEncoder:
        """The features that `to_json` wrote.

        Raises:
            ValueError: another format.
        """
        if value.get("format") != FORMAT:
            raise ValueError(f"features of format {value.get('format')!r}, expected {FORMAT}")
        vocabularies = tuple(Vocabulary.from_json(item) for item in value["vocabularies"])
        labels = {one.name: (*one.kept, *one.rare) for one in vocabularies}
        return cls(
            columns=tuple(ColumnType.from_json(column) for column in value["columns"]),
            cleaning=Cleaning.from_json(value["cleaning"]).with_booleans(labels),
            dates=tuple(DatePart(column, part) for column, part in value["dates"]),
            history=LagFeatures.from_json(value["history"]),
            means=tuple(TargetMeans.from_json(item) for item in value["means"]),
            numbers=NumberState.from_json(value["numbers"]),
            vocabularies=vocabularies,
            texts=tuple(Terms.from_json(item) for item in value["texts"]),
            limits=tuple(Limit.from_json(item) for item in value["limits"]),
            filled=value.get("filled", {}),
        )


@final
@dataclass(frozen=True, slots=True)
class TrainRows:
    """What features are fitted on: the typed training rows with their past, the columns that become
    inputs, and what gives what is averaged where a category becomes a mean."""

    frame: pl.DataFrame
    columns: tuple[ColumnType, ...]
    cleaning: Cleaning
    target: Callable[[], TrainTarget]
    history: LagFeatures = NO_HISTORY
    limits: tuple[Limit, ...] = ()


def fit_features(
    rows: TrainRows,
    section: FeaturesSection,
    written: Mapping[str, Column],
    space: RowStorage = IN_MEMORY,
) -> tuple[TableEncoder, TableInputs]:
    """Fit on the training rows, and encode them into `space`. `written` says what is known of
    single columns.

    A training row is encoded with the mean targets of the folds it is not in.
    """
    frame, columns = rows.frame, rows.columns
    categories = _fit_categories(rows, section, written)
    dates = fit_dates(frame, names_of_kind(columns, "datetime"), section.dates)
    taken = number_columns(columns, dates, rows.history)
    numbers = number_rows(frame, rows.limits, taken, categories.crossed)
    sections = [_own(section, written, name) for name in names_of_kind(columns, "numeric")]
    sections += [section] * (numbers.width - len(sections))
    alone = [column.kind == "ignored" for column in columns].count(False) == 1
    features = TableEncoder(
        columns=columns,
        cleaning=rows.cleaning,
        dates=dates,
        history=rows.history,
        means=categories.means,
        numbers=fit_numbers(
            numbers,
            [settled(own.numeric) for own in sections],
            [settled(own.impute) for own in sections],
            space,
        ),
        vocabularies=categories.vocabularies,
        texts=tuple(
            fit_terms(frame[name], section.text, alone=alone)
            for name in names_of_kind(columns, "text")
        ),
        limits=rows.limits,
    )
    features = replace(features, filled=share_filled(frame, columns, features.known))
    return features, features.encode(frame, list(categories.crossed), space)


@final
@dataclass(frozen=True, slots=True)
class _Categories:
    """The fitted categorical columns: those that become codes, and those that become mean targets,
    with the training rows' own means `crossed`, float64 [N, K] each, of the folds they are not
    in."""

    vocabularies: tuple[Vocabulary, ...]
    means: tuple[TargetMeans, ...]
    crossed: tuple[Floats, ...]


def _fit_categories(
    rows: TrainRows, section: FeaturesSection, written: Mapping[str, Column]
) -> _Categories:
    means: list[TargetMeans] = []
    crossed: list[Floats] = []
    vocabularies: list[Vocabulary] = []
    for name in names_of_kind(rows.columns, "categorical"):
        own = _own(section, written, name)
        vocabulary = fit_vocabulary(rows.frame[name], own.rare_below, own.max_categories)
        # Without a plan, which knows the model, a category is its code.
        encoding = "codes" if own.categorical == "auto" else own.categorical
        if encoding != "target":
            vocabularies.append(vocabulary)
        if encoding == "codes" or (encoding == "by_count" and len(vocabulary.kept) < _MANY):
            continue
        codes, size = vocabulary.encode(rows.frame[name]), vocabulary.cardinality
        target = rows.target()
        if encoding == "by_count" and len(target.names) > _MOST_MEANS:
            continue
        known = fit_means(codes, target.values, size, own.smoothing)
        means.append(TargetMeans(vocabulary, target.names, known))
        crossed.append(cross_fitted(codes, target, size, own.smoothing))
    return _Categories(tuple(vocabularies), tuple(means), tuple(crossed))


def _own(section: FeaturesSection, written: Mapping[str, Column], name: str) -> FeaturesSection:
    """The section's settings for one column."""
    own = written.get(name, Column()).features
    said = {key: value for key, value in own if value != "inherit"}
    return section.model_copy(update=said)
