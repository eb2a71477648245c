"""Label errors, also of a numeric target, from out-of-sample predictions.

Northcutt, Jiang and Chuang 2021, "Confident learning: estimating uncertainty in dataset labels",
JAIR 70, arXiv:1911.00068. Symbols there: given labels are y~ (here `given`), probabilities of row x
for class j are p(j; x) (here `chances`), thresholds t_j (eq. 2), and the rows that the confident
joint C (eq. 1) counts off its diagonal say how many labels are wrong. Those with the lowest
self-confidence p(y~; x) are. On real data with swapped labels this is more precise, at the same
recall, than pruning by noise rate, the default of cleanlab. The selection equals cleanlab's filter
`low_self_confidence` (a test compares them; it needs pandas).

Errors in numbers: after Zhou, Mueller, Kumar, Wang and Lei 2023, "Detecting errors in a numerical
response via any regression model", arXiv:2305.16583: the residual |y - f(x)| of a row over its
scale, here the upper quartile of the residuals of rows with similar predictions, which wrong
values barely affect.

Valid residuals can be heavy-tailed too; only an excess over the tail is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.quality.columns.outliers import BeyondTail, beyond_tail
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.labels.label_noise import APART, LabelNoise, label_noise
from trainwright.data.quality.labels.out_of_sample import Known, class_chances, number_guesses


def wrong_labels(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Mask [N] of wrong labels, given labels int64 [N] and out-of-sample probabilities [N, K].
    Every class must have a row.
    """
    count = int(confident_errors(given, chances).sum())
    own = chances[np.arange(len(given)), given]
    wrong = np.full(len(given), count == len(given))
    if 0 < count < len(given):
        wrong[own < np.partition(own, count)[count]] = True
    return wrong


