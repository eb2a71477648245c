"""Labels that a model which never saw them would not have given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import polars as pl

from trainwright.data.counting import counted
from trainwright.data.quality.confident import wrong_labels
from trainwright.data.quality.examined import Examined, Look
from trainwright.data.quality.finding import Finding
from trainwright.data.table import Floats, Integers

FOLDS = 5
MOST_FITTED = 50_000
"""Rows that a model of one fold is fitted on; the others are still judged."""

_FEWEST_ROWS = 60
_FEWEST_OF_A_CLASS = 10
_MOST_CLASSES = 200
_MOST_CATEGORIES = 200
_TREES = 80
_ITERATIONS = 30
_MOST_WRONG = 0.3


@final
@dataclass(frozen=True, slots=True)
class Suspects:
    """Rows whose label is likely wrong, and the class that each is more like."""

    rows: Integers
    given: list[str]
    likelier: list[str]


def label_errors(data: Examined) -> list[Finding]:
    """Likely label errors, by confident learning on out-of-sample probabilities."""
    suspects = find_suspects(data)
    if not len(suspects.rows):
        return []
    if len(suspects.rows) > _MOST_WRONG * len(data):
        text = (
            f"the labels cannot be judged: models that did not see them disagree so often that "
            f"{len(suspects.rows) / len(data):.0%} would count as wrong"
        )
        return [Finding("label_error", "info", text, columns=(data.target,))]
    pairs = pl.DataFrame({"given": suspects.given, "likelier": suspects.likelier})
    counts = pairs.group_by("given", "likelier").len().sort("len", descending=True).head(3)
    shown = ", ".join(
        f"{given!r} for {likelier!r} in {count:,}" for given, likelier, count in counts.iter_rows()
    )
    share = len(suspects.rows) / len(data)
    return [
        Finding(
            "label_error",
            "warning",
            f"{len(suspects.rows):,} labels ({share:.1%}) are likely wrong: {shown}",
            len(suspects.rows),
            data.places(suspects.rows),
            (data.target,),
            "look at the rows; data.quality.actions: {label_error: drop} or relabel changes "
            "training rows only",
        )
    ]


def find_suspects(data: Examined) -> Suspects:
    """Rows that confident learning calls mislabelled.

    Each row is judged by a model of the other four fifths of the rows: of texts logistic regression
    over TF-IDF of words, of a table the mean of small boosted trees and logistic
    regression. Classes of fewer than 10 rows are left alone.
    """
    nothing = Suspects(np.empty(0, dtype=np.int64), [], [])
    if data.task != "classes" or len(data) < _FEWEST_ROWS:
        return nothing
    labels = data.labels
    counts = counted(labels.drop_nulls())
    names = counts.filter(pl.col("count") >= _FEWEST_OF_A_CLASS)["value"].sort().to_list()
    if not 2 <= len(names) <= _MOST_CLASSES or not data.telling:
        return nothing
    rows = labels.is_in(names).fill_null(False).arg_true().cast(pl.Int64).to_numpy()
    codes = list(range(len(names)))
    given = labels.gather(rows).replace_strict(names, codes, return_dtype=pl.Int64).to_numpy()
    chances = out_of_sample(data.take(rows), given, len(names))
    wrong = np.flatnonzero(wrong_labels(given, chances))
    likelier = chances[wrong].argmax(axis=1)
    return Suspects(
        rows[wrong], [names[code] for code in given[wrong]], [names[code] for code in likelier]
    )


def out_of_sample(data: Examined, given: Integers, classes: int) -> Floats:
    """Probabilities [N, K], each row by models that were not fitted on it."""
    texts = [look for look in data.telling if look.kind == "text"]
    others = [look for look in data.telling if look.kind in ("numeric", "categorical", "datetime")]
    chances = np.zeros((len(data), classes))
    folds = _folds(given)
    ways: list[Callable[[int], Floats]] = []
    if texts:
        ways.append(lambda fold: _words(texts, given, folds == fold))
    if not texts or len(others) >= 3:
        ways.append(lambda fold: _trees(others, given, folds == fold, classes))
        ways.append(lambda fold: _line(others, given, folds == fold))
    for fold in range(FOLDS):
        held = folds == fold
        for way in ways:
            chances[held] += way(fold) / len(ways)
    return chances


def _folds(given: Integers) -> Integers:
    """A fold [N] for each row, drawn within each class."""
    random = np.random.default_rng(0)
    folds = np.empty(len(given), dtype=np.int64)
    for label in np.unique(given):
        rows = random.permutation(np.flatnonzero(given == label))
        folds[rows] = (np.arange(len(rows)) + label) % FOLDS
    return folds


def _fitted_rows(held: np.ndarray, given: Integers) -> Integers:
    """The rows to fit on: all that are not held out, or evenly spread ones of each class."""
    rows = np.flatnonzero(~held)
    if len(rows) <= MOST_FITTED:
        return rows
    by_class = rows[np.argsort(given[rows], kind="stable")]
    return by_class[:: -(-len(rows) // MOST_FITTED)]


def _words(texts: list[Look], given: Integers, held: np.ndarray) -> Floats:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    frame = pl.DataFrame([look.values.fill_null("") for look in texts])
    joined = frame.select(pl.concat_str(pl.all(), separator=" ").alias("t"))["t"]
    fitted = _fitted_rows(held, given)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
    train = vectorizer.fit_transform(joined.gather(fitted).to_list())
    model = LogisticRegression(C=10.0, max_iter=_ITERATIONS)
    with warnings.catch_warnings():
        # The first steps towards the optimum rank labels as well as the optimum does.
        warnings.simplefilter("ignore", category=ConvergenceWarning)
        model.fit(train, given[fitted])
    chances: Floats = model.predict_proba(vectorizer.transform(joined.filter(held).to_list()))
    return chances


def _trees(columns: list[Look], given: Integers, held: np.ndarray, classes: int) -> Floats:
    import lightgbm

    inputs, categorical = _matrix(columns)
    fitted = _fitted_rows(held, given)
    parameters: dict[str, Any] = {
        "objective": "binary" if classes == 2 else "multiclass",
        "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 20, "num_threads": 1,
        "verbose": -1, "seed": 0, "deterministic": True, "feature_fraction": 0.8, "max_bin": 127,
    }  # fmt: skip
    if classes > 2:
        parameters["num_class"] = classes
    rows = lightgbm.Dataset(inputs[fitted], given[fitted], categorical_feature=categorical)
    model = lightgbm.train(parameters, rows, num_boost_round=_TREES)
    chances = np.asarray(model.predict(inputs[held], num_threads=1))
    return np.stack([1 - chances, chances], axis=1) if classes == 2 else chances


def _line(columns: list[Look], given: Integers, held: np.ndarray) -> Floats:
    from scipy.sparse import csr_matrix, hstack
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    inputs, categorical = _matrix(columns)
    words = OneHotEncoder(handle_unknown="ignore", min_frequency=5, dtype=np.float32)
    numeric = [i for i in range(inputs.shape[1]) if i not in categorical]
    fitted = _fitted_rows(held, given)
    numbers = inputs[:, numeric]
    middle = np.nan_to_num(np.nanmedian(numbers[fitted], axis=0))
    numbers = np.where(np.isfinite(numbers), numbers, middle)
    scale = numbers[fitted].std(axis=0)
    numbers = np.clip((numbers - middle) / np.where(scale > 0, scale, 1), -10, 10)
    whole = csr_matrix(numbers.astype(np.float32))
    if categorical:
        words.fit(inputs[fitted][:, categorical])
        whole = csr_matrix(hstack([whole, words.transform(inputs[:, categorical])]))
    model = LogisticRegression(max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=ConvergenceWarning)
        model.fit(whole[fitted], given[fitted])
    chances: Floats = model.predict_proba(whole[held])
    return chances


def _matrix(columns: list[Look]) -> tuple[Floats, list[int]]:
    """Numbers and codes of words [N, F], NaN for missing, and which of the columns are codes."""
    made: list[Floats] = []
    categorical: list[int] = []
    for look in columns:
        if look.kind == "numeric":
            made.append(look.numbers)
        elif look.kind == "datetime":
            made.append(look.values.cast(pl.Int64).cast(pl.Float64).fill_null(np.nan).to_numpy())
        else:
            names = counted(look.values.drop_nulls())["value"].head(_MOST_CATEGORIES).to_list()
            codes = look.values.replace_strict(
                names, list(range(len(names))), default=len(names), return_dtype=pl.Float64
            )
            codes = codes.set(look.values.is_null(), -1.0)
            categorical.append(len(made))
            made.append(codes.to_numpy())
    return np.stack(made, axis=1), categorical
