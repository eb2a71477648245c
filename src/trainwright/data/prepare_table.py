"""Table preparation: split, fit on the training part, encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, final

import numpy.typing as npt
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.split import TimeSplit, split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.base.inputs import NO_WEIGHTS, Floats, Inputs, Integers, Part, PartName
from trainwright.data.base.messages import AppliedAction
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import RowStorage, bounds, gathered, slices_of, taken
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.columns.fit_target import fit_target
from trainwright.data.columns.target import Target, encoded
from trainwright.data.columns.typed_rows import Limit
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.encoders.table_encoder import TrainRows, fit_features
from trainwright.data.encoders.target_encoding import train_target
from trainwright.data.encoders.text_tokenizer import NO_TEXTS, TextReading
from trainwright.data.encoders.time_features import NO_HISTORY, LagFeatures, fit_history
from trainwright.data.quality.finding import Acted
from trainwright.data.read_table import RawTable
from trainwright.data.split.random_split import (
    PARTS,
    TRAIN,
    VALIDATION,
    Shares,
    left_out_of,
    rows_of_parts,
)
from trainwright.data.split.split_file import PART_COLUMN
from trainwright.data.split.split_report import SplitReport, check_crossing, report_split
from trainwright.data.split.splits import row_units, split_rows, without_ignored
from trainwright.data.split.time_split import check_times, keep_apart_from_files
from trainwright.data.types import Prepared
from trainwright.data.versions.snapshot import data_version

TableTask: TypeAlias = Literal["classification", "regression", "multilabel", "ranking"]


def prepare_table(
    raw: RawTable,
    section: TableData,
    task: TableTask,
    seed: int,
    texts: TextReading = NO_TEXTS,
    *,
    refit: bool = False,
) -> Prepared:
    """Split and encode the rows. Every `auto` of the section must be decided.

    Nothing is fitted on validation or test rows. Under cross-validation this is the data of the
    run's own model, which trains on all rows; its test part is the rows of all folds.

    With `refit` validation rows train and none validate; the test rows are the same.

    Raises:
        DataMistake: the rows cannot be split as asked, or groups or time cross the given files.
    """
    table = _Table.of(raw, section, task, seed, texts)
    if fold_count(section):
        return _prepare_whole(table, seed)
    codes = table.divided()
    if refit:
        codes[codes == VALIDATION] = TRAIN
    return table.prepared(rows_of_parts(codes, raw.space), left_out_of(codes))


def prepare_fold(
    raw: RawTable,
    section: TableData,
    task: TableTask,
    seed: int,
    number: int,
    texts: TextReading = NO_TEXTS,
) -> Prepared:
    """Data of the training that tests fold `number`, from 0.

    Raises:
        As `prepare_table`, which raises every mistake first.
    """
    from trainwright.data.split.fold_split import cut_folds

    table = _Table.of(raw, section, task, seed, texts)
    folds = cut_folds(table.to_divide, section.target_name, section.split, seed)
    codes = folds.parts(number)
    return table.prepared(rows_of_parts(codes), left_out_of(codes))


def _prepare_whole(table: _Table, seed: int) -> Prepared:
    # Imported here: few tables have folds.
    from trainwright.data.split.fold_split import check_fold_classes, cut_folds

    section = table.section
    folds = cut_folds(table.to_divide, section.target_name, section.split, seed)
    codes = folds.whole()
    rows = rows_of_parts(codes) | {"test": folds.tested}
    whole = table.prepared(rows, left_out_of(codes), apart=False)
    reports = []
    for number in range(folds.count):
        codes = folds.parts(number)
        chosen = rows_of_parts(codes)
        parts = {part: table.rows_of(part, chosen) for part in PARTS}
        table.check_queries(parts)
        reports.append(table.report(parts, left_out_of(codes)))
        if classes := whole.target.classes:
            there = set(parts["train"][section.target_name].unique().to_list())
            fix = (
                "use split: {kind: stratified}, lower folds, or merge classes with "
                f"data.columns.{as_key(whole.target.column)}.values"
            )
            check_fold_classes(sorted({*classes} - there), number, fix)
        table.weights(parts["train"], chosen["train"], whole.target)
    return whole.with_folds(folds, reports)


@final
@dataclass(frozen=True, slots=True)
class _Table:
    """Rows with the target typed by the task, ready to split."""

    raw: RawTable
    typed: Mapping[PartName, pl.DataFrame]
    section: TableData
    task: TableTask
    columns: tuple[ColumnType, ...]
    history: LagFeatures
    seed: int
    texts: TextReading

    @classmethod
    def of(
        cls,
        raw: RawTable,
        section: TableData,
        task: TableTask,
        seed: int,
        texts: TextReading,
    ) -> _Table:
        """Rows of a section with lag features computed over all rows: the past of a part includes
        the previous part."""
        typed = {
            part: _target_typed(frame, section, task, raw.space)
            for part, frame in raw.frames.items()
        }
        if isinstance(section.split, TimeSplit):
            check_times(typed, section.split.moment)
        if section.query:
            from trainwright.data.split.query_split import check_named_queries

            check_named_queries(typed, section)
        history = NO_HISTORY
        if section.features.history != "off":
            target = section.target_name if task != "classification" else ""
            history = fit_history(section.features.history, typed["train"], raw.columns, target)
            typed = history.added_to(typed)
        columns = feature_columns(raw.columns, section)
        return cls(raw, typed, section, task, columns, history, seed, texts)

    @property
    def to_divide(self) -> pl.DataFrame:
        """Rows of the training file with the columns that the split may need."""
        return without_ignored(self.typed["train"], self.section.split, self.raw.columns)

    def divided(self) -> Integers:
        """The part of each row of the training file, int64 [N]."""
        section, raw, train = self.section, self.raw, self.to_divide
        shares = Shares.of(section.split, raw.facts.given)
        codes = split_rows(train, section.target_name, section.split, shares, self.seed, raw.space)
        if isinstance(section.split, TimeSplit) and raw.facts.given:
            return keep_apart_from_files(codes, self.typed, section.split, shares, raw.space)
        return codes

    def rows_of(self, part: PartName, chosen: Mapping[PartName, Integers]) -> pl.DataFrame:
        """Rows of a part: of its own file, or chosen from the training file."""
        if part in self.typed and part != "train":
            return self.typed[part]
        rows = self.typed["train"].drop(PART_COLUMN, strict=False)
        return self.raw.space.frame(taken(rows, chosen[part]))

    def check_queries(self, frames: Mapping[PartName, pl.DataFrame]) -> None:
        """Check that the queries of a ranking are whole."""
        if self.section.query:
            from trainwright.data.split.query_split import check_whole_queries

            check_whole_queries(frames, self.section)

    def report(self, frames: Mapping[PartName, pl.DataFrame], left_out: int) -> SplitReport:
        """Report of the split."""
        compared = [*self.section.target_columns, *(column.name for column in self.columns)]
        made = len(self.raw.frames) < len(PARTS)
        several, split = self.section.has_several_targets, self.section.split
        target = "" if several else self.section.target_name
        return report_split(frames, split, target, compared, made, left_out, self.raw.space)

    def weights(self, train: pl.DataFrame, places: Integers, target: Target) -> Floats:
        """Weights of training rows; empty without a column of them."""
        if not self.section.weight:
            return NO_WEIGHTS
        # Imported here: few tables have weights.
        from trainwright.data.columns.row_weights import read_row_weights

        return read_row_weights(train, places, self.section, target, self.raw.space)

    def prepared(
        self, chosen: Mapping[PartName, Integers], left_out: int, *, apart: bool = True
    ) -> Prepared:
        """Encode the chosen rows. `apart`: the parts are disjoint; otherwise the test part contains
        training rows and is not compared with them."""
        rows = self._chosen(chosen, left_out, apart)
        features, train_inputs = self._fitted(rows)
        parts = {
            part: Part(
                name=part,
                frame=frame,
                inputs=train_inputs
                if part == "train"
                else features.transform(frame, self.raw.space),
                target=rows.encoded[part],
                rows=rows.places[part],
                units=rows.units[part],
                weights=rows.weights if part == "train" else NO_WEIGHTS,
            )
            for part, frame in rows.frames.items()
        }
        return Prepared(
            train=parts["train"],
            validation=parts["validation"],
            test=parts["test"],
            features=features,
            target=rows.target,
            split=rows.report,
            version=data_version(
                self.raw, self.section, rows.places, features, rows.target, rows.done
            ),
            done=rows.done,
            space=self.raw.space,
        )

    def _fitted(self, rows: _ChosenRows) -> tuple[FrameEncoding, Inputs]:
        """Fit features on the training rows, and encode these."""
        known = partial(
            train_target,
            rows.target,
            rows.encoded["train"],
            rows.units["train"],
            self.section.features.folds,
            self.seed,
        )
        train = TrainRows(
            rows.frames["train"], rows.columns, self.raw.cleaning, known, self.history, rows.limits
        )
        if self.texts.tokenizer:
            # Imported here: few tables are read as texts.
            from trainwright.data.encoders.text_encoder import fit_text_encoder

            return fit_text_encoder(train, self.section.features, self.texts)
        return fit_features(train, self.section.features, self.section.columns, self.raw.space)

    def _chosen(
        self, chosen: Mapping[PartName, Integers], left_out: int, apart: bool
    ) -> _ChosenRows:
        """Rows of each part after the contract's quality actions, with targets."""
        section, space = self.section, self.raw.space
        frames = {part: self.rows_of(part, chosen) for part in PARTS}
        places = {
            part: self.raw.positions[part]
            if part in self.typed and part != "train"
            else gathered(self.raw.positions["train"], chosen[part], space)
            for part in PARTS
        }
        seen = {part: frame for part, frame in frames.items() if apart or part != "test"}
        acted = Acted(seen["train"], places["train"])
        if section.quality.asked():
            # Imported here, with every check of the data: most contracts only report.
            from trainwright.data.quality.actions import act

            acted = act(seen, places["train"], section, space)
        frames["train"], places["train"] = acted.train, acted.places
        report = self.report(frames, left_out)
        if apart:
            check_crossing(report, section.split)
            self.check_queries(frames)
        target = self._target_of(frames["train"])
        return _ChosenRows(
            frames=frames,
            places=places,
            columns=tuple(column for column in self.columns if column.name not in acted.columns),
            limits=acted.limits,
            done=acted.done,
            report=report,
            target=target,
            encoded={
                part: encoded(target, target.cells(frame), space) for part, frame in frames.items()
            },
            units=row_units(frames, section, target, space),
            weights=self.weights(frames["train"], places["train"], target),
        )

    def _target_of(self, train: pl.DataFrame) -> Target:
        section, written = self.section, self.raw.facts.target.written
        if self.task == "ranking":
            from trainwright.data.split.query_split import fit_queries

            return fit_queries(train, section)
        if section.has_several_targets:
            from trainwright.data.prepare_several import fit_targets_of

            return fit_targets_of(train, section, self.task)
        labels, order = train[section.target_name], section.class_order
        assert self.task != "multilabel", "the rules refuse it for one target"
        return fit_target(labels, self.task, section.positive, written, order)


