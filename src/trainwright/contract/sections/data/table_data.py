"""`data` of `kind: table`: rows of a table, with their columns and target."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.data.column import Column
from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.features import Features
from trainwright.contract.sections.data.folds import Folded
from trainwright.contract.sections.data.quality import Quality
from trainwright.contract.sections.data.sources import Reading, Sql
from trainwright.contract.sections.data.split import (
    AutoSplit,
    ColumnSplit,
    FileSplit,
    Split,
    TimeSplit,
)
from trainwright.contract.sections.section import Section


class LabelCells(Section):
    """Cells that hold several labels."""

    separator: str = ""
    """What stands between two labels of a cell, for example ";" in `sport;music`. Empty: a cell
    holds one value."""

    empty: Literal["missing", "none"] = "missing"
    """What an empty cell says: `missing`, that the labels of the row are unknown, see
    `missing_target`; `none`, that it has no label."""


class TableData(Feeding):
    """Rows of a table: which files and columns, how they are divided and encoded."""

    kind: Literal["table"] = "table"

    path: str = ""
    """Rows that are divided into training, validation and test rows: a file (CSV, TSV, Parquet,
    JSON Lines or Arrow, also `.gz` or `.zst`), a folder or pattern of them (`parts/*.parquet`) that
    are read as one in the order of their names, folders named `year=2024` being columns, a Delta
    table, a folder that `datasets` saved, a URL of one of these (`s3://`, `gs://`, `az://`,
    `https://`, `hf://`), or `frame://NAME` for a frame given from Python. Relative to the
    contract's folder."""

    sql: Sql = Sql()
    """A query whose rows stand in place of `path`."""

    train_path: str = ""
    """The training file, in place of `path`, where validation or test rows have files of their own;
    what `val_path` or `test_path` leave out is divided off from it."""

    val_path: str = ""
    """The rows that steer the training."""

    test_path: str = ""
    """The rows opened once, for the verdict."""

    target: str | tuple[str, ...] = "label"
    """The column to predict; or several, for example [systolic, diastolic]: numbers under
    `task: regression`, and under `task: multilabel` labels that each row has or has not, written
    as 1 and 0, true and false, or yes and no. One model predicts all of them."""

    labels: LabelCells = LabelCells()
    """How one column holds the labels of a row, for `task: multilabel`."""

    positive: str = "auto"
    """The class that counts as positive when there are two. `auto`: the one called yes, true or
    positive, or 1 against 0 or -1; else the rarer one."""

    query: str = ""
    """For `task: ranking`: the column that names the query (a search, a user, a session) whose rows
    are ranked against each other. Its rows stay in one part, and it is never a feature."""

    order: tuple[str | int, ...] = ()
    """The classes of the target from the lowest to the highest, where they have an order, for
    example [poor, fair, good] or [1, 2, 3]: all of them. Empty: none. With an order `auto` means
    the metric `quadratic_kappa` and the loss `ordinal` of networks."""

    exclude: tuple[str, ...] = ()
    """Columns that are never features: ids, leaks, weights."""

    weight: str = ""
    """The column that says how much each row counts in the training: numbers from 0 on, never a
    feature. 2 counts like the row twice, 0 not at all; a network divides them by their mean.
    Empty: all rows count alike. Validation, metrics, baselines and verdict count every row once."""

    columns: dict[str, Column] = Field(default_factory=dict)
    """Facts about single columns."""

    missing_values: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
    """Spellings of a missing value in text files; blanks around a value never count."""

    missing_target: Literal["fail", "drop"] = "fail"
    """What happens to rows without a target: `fail` stops, `drop` leaves them out and counts
    them."""

    split: Split = AutoSplit()
    """Split of the rows."""

    features: Features = Features()
    """Encoding of columns as features."""

    quality: Quality = Quality()
    """Data quality checks, and the action on their findings."""

    reading: Reading = Reading()
    """How files are read, and how far they are trusted."""

    tasks: ClassVar[tuple[str, ...]] = (
        "classification",
        "regression",
        "multilabel",
        "ranking",
    )
    reads_frames: ClassVar[bool] = True
    can_be_taught: ClassVar[bool] = True
    samples_test: ClassVar[bool] = False
    is_comparable: ClassVar[bool] = True

    @property
    def source(self) -> str:
        """The path of its rows; empty where they are named otherwise."""
        return self.path or self.train_path

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns that are predicted."""
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def target_name(self) -> str:
        """The column that is predicted; of several their names, joined by commas."""
        return ", ".join(self.target_columns)

    @property
    def has_several_targets(self) -> bool:
        """Are several columns predicted, or the labels in one?"""
        return not isinstance(self.target, str) or bool(self.labels.separator)

    @property
    def has_label_lists(self) -> bool:
        """Does one column hold the labels of a row?"""
        return bool(self.labels.separator)

    @property
    def class_order(self) -> tuple[str, ...]:
        """`order`."""
        return tuple(map(str, self.order))

    @property
    def folding(self) -> Folded:
        """Whether the rows are cut into folds."""
        return self.split

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """The section where the shares of the parts stand, and those that are divided off."""
        split = self.split
        if isinstance(split, ColumnSplit | FileSplit):
            return "data.split", {}
        shares = {"validation": split.validation} if not self.val_path else {}
        if split.folds == "off" and not self.test_path:
            shares["test"] = split.test
        return "data.split", shares

    @property
    def file_reading(self) -> Reading:
        """How its files are read. Numbers beside a unit wait until it is taken off."""
        united = {name for name, column in self.columns.items() if column.unit}
        if not united & set(self.reading.numbers):
            return self.reading
        numbers = {name: way for name, way in self.reading.numbers.items() if name not in united}
        return self.reading.model_copy(update={"numbers": numbers})

    @property
    def can_refit(self) -> bool:
        """Can its validation rows join the training rows?"""
        return not self.query

    @property
    def has_own_validation(self) -> bool:
        """Have the validation rows a file of their own?"""
        return bool(self.val_path)

    @property
    def weight_column(self) -> str:
        """See `weight`."""
        return self.weight

    @property
    def time_column(self) -> str:
        """The column by whose time the rows are divided; empty without one."""
        return self.split.moment if isinstance(self.split, TimeSplit) else ""

    @property
    def follows_time(self) -> bool:
        """Are later rows judged by models of earlier ones?"""
        return isinstance(self.split, TimeSplit)

    @property
    def is_in_files(self) -> bool:
        """Do encoded rows stay in files, where they may be larger than memory?"""
        return self.reading.rows_in == "files"
