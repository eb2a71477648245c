"""`data.features`: how the columns of a table become numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, NonNegative, Section

Scaling = Literal["none", "standard", "robust", "log", "quantile"]
Imputing = Literal["none", "median", "mean"]
Encoding = Literal["codes", "target", "both", "by_count"]
Inherit = Literal["inherit"]
"""What `data.features` says."""


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
    boosting, which splits on missing itself, else median."""

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
    near 0 h). Parts that are the same in all training rows are excluded. Moments with a UTC offset
    count in UTC, others without conversion."""

    text: TextFeatures = TextFeatures()
    """Encoding of columns of `kind: text`."""

    history: Literal["off"] | History = "off"
    """Lags and rolling windows."""
