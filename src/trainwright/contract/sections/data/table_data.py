"""`data` of `kind: table`: rows of a table, facts about their columns, how columns become
numbers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.data.data_traits import Feeding, Folded
from trainwright.contract.sections.data.quality import Quality
from trainwright.contract.sections.data.sources import Reading, Sql
from trainwright.contract.sections.data.split import (
    AutoSplit,
    ColumnSplit,
    FileSplit,
    Split,
    TimeSplit,
)
from trainwright.contract.sections.section import Auto, Count, NonNegative, Section

Scaling = Literal["none", "standard", "robust", "log", "quantile"]
Imputing = Literal["none", "median", "mean"]
Encoding = Literal["codes", "target", "both", "by_count"]
Inherit = Literal["inherit"]
"""What `data.features` says."""

ColumnKind = Literal["numeric", "categorical", "datetime", "text", "ignored"]


class ColumnFeatures(Section):
    """How one column becomes numbers, where that is not as `data.features` says of all."""

    numeric: Inherit | Scaling = "inherit"
    """Scaling of this numeric column."""

    impute: Inherit | Imputing = "inherit"
    """Imputation of missing numbers of this column."""

    categorical: Inherit | Encoding = "inherit"
    """Encoding of this categorical column."""

    rare_below: Inherit | Count = "inherit"
    """Training rows below which a category of this column is rare."""

    max_categories: Inherit | Count = "inherit"
    """The most categories that are kept of this column."""


class TextFeatures(Section):
    """Columns of `kind: text` as shares of their words (TF-IDF; Salton and Buckley 1988,
    doi:10.1016/0306-4573(88)90021-0, section 2): `tf(t, d) x (ln((1 + n) / (1 + df(t))) + 1)`, each
    row divided by its Euclidean norm, where tf counts the term in the row, n the training rows, and
    df those with the term. The numbers are those of scikit-learn's TfidfVectorizer."""

    terms: Auto | Count = "auto"
    """Terms that are kept: the ones that occur most often in the training rows. `auto`: 20,000 for
    linear models, 2,000 for boosting, 5,000 where they are reduced."""

    words: Annotated[int, Field(ge=1, le=3)] = 2
    """A term is one word, or up to so many words that follow each other."""

    rows: Count = 2
    """A term occurs in at least so many training rows."""

    reduce: Auto | Literal["none", "svd"] = "auto"
    """Whether terms become fewer columns: `svd`, the directions in which the training rows differ
    most (latent semantic analysis; Deerwester et al. 1990), each divided by its root mean square
    over the training rows. `auto`: none for boosting and linear models, which choose among terms
    themselves; svd for networks, whose first layer would otherwise hold most of the weights."""

    components: Count = 64
    """Columns of each text under `svd`."""


class History(Section):
    """Values from earlier rows of the same group: lags, and statistics of rolling windows.

    A row sees only rows of its group that are older: rows of its own moment never count. The split
    must be of `kind: time` by the same column, so that nothing a training row sees is newer than
    the training part.
    """

    time: str
    """The column that orders the rows: the one of `data.split`."""

    group: str = ""
    """The column whose rows form a series of their own, for example a shop. Empty: all rows are one
    series."""

    columns: tuple[str, ...] = Field(min_length=1)
    """Numeric columns whose past is used. Of a regression the target may be among them; a row to
    predict then needs the targets of the rows before it in the same file."""

    lags: tuple[Count, ...] = ()
    """Rows back: 1 is the row before."""

    windows: tuple[Count, ...] = ()
    """Lengths of rolling windows, in rows. A window ends `horizon` rows back."""

    statistics: tuple[Literal["mean", "std", "min", "max", "sum", "count"], ...] = ("mean",)
    """What is computed over each window, from the values that are there; `std` divides by their
    number. `count` is that number."""

    horizon: Count = 1
    """How many rows back the newest known row lies: 1 if a value is known before the next row
    comes, 24 for hourly rows that are predicted a day ahead. Lags are not below it."""


