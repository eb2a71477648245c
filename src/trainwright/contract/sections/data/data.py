"""`data`: which rows, which columns, how they are divided and encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Field, Tag

from trainwright.contract.sections.data.column import Column
from trainwright.contract.sections.data.data_base import Feeding
from trainwright.contract.sections.data.features import Features
from trainwright.contract.sections.data.folds import Folded
from trainwright.contract.sections.data.quality import Quality
from trainwright.contract.sections.data.sources import Reading, Sql
from trainwright.contract.sections.section import (
    Fraction,
    NonNegative,
    Positive,
    Section,
    tagged_by,
)
from trainwright.contract.sections.section_union import SectionUnion
from trainwright.core.lazy_table import LazyTable

MOMENT_COLUMN = "\uffffmoment"
"""The column beside those of the data in which a time stands that no single column says."""


class _Parts(Folded):
    validation: Fraction = 0.15
    """Share of the rows that steer the training (early stopping); with `folds` of the rows outside
    the fold. Unused if `val_path` is given."""

    test: Fraction = 0.15
    """Share of the rows opened once, for the verdict. Unused if `test_path` is given, and with
    `folds`."""


class AutoSplit(_Parts):
    """The plan chooses: stratified for classification, else random."""

    kind: Literal["auto"] = "auto"


class RandomSplit(_Parts):
    """Every row is drawn on its own."""

    kind: Literal["random"]

    key: str = ""
    """What tells a row from the others. Empty: its place in the file, and the parts have exactly
    the size that is asked for. A column, or `"*"` for all its cells: the side is a function of
    `split_seed` and key alone, so that no row changes sides when others are added, removed or
    reordered; equal keys are on one side, and the sizes are about right. A column is never a
    feature then."""


class StratifiedSplit(_Parts):
    """Random within each class, so that all parts have the same class shares."""

    kind: Literal["stratified"]

    rare: Literal["refuse", "train"] = "refuse"
    """What becomes of classes that have fewer rows than there are parts, or folds. `train`: their
    rows train and are never judged."""


class GroupSplit(_Parts):
    """All rows of a group fall on the same side: the score is one for unseen groups."""

    kind: Literal["group"]

    column: str
    """The column that names the group, for example a person or a machine. Never a feature."""

    assign: Literal["balanced", "hashed"] = "balanced"
    """`balanced` comes as near to the shares as groups allow. `hashed`: the side of a group is a
    function of `split_seed` and name alone, so that no group changes sides when others are added;
    the sizes are about right where there are many groups."""


class StratifiedGroupSplit(_Parts):
    """All rows of a group fall on the same side; class shares are as equal as groups allow."""

    kind: Literal["stratified_group"]

    column: str
    """The column that names the group. Never a feature."""


class TimeSplit(_Parts):
    """The oldest rows train, later ones validate, the newest test: the score is for the future.

    Rows of one timestamp never fall into two parts. With `folds` the origin rolls: the rows are cut
    into one window more than there are folds, and each window but the oldest is predicted from
    those before it (Tashman 2000, International Journal of Forecasting 16, section 3).
    """

    kind: Literal["time"]

    column: str = ""
    """The column that says when the row was known: a date, a date with time, or a number."""

    parts: tuple[str, ...] = ()
    """In place of `column`: columns that are a time together, the largest unit first, for example
    `[year, month, day, hour]`. Whole numbers or dates; they stay features."""

    order: Literal["column", "file"] = "column"
    """`file`, in place of `column`: the rows of each file stand in the order of time, the oldest
    first."""

    gap: NonNegative = 0.0
    """Rows that are nearer than this to the first moment of the next part are excluded, in
    days, in the unit of a numeric column, or in rows under `order: file`: as long as it takes until
    a target is known."""

    window: Literal["all"] | Positive = "all"
    """How far training rows reach back from the end of the training part, in days, or in the unit
    of a numeric column; older rows are excluded."""

    @property
    def moment(self) -> str:
        """The column of the rows that holds when each was known."""
        return self.column or MOMENT_COLUMN


class ColumnSplit(Folded):
    """A column says where each row belongs."""

    kind: Literal["column"]

    column: str
    """A column with the values `train`, `validation` and `test`; with `folds` one that names the
    fold of each row, of which the one after the tested one (the first after the last) validates."""


class FileSplit(Folded):
    """A file says where each row belongs."""

    kind: Literal["file"]

    path: str
    """A table, relative to the contract's folder, that names every row of the data once. Its column
    `part` holds what the column of a `column` split does."""

    key: str = ""
    """The column, here and there, by which rows are found, never a feature. Empty: the file's
    column `row` holds the place of each row in the data, counted from 0."""


Split = Annotated[
    Annotated[AutoSplit, Tag("auto")]
    | Annotated[RandomSplit, Tag("random")]
    | Annotated[StratifiedSplit, Tag("stratified")]
    | Annotated[GroupSplit, Tag("group")]
    | Annotated[StratifiedGroupSplit, Tag("stratified_group")]
    | Annotated[TimeSplit, Tag("time")]
    | Annotated[ColumnSplit, Tag("column")]
    | Annotated[FileSplit, Tag("file")],
    tagged_by("kind", default="auto"),
]

EVERY_COLUMN = "*"
"""The key of a random split that is all cells of a row."""


def split_columns(split: Split) -> tuple[tuple[str, str], ...]:
    """The columns of the data that a split goes by, each as (field of the section, column)."""
    match split:
        case GroupSplit(column=name) | StratifiedGroupSplit(column=name) | ColumnSplit(column=name):
            return (("column", name),)
        case TimeSplit(column="", parts=parts):
            return tuple((f"parts.{at}", name) for at, name in enumerate(parts))
        case TimeSplit(column=name):
            return (("column", name),)
        case RandomSplit(key=name):
            return () if name in ("", EVERY_COLUMN) else (("key", name),)
        case FileSplit(key=name):
            return (("key", name),) if name else ()
        case AutoSplit() | StratifiedSplit():
            return ()
        case _:
            assert_never(split)


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


_HERE = "trainwright.contract.sections.data"

DATA_SECTIONS: Mapping[str, type[Feeding]] = LazyTable(
    {
        "table": f"{_HERE}.data:TableData",
        "images": f"{_HERE}.images:ImageData",
        "tokens": f"{_HERE}.tokens:TokenData",
        "series": f"{_HERE}.series:SeriesData",
        "chats": f"{_HERE}.chats:ChatData",
        "preferences": f"{_HERE}.chats:PreferenceData",
        "pairs": f"{_HERE}.pairs:PairData",
        "text_pairs": f"{_HERE}.text_pairs:TextPairData",
    }
)

Data = Annotated[Feeding, SectionUnion(DATA_SECTIONS, tagged_by("kind", default="table"))]
"""The rows of a table, images with labels or captions, texts, series, chats, or preferences."""


def query_of(data: Feeding) -> str:
    """The column that names the query of each row; empty where nothing is ranked."""
    return data.query if isinstance(data, TableData) else ""


def fold_count(data: Feeding) -> int:
    """The folds that a contract asks for; 0 where the data is divided once."""
    folds = data.folding.folds
    return 0 if folds == "off" else folds
