"""`data.split`: how rows are divided into training, validation and test rows."""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from pydantic import Tag

from trainwright.contract.sections.data.data_traits import Folded
from trainwright.contract.sections.section import Fraction, NonNegative, Positive, tagged_by

MOMENT_COLUMN = "\uffffmoment"
"""The column beside those of the data in which a time stands that no single column says."""

EVERY_COLUMN = "*"
"""The key of a random split that is all cells of a row."""


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
    the size that is asked for. A column, or `"*"` for all its cells but those of ignored columns,
    such as a row number: the side is a function of `split_seed` and key alone, so that no row
    changes sides when others are added, removed or reordered; equal keys are on one side, and the
    sizes are about right. A column is never a feature then."""


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