def confident_errors(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Mask [N] of rows that confidently belong to another class: among the classes whose
    probability is at least the mean probability in rows of that label (t_j), the likeliest is not
    the given label, and neither is the overall argmax."""
    classes = chances.shape[1]
    thresholds = np.array([chances[given == label, label].mean() for label in range(classes)])
    confident = chances >= thresholds - 1e-6
    which = np.where(confident, chances, -1.0).argmax(axis=1)
    errors: npt.NDArray[np.bool_] = (
        confident.any(axis=1) & (which != given) & (chances.argmax(axis=1) != given)
    )
    return errors


_FAR = 5.0
"""Minimum residual of a wrong number, in upper quartiles."""

_QUARTILE = 0.75
_LEAST_OF_ALL = 0.25
_ROWS_OF_A_PART = 100
_MOST_PARTS = 20


_HEAVY = 10.0
"""Distance of the 99 % quantile from the median, over that of the upper quartile, beyond which a
tail is too heavy to tell its values from errors: 3.4 if normal, 5.6 if exponential, 9.6 if
log-normal with a deviation of 1."""


def wrong_numbers(given: Floats, guesses: Floats) -> BeyondTail:
    """Numbers [N] farther from their predictions [N] than the tail of the residuals explains."""
    return beyond_tail(_standardised(given, guesses), _FAR)


def unexplained(given: Floats, guesses: Floats) -> float:
    """Unexplained share: the median absolute residual over the median absolute deviation of the
    target; 1 for uninformative predictions."""
    spread = float(np.median(np.abs(given - np.median(given))))
    return float(np.median(np.abs(given - guesses))) / spread if spread else 1.0


def _standardised(given: Floats, guesses: Floats) -> Floats:
    """Residuals [N] over the upper quartile of the 5 % of rows with the closest predictions, at
    least a quarter of the upper quartile of all rows; for counts at least the standard deviation of
    a Poisson variable with a mean larger by one."""
    residuals = np.abs(given - guesses)
    usual = np.empty(len(residuals))
    counts = bool((given >= 0).all() and (given == np.floor(given)).all())
    parts = max(1, min(_MOST_PARTS, len(residuals) // _ROWS_OF_A_PART))
    for rows in np.array_split(np.argsort(guesses, kind="stable"), parts):
        usual[rows] = np.quantile(residuals[rows], _QUARTILE)
        if counts:
            usual[rows] = np.maximum(usual[rows], np.sqrt(1 + given[rows].mean()))
    usual = np.maximum(usual, _LEAST_OF_ALL * np.quantile(residuals, _QUARTILE))
    far: Floats = residuals / np.maximum(usual, 1e-300)
    return far


_FEWEST_ROWS = 60
_FEWEST_OF_A_CLASS = 10
_MOST_CLASSES = 200
_FEW_ROWS = 1000
_LIKELY = 0.5
_SURE = 15.0
"""Minimum evidence of noise (twice a log-likelihood ratio) to name rows."""

_MOSTLY = 0.5
_SHOWN = 3
_MOST_WRONG = 0.3
_FEWEST_NUMBERS = 200
_MOST_WRONG_NUMBERS = 0.1
_MOST_OPEN = 0.5


@final
@dataclass(frozen=True, slots=True)
class Suspects:
    """Probable label errors, most confident first, with the likelier class of each. `least` is the
    95% lower bound of their number, the most that an action may change. `open` counts the further
    disagreements, which class overlap explains."""

    rows: Integers
    given: list[str]
    likelier: list[str]
    least: int = 0
    open: int = 0

    def vouched(self) -> Suspects:
        """The `least` most confident ones."""
        sure = self.least
        return Suspects(self.rows[:sure], self.given[:sure], self.likelier[:sure], sure)

    def __str__(self) -> str:
        return (
            f"models that did not see {many(self.open, 'label')} would give another class, no more "
            "than overlapping classes explain: none is called wrong"
        )


@final
@dataclass(frozen=True, slots=True)
class Unjudged:
    """The models explain too little of the target to judge labels; `reason` says why."""

    reason: str

    @classmethod
    def of(cls, share: float) -> Unjudged:
        """Too large a share of the labels would count as wrong."""
        return cls(f"disagree so often that {share:.0%} would count as wrong")

    def __str__(self) -> str:
        return f"the labels cannot be judged: models that did not see them {self.reason}"


def label_errors(data: ExaminedData) -> list[Finding]:
    """Probable label errors: classes by confident learning on out-of-sample probabilities, numbers
    by out-of-sample residuals."""
    return say_suspects(data, find_suspects(data))


def say_suspects(data: ExaminedData, suspects: Suspects | Unjudged) -> list[Finding]:
    """Suspects as findings."""
    if isinstance(suspects, Unjudged):
        return [Finding("label_error", "info", str(suspects), columns=(data.target,))]
    if not len(suspects.rows):
        open_only = Finding("label_error", "info", str(suspects), columns=(data.target,))
        return [open_only] if suspects.open else []
    if data.task == "numbers":
        return [_finding(data, suspects, _examples(data, suspects))]
    pairs = pl.DataFrame({"given": suspects.given, "likelier": suspects.likelier})
    counts = pairs.group_by("given", "likelier").len()
    counts = counts.sort("len", "given", "likelier", descending=[True, False, False]).head(3)
    shown = ", ".join(
        f"{given!r} for {likelier!r} in {count:,}" for given, likelier, count in counts.iter_rows()
    )
    surest = ", ".join(f"{row:,}" for row in data.rows[suspects.rows[:_SHOWN]].tolist())
    return [_finding(data, suspects, f"{shown}; surest: rows {surest}")]


def _finding(data: ExaminedData, suspects: Suspects, shown: str) -> Finding:
    share = len(suspects.rows) / len(data)
    classes = " or relabel" if data.task == "classes" else ""
    return Finding(
        "label_error",
        # Of numbers the farthest are as often a day or a place that the columns do not know.
        "warning" if data.task == "classes" else "info",
        f"{many(len(suspects.rows), 'label')} ({share:.1%}) probably wrong, at least "
        f"{suspects.least:,} of them: {shown}",
        len(suspects.rows),
        data.places(suspects.rows),
        (data.target,),
        f"inspect the rows; data.quality.actions: {{label_error: drop}}{classes} changes the "
        f"{suspects.least:,} surest, of training rows only",
    )


def _examples(data: ExaminedData, suspects: Suspects) -> str:
    """The largest residuals, each with its prediction."""
    likelier = np.array([float(one) for one in suspects.likelier])
    far = np.argsort(-np.abs(data.answers[suspects.rows] - likelier), kind="stable")[:3]
    return ", ".join(f"{suspects.given[at]} for about {suspects.likelier[at]}" for at in far)


def find_suspects(data: ExaminedData) -> Suspects | Unjudged:
    """Probable label errors and their likelier labels.

    Each row is judged by models fitted on the other four folds of five. Classes of fewer than 10
    rows are skipped. If more than 30 % of the rows would be wrong (10 % for numbers, or half of
    their variation is unexplained), the models are to blame, not the labels.
    """
    if data.task == "numbers":
        return _wrong_numbers(data)
    return suspects_among(data, lambda rows: Known.of(data.take(rows)))


def suspects_among(
    data: ExaminedData, know: Callable[[Integers], Known], least_right: float = 0.0
) -> Suspects | Unjudged:
    """Probable label errors of models on the features that `know` gives, if their accuracy reaches
    the minimum."""
    nothing = Suspects(np.empty(0, dtype=np.int64), [], [])
    if data.task != "classes" or len(data) < _FEWEST_ROWS:
        return nothing
    labels = data.labels
    counts = count_values(labels.drop_nulls())
    names = counts.filter(pl.col("count") >= _FEWEST_OF_A_CLASS)["value"].sort().to_list()
    if not 2 <= len(names) <= _MOST_CLASSES:
        return nothing
    rows = labels.is_in(names).fill_null(False).arg_true().cast(pl.Int64).to_numpy()
    codes = list(range(len(names)))
    given = labels.gather(rows).replace_strict(names, codes, return_dtype=pl.Int64).to_numpy()
    known = know(rows)
    chances = class_chances(known, given, len(names), np.zeros(len(given), dtype=np.bool_))
    if not len(chances):
        return nothing
    right = float((chances.argmax(axis=1) == given).mean())
    if right < least_right:
        return Unjudged(f"give only {right:.0%} of them")
    noise = label_noise(given, chances)
    if len(rows) < _FEW_ROWS and 1 - right <= APART:
        noise, chances = _second_look(known, given, noise, chances)
    if noise.evidence < _SURE:
        return Suspects(nothing.rows, [], [], open=int(wrong_labels(given, chances).sum()))
    return _suspects(rows, given, noise, chances, names)


def _second_look(
    known: Known, given: Integers, noise: LabelNoise, chances: Floats
) -> tuple[LabelNoise, Floats]:
    """Refit without the suspects and judge again: with few rows a single wrong label biases the
    models. Where the classes do not otherwise overlap, this adds to the evidence."""
    doubted = wrong_labels(given, chances)
    left = np.bincount(given[~doubted], minlength=chances.shape[1])
    if not doubted.any() or (2 * left < np.bincount(given)).any():
        return noise, chances
    again = class_chances(known, given, chances.shape[1], doubted)
    second = label_noise(given, again)
    unlikely = int((again.argmax(axis=1) != given).sum())
    if second.chances.sum() < _MOSTLY * unlikely:
        return noise, chances
    return replace(second, evidence=noise.evidence + second.evidence), again


def _suspects(
    rows: Integers, given: Integers, noise: LabelNoise, chances: Floats, names: list[str]
) -> Suspects | Unjudged:
    """Rows whose label is more likely wrong than right."""
    wrong = np.flatnonzero(noise.chances >= _LIKELY)
    if (share := len(wrong) / len(given)) > _MOST_WRONG:
        return Unjudged.of(share)
    wrong = wrong[np.argsort(chances[wrong, given[wrong]], kind="stable")]
    likelier = chances[wrong].argmax(axis=1)
    unlikely = int((chances.argmax(axis=1) != given).sum())
    return Suspects(
        rows[wrong],
        [names[code] for code in given[wrong]],
        [names[code] for code in likelier],
        int(noise.least * noise.chances[wrong].sum()),
        unlikely - len(wrong),
    )


def _wrong_numbers(data: ExaminedData) -> Suspects | Unjudged:
    rows = np.flatnonzero(np.isfinite(data.answers))
    given = data.answers[rows]
    nothing = Suspects(np.empty(0, dtype=np.int64), [], [])
    if len(rows) < _FEWEST_NUMBERS:
        return nothing
    middle, quarter, most = np.quantile(given, (0.5, _QUARTILE, 0.99))
    if most - middle > _HEAVY * max(quarter - middle, 1e-300):
        return Unjudged("miss the few large ones of a heavy-tailed target")
    guesses = number_guesses(Known.of(data.take(rows)), given)
    if not len(guesses):
        return nothing
    if (left := unexplained(given, guesses)) > _MOST_OPEN:
        return Unjudged(f"leave {left:.0%} of how they vary open")
    wrong = wrong_numbers(given, guesses)
    if len(wrong.rows) > _MOST_WRONG_NUMBERS * len(data):
        return Unjudged.of(len(wrong.rows) / len(data))
    return Suspects(
        rows[wrong.rows],
        [f"{number:g}" for number in given[wrong.rows]],
        [f"{number:.4g}" for number in guesses[wrong.rows]],
        wrong.least,
    )