@final
@dataclass(frozen=True, slots=True)
class _ChosenRows:
    """Rows of each part, ready to encode: `places` are their positions in the files, `encoded` the
    targets, `weights` those of the training rows, empty without any. `columns`, `limits` and `done`
    come from the contract's quality actions."""

    frames: Mapping[PartName, pl.DataFrame]
    places: Mapping[PartName, Integers]
    columns: tuple[ColumnType, ...]
    limits: tuple[Limit, ...]
    done: tuple[AppliedAction, ...]
    report: SplitReport
    target: Target
    encoded: Mapping[PartName, npt.NDArray[Any]]
    units: Mapping[PartName, Integers]
    weights: Floats


def feature_columns(columns: tuple[ColumnType, ...], section: TableData) -> tuple[ColumnType, ...]:
    """The feature columns: not the target, not excluded, not ignored, not the split's group or
    part, and its time only as a date."""
    never = {*section.target_columns, section.query, section.weight, *section.exclude}
    if not isinstance(section.split, TimeSplit):
        never |= {name for _, name in split_columns(section.split)}
    chosen = []
    for column in columns:
        is_time = isinstance(section.split, TimeSplit) and column.name == section.split.column
        if column.name in never or (is_time and column.kind != "datetime"):
            continue
        if column.kind in ("numeric", "categorical", "datetime", "text"):
            chosen.append(column)
    return tuple(chosen)


