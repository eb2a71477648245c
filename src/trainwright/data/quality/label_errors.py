"""Labels that a model which never saw them would not have given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.units import many
from trainwright.data.counting import counted
from trainwright.data.quality.confident import wrong_labels
from trainwright.data.quality.examined import Examined
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.noise_floor import chances_wrong
from trainwright.data.quality.out_of_sample import Known, class_chances, number_guesses
from trainwright.data.quality.residuals import unexplained, wrong_numbers
from trainwright.data.table import Floats, Integers

_FEWEST_ROWS = 60
_FEWEST_OF_A_CLASS = 10
_MOST_CLASSES = 200
_FEW_ROWS = 1000
_LIKELY = 0.5
_SHOWN = 3
_MOST_WRONG = 0.3
_FEWEST_NUMBERS = 200
_MOST_WRONG_NUMBERS = 0.1
_MOST_OPEN = 0.5

Bits = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class Suspects:
    """Rows whose label is likely wrong, and the class that each is more like. About `expected` of
    them are wrong, at most; `surest` are those of which it is surest. The models disagree with the
    labels of as many rows more as are `open`, which may well be right."""

    rows: Integers
    given: list[str]
    likelier: list[str]
    expected: float = 0.0
    surest: tuple[int, ...] = ()
    open: int = 0


@final
@dataclass(frozen=True, slots=True)
class Unjudged:
    """The models know too little of the target, and why."""

    reason: str

    @classmethod
    def of(cls, share: float) -> Unjudged:
        """So large a share of the labels would count as wrong."""
        return cls(f"disagree so often that {share:.0%} would count as wrong")

    def __str__(self) -> str:
        return f"the labels cannot be judged: models that did not see them {self.reason}"


def label_errors(data: Examined) -> list[Finding]:
    """Likely label errors: of classes by confident learning on out-of-sample probabilities, of
    numbers by out-of-sample residuals."""
    return say_suspects(data, find_suspects(data))


def say_suspects(data: Examined, suspects: Suspects | Unjudged) -> list[Finding]:
    """What was found of the labels, as findings."""
    if isinstance(suspects, Unjudged):
        return [Finding("label_error", "info", str(suspects), columns=(data.target,))]
    if not len(suspects.rows):
        return [_nothing_to_tell(data, suspects)] if suspects.open else []
    if data.task == "numbers":
        return [_finding(data, suspects, _examples(data, suspects))]
    pairs = pl.DataFrame({"given": suspects.given, "likelier": suspects.likelier})
    counts = pairs.group_by("given", "likelier").len()
    counts = counts.sort("len", "given", "likelier", descending=[True, False, False]).head(3)
    shown = ", ".join(
        f"{given!r} for {likelier!r} in {count:,}" for given, likelier, count in counts.iter_rows()
    )
    surest = ", ".join(f"{row:,}" for row in data.rows[list(suspects.surest)].tolist())
    shown += f"; at most about {suspects.expected:,.0f} are; surest: rows {surest}"
    if suspects.open:
        shown += f"; {suspects.open:,} more may be right"
    return [_finding(data, suspects, shown)]


def _nothing_to_tell(data: Examined, suspects: Suspects) -> Finding:
    message = (
        f"models that did not see {many(suspects.open, 'label')} would give another class, but "
        "none is likely wrong: the classes overlap there"
    )
    return Finding("label_error", "info", message, columns=(data.target,))


def _finding(data: Examined, suspects: Suspects, shown: str) -> Finding:
    share = len(suspects.rows) / len(data)
    classes = " or relabel" if data.task == "classes" else ""
    return Finding(
        "label_error",
        "warning",
        f"{many(len(suspects.rows), 'label')} ({share:.1%}) likely wrong: {shown}",
        len(suspects.rows),
        data.places(suspects.rows),
        (data.target,),
        f"look at the rows; data.quality.actions: {{label_error: drop}}{classes} changes training "
        "rows only",
    )


def _examples(data: Examined, suspects: Suspects) -> str:
    """The numbers that lie farthest from what is likely, with it."""
    likelier = np.array([float(one) for one in suspects.likelier])
    far = np.argsort(-np.abs(data.answers[suspects.rows] - likelier), kind="stable")[:3]
    return ", ".join(f"{suspects.given[at]} for about {suspects.likelier[at]}" for at in far)


def find_suspects(data: Examined) -> Suspects | Unjudged:
    """Rows whose label is likely wrong, and what it is likelier to be.

    Each row is judged by models of the other four fifths of the rows. Classes of fewer than 10 rows
    are left alone. If more than 30 % of the rows would be wrong (of numbers 10 %, or if half of how
    they vary is left open), the models are, not the labels.
    """
    if data.task == "numbers":
        return _wrong_numbers(data)
    return suspects_among(data, lambda rows: Known.of(data.take(rows)))


def suspects_among(
    data: Examined,
    know: Callable[[Integers], Known],
    least_right: float = 0.0,
    unlikely: float = 1.0,
) -> Suspects | Unjudged:
    """Rows whose class is likely wrong and at most so likely, where models go by what `know` says
    of the rows that are judged, and give at least so many of the labels."""
    nothing = Suspects(np.empty(0, dtype=np.int64), [], [])
    if data.task != "classes" or len(data) < _FEWEST_ROWS:
        return nothing
    labels = data.labels
    counts = counted(labels.drop_nulls())
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
    doubted = wrong_labels(given, chances)
    if len(rows) < _FEW_ROWS:
        doubted, chances = _second_look(known, given, doubted, chances)
    return _suspects(rows, given, doubted, chances, names, unlikely)


def _second_look(
    known: Known, given: Integers, doubted: Bits, chances: Floats
) -> tuple[Bits, Floats]:
    """The same by models that were not fitted on the labels that were doubted, of which those stay
    so with which these models disagree too: among few rows a single wrong one leads them astray."""
    left = np.bincount(given[~doubted], minlength=chances.shape[1])
    if not 0 < doubted.mean() <= _MOST_WRONG or (2 * left < np.bincount(given)).any():
        return doubted, chances
    again = class_chances(known, given, chances.shape[1], doubted)
    stay = doubted & (again.argmax(axis=1) != given)
    return wrong_labels(given, again) | stay, again


def _suspects(
    rows: Integers,
    given: Integers,
    doubted: Bits,
    chances: Floats,
    names: list[str],
    unlikely: float,
) -> Suspects | Unjudged:
    """Those of the rows with doubted labels that are likelier wrong than not, and at most so
    likely."""
    own = chances[np.arange(len(given)), given]
    doubted &= own <= unlikely
    if (share := float(doubted.mean())) > _MOST_WRONG:
        return Unjudged.of(share)
    chance = chances_wrong(given, chances)
    wrong = np.flatnonzero(doubted & (chance >= _LIKELY))
    likelier = chances[wrong].argmax(axis=1)
    return Suspects(
        rows[wrong],
        [names[code] for code in given[wrong]],
        [names[code] for code in likelier],
        float(chance[wrong].sum()),
        tuple(rows[wrong[np.argsort(own[wrong], kind="stable")[:_SHOWN]]].tolist()),
        int(doubted.sum()) - len(wrong),
    )


def _wrong_numbers(data: Examined) -> Suspects | Unjudged:
    rows = np.flatnonzero(np.isfinite(data.answers))
    given = data.answers[rows]
    nothing = Suspects(np.empty(0, dtype=np.int64), [], [])
    if len(rows) < _FEWEST_NUMBERS:
        return nothing
    guesses = number_guesses(Known.of(data.take(rows)), given)
    if not len(guesses):
        return nothing
    if (left := unexplained(given, guesses)) > _MOST_OPEN:
        return Unjudged(f"leave {left:.0%} of how they vary open")
    wrong = np.flatnonzero(wrong_numbers(given, guesses))
    if len(wrong) > _MOST_WRONG_NUMBERS * len(data):
        return Unjudged.of(len(wrong) / len(data))
    return Suspects(
        rows[wrong],
        [f"{number:g}" for number in given[wrong]],
        [f"{number:.4g}" for number in guesses[wrong]],
    )