class Features(Section):
    """Encoding of columns as features. Everything here is fitted on the training rows only."""

    numeric: Auto | Scaling = "auto"
    """Scaling of numeric columns: `standard` (mean 0, deviation 1), `robust` (median 0, range from
    the first to the third quartile 1), `log` (`sign(x) ln(1 + |x|)`, then standard), `quantile` (to
    a normal distribution), `none`. `auto`: none for boosting, standard for linear, quantile for
    networks."""

    impute: Auto | Imputing = "auto"
    """What stands for a missing number; a 0/1 indicator column is added beside it. `auto`: none for
    boosting, which splits on missing itself, else median. Where no training row lacks the number,
    new rows without it get the median in any case."""

    categorical: Auto | Encoding = "auto"
    """What a category becomes: `codes`, of which a model learns the meaning; `target`, the mean
    target of its training rows, drawn towards the mean of all, where a training row gets the mean
    of the other folds; `both`; or `by_count`, `codes`, and `both` for a column of which at least
    100 categories are kept, unless the target has more than 10 classes. `auto`: `by_count` for
    boosting with rows in memory, else `codes`."""

    smoothing: Literal["variance"] | NonNegative = "variance"
    """How far the mean of a category with n rows is drawn to that of all (Micci-Barreca 2001,
    doi:10.1145/507533.507538, equation 3): its own weighs `n / (n + m)`. A number is m; `variance`
    takes m from the training rows: the variance within the category over that of all
    (equation 5)."""

    folds: Annotated[int, Field(ge=2, le=100)] = 5
    """Number of folds of the training rows for `target`. Rows of one group (under a group split)
    or of one time window (under a time split) share a fold."""

    rare_below: Count = 5
    """Categories seen in fewer training rows share one `rare` bucket; unseen ones have their
    own."""

    max_categories: Count = 1000
    """At most this many categories of a column are kept; the rest are rare."""

    dates: Literal["parts", "cyclic"] = "parts"
    """What a date becomes: `parts` (year, month, day, weekday, hour, as numbers) or `cyclic` (the
    year as a number, of the others sine and cosine of their place in the period, so that 23 h is
    near 0 h). Parts that are the same in all training rows are excluded. Times with a zone,
    or the offsets of one, count by its clock, those of several zones and written formats in UTC."""

    text: TextFeatures = TextFeatures()
    """Encoding of columns of `kind: text`."""

    history: Literal["off"] | History = "off"
    """Lags and rolling windows."""


class Column(Section):
    """Facts about one column; anything omitted is inferred from the training rows."""

    kind: Auto | ColumnKind = "auto"
    """Type of the column: `numeric`, `categorical`, `datetime`, `text`, or `ignored`."""

    values: dict[str, str] = Field(default_factory=dict)
    """Spellings to replace before anything else, for example `{">50K.": ">50K"}`."""

    format: str = "auto"
    """How a `datetime` is written, in strftime codes, for example `%d/%m/%Y %H:%M`, or `excel` for
    the serial numbers of spreadsheets (days since 1899-12-30). Several forms stand with ` | `
    between them, and the first that reads a value counts. `%.f` is a point and the digits of a
    fraction of a second; hours need minutes. ` until 2025` after a form is the last year that its
    `%y` may mean."""

    unit: str = ""
    """A sign or word that may stand before or after the numbers of the column and is taken off:
    `$` for `$554`, `EUR` for `60.91 EUR`, `%` for `5%` (which is 5). The sign and the code of a
    currency are one unit (`€` and `EUR`, `£` and `GBP`, `¥` and `JPY`, `$` and `USD`). A number
    beside another unit is no number. With commas in them, `data.reading.numbers` says of which kind
    they are."""

    unreadable: Literal["refuse", "missing"] = "refuse"
    """What becomes of values that are no numbers in a `numeric` column, or no dates in a `datetime`
    one: `refuse`, or `missing`, in every file."""

    features: ColumnFeatures = ColumnFeatures()
    """Encoding of this column, if it differs from `data.features`."""

    range: Literal["any"] | tuple[float, float] = "any"
    """The least and the largest number that a value may be, both included; `any` asks nothing."""

    allowed: tuple[str, ...] = ()
    """The values that may stand here; empty asks nothing."""

    pattern: str = ""
    """A regular expression that a whole value must match; empty asks nothing. It is matched in time
    linear in the text, so it has no look-around and no back-references."""

    unique: bool = False
    """Must values be unique?"""

    nullable: bool = True
    """May values be missing?"""


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
    feature. 2 counts twice as much as 1, 0 not at all: they are divided by their mean. Empty: all
    rows count alike. Validation, metrics, baselines and verdict count every row once."""

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
    def further_baselines(self) -> tuple[str, ...]:
        """The naive forecasts of rows that are divided by time."""
        by_time = self.follows_time and not self.query
        return ("persistence", "seasonal_naive") if by_time else ()

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