def _target_typed(
    frame: pl.DataFrame,
    section: TableData,
    task: TableTask,
    space: RowStorage,
) -> pl.DataFrame:
    """Target as labels or numbers by the task: the contract may declare few numbers a regression,
    or many numbers classes."""
    if section.has_several_targets:
        # Imported here: few tables have several targets.
        from trainwright.data.prepare_several import type_targets

        return type_targets(frame, section, task, space)
    name = section.target_name
    series = frame[name]
    wanted = pl.String() if task == "classification" else pl.Float64()
    if series.dtype == wanted:
        return frame
    if task == "classification":
        return space.frame(rows.with_columns(to_labels(rows[name])) for rows in slices_of(frame))
    # Imported here: classes have no use for it.
    from trainwright.data.columns.number_target import Numbers

    # Over all rows, so that one error names all of them.
    number = Numbers(name, 0.0, 1.0)
    plain: Target = number
    if task == "ranking":
        # Imported here: few tables are ranked.
        from trainwright.data.columns.retrieval_targets import Relevance

        plain = Relevance(name, section.query)
    values = encoded(plain, series, space)
    typed = (
        rows.with_columns(pl.Series(name, values[start:stop]))
        for (start, stop), rows in zip(bounds(frame.height), slices_of(frame), strict=True)
    )
    return space.frame(typed)
