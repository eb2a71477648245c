"""Out-of-sample (cross-validated) predictions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.encoders.scaling import far_center
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.statistics.logistic_regression import LogisticRegression, fit_logistic

FOLDS = 5
MOST_FITTED = 20_000
"""Limit of the rows a fold's model is fitted on; all rows are still predicted."""

_FEWEST_OF_A_CLASS = 10
_MOST_CATEGORIES = 200
_FEWEST_BESIDE_TEXTS = 3
_TREES = 40
_TREE = {
    "learning_rate": 0.2, "min_data_in_leaf": 20, "num_threads": 1, "verbose": -1, "seed": 0,
    "deterministic": True, "feature_fraction": 0.8, "max_bin": 127,
}  # fmt: skip
_ITERATIONS = 30
_WORD, _LETTER = r"(?u)\b\w\w+\b", r"(?u)\b\w+\b"
"""One-letter words carry little, but a text may have no longer ones."""

Held = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class Known:
    """Inputs of the models: `texts` [N] concatenates each row's texts, all empty if no word occurs
    in two of them; `numbers` float64 [N, F] are the other columns, NaN for missing, with
    categorical codes in the columns `codes`."""

    texts: pl.Series
    numbers: Floats
    codes: tuple[int, ...]

    @classmethod
    def of(cls, data: ExaminedData) -> Known:
        """Informative features of examined rows."""
        numbers: list[Floats] = []
        codes: list[int] = []
        for look in data.telling:
            if look.kind == "numeric":
                numbers.append(look.numbers)
            elif look.kind == "datetime":
                moments = look.values.cast(pl.Int64).cast(pl.Float64)
                numbers.append(moments.fill_null(np.nan).to_numpy())
            elif look.kind == "categorical":
                codes.append(len(numbers))
                numbers.append(_codes(look.values))
        texts = [look.values.fill_null("") for look in data.telling if look.kind == "text"]
        return cls(
            texts=_joined(texts) if texts else pl.repeat("", len(data), eager=True),
            numbers=np.stack(numbers, axis=1) if numbers else np.empty((len(data), 0)),
            codes=tuple(codes),
        )

    @property
    def has_texts(self) -> bool:
        """Are the texts informative?"""
        return bool((self.texts != "").any())


Learner = Callable[[Integers, Integers, Held, int], Floats]
"""Fit and predict: from the classes int64 [N], rows to fit on, held-out mask [N] and number of
classes K to the probabilities [H, K] of the held-out rows."""


def class_chances(known: Known, given: Integers, classes: int, doubtful: Held) -> Floats:
    """Out-of-sample class probabilities [N, K], from models fitted on the other folds without the
    `doubtful` rows [N], which may be at most half of a class. Of zero rows where there are no
    informative features.

    Texts: logistic regression on word TF-IDF. Tables: the mean of small boosted trees and logistic
    regression. Both with texts and three further columns.
    """
    learners: list[Learner] = [partial(_words, known)] if known.has_texts else []
    columns = known.numbers.shape[1]
    if columns >= (_FEWEST_BESIDE_TEXTS if learners else 1):
        learners += [partial(_trees, known), _Lines(known)]
    if not learners:
        return np.empty((0, classes))
    chances = np.zeros((len(given), classes))
    folds = _folds(given)
    for fold in range(FOLDS):
        held = folds == fold
        fitted = _fitted_rows(held | doubtful, given)
        for learn in learners:
            chances[held] += learn(given, fitted, held, classes) / len(learners)
    return chances


def number_guesses(known: Known, given: Floats) -> Floats:
    """Out-of-sample predictions [N] of numbers [N], by boosted trees (absolute error) fitted on the
    other folds. Of zero rows where all features are texts."""
    if not known.numbers.shape[1]:
        return np.empty(0)
    import lightgbm

    order = np.random.default_rng(0).permutation(len(given))
    folds = np.empty(len(given), dtype=np.int64)
    folds[order] = np.arange(len(given)) % FOLDS
    parameters: dict[str, Any] = {**_TREE, "objective": "l1", "num_leaves": 31}
    guesses, center = np.empty(len(given)), far_center(given)
    for fold in range(FOLDS):
        fitted = _fitted_rows(folds == fold, np.zeros(len(given), dtype=np.int64))
        rows = lightgbm.Dataset(
            known.numbers[fitted], given[fitted] - center, categorical_feature=list(known.codes)
        )
        model = lightgbm.train(parameters, rows, num_boost_round=_TREES)
        held = known.numbers[folds == fold]
        guesses[folds == fold] = center + np.asarray(model.predict(held, num_threads=1))
    return guesses


def _codes(values: pl.Series) -> Floats:
    """Category codes by descending frequency; rare ones share a code, missing is -1."""
    names = count_values(values.drop_nulls())["value"].head(_MOST_CATEGORIES).to_list()
    codes = values.replace_strict(
        names, list(range(len(names))), default=len(names), return_dtype=pl.Float64
    )
    return codes.set(values.is_null(), -1.0).to_numpy()


def _joined(texts: list[pl.Series]) -> pl.Series:
    """Concatenated texts of each row."""
    whole = pl.select(pl.concat_str(*texts, separator=" ")).to_series()
    words = whole.str.to_lowercase().str.extract_all(r"\w+").list.unique().explode()
    return (
        whole if words.drop_nulls().is_duplicated().any() else pl.repeat("", len(whole), eager=True)
    )


def _folds(given: Integers) -> Integers:
    """Stratified fold assignment [N]."""
    random = np.random.default_rng(0)
    folds = np.empty(len(given), dtype=np.int64)
    for label in np.unique(given):
        rows = random.permutation(np.flatnonzero(given == label))
        folds[rows] = (np.arange(len(rows)) + label) % FOLDS
    return folds


def _fitted_rows(without: Held, given: Integers) -> Integers:
    """Rows to fit on: all others, subsampled evenly within each class if there are very many; of a
    rare class the first rows."""
    rows = np.flatnonzero(~without)
    if len(rows) <= MOST_FITTED:
        return rows
    by_class = rows[np.argsort(given[rows], kind="stable")]
    labels = given[by_class]
    place = np.arange(len(rows)) - np.searchsorted(labels, labels)
    step = -(-len(rows) // MOST_FITTED)
    chosen: Integers = by_class[(place % step == 0) | (place < _FEWEST_OF_A_CLASS)]
    return chosen


def _words(known: Known, given: Integers, fitted: Integers, held: Held, classes: int) -> Floats:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = known.texts.gather(fitted).to_list()
    shared = next((word for word in (_WORD, _LETTER) if _stands_twice(word, texts)), "")
    if not shared:
        # No word occurs in two of these texts: predict the class frequencies.
        shares = np.bincount(given[fitted], minlength=classes) / len(fitted)
        return np.tile(shares, (int(held.sum()), 1))
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern=shared)
    train = vectorizer.fit_transform(texts)
    model = fit_logistic(train, given[fitted], 0.1, _ITERATIONS)
    asked = vectorizer.transform(known.texts.filter(pl.Series(held)).to_list())
    return _of_all(model, asked, classes)


def _stands_twice(word: str, texts: Sequence[str]) -> bool:
    """Does a word of this pattern occur in two of the texts?"""
    seen: set[str] = set()
    for text in texts:
        here = set(re.findall(word, text.lower()))
        if seen & here:
            return True
        seen |= here
    return False


def _trees(known: Known, given: Integers, fitted: Integers, held: Held, classes: int) -> Floats:
    import lightgbm

    parameters: dict[str, Any] = {
        **_TREE,
        "objective": "binary" if classes == 2 else "multiclass",
        "num_leaves": 15,
    }
    if classes > 2:
        parameters["num_class"] = classes
    rows = lightgbm.Dataset(
        known.numbers[fitted], given[fitted], categorical_feature=list(known.codes)
    )
    model = lightgbm.train(parameters, rows, num_boost_round=_TREES)
    chances = np.asarray(model.predict(known.numbers[held], num_threads=1))
    return np.stack([1 - chances, chances], axis=1) if classes == 2 else chances


@final
class _Lines:
    """Logistic regression on scaled numbers and one-hot codes. Each fold begins with the fit of the
    fold before, of which it differs little."""

    def __init__(self, known: Known) -> None:
        from scipy.sparse import csr_array, hstack

        numbers = np.delete(known.numbers, known.codes, axis=1)
        middle = np.nan_to_num(np.nanmedian(numbers, axis=0))
        numbers = np.where(np.isfinite(numbers), numbers, middle)
        scale = numbers.std(axis=0)
        blocks = [csr_array(np.clip((numbers - middle) / np.where(scale > 0, scale, 1), -10, 10))]
        for column in known.codes:
            codes = known.numbers[:, column].astype(np.int64) + 1  # missing is -1
            ends = np.arange(len(codes) + 1)
            blocks.append(csr_array((np.ones(len(codes)), codes, ends)))
        self._rows = csr_array(hstack(blocks, format="csr"))
        self._before: LogisticRegression | None = None

    def __call__(self, given: Integers, fitted: Integers, held: Held, classes: int) -> Floats:
        """As `Learner`."""
        before = self._before
        if before is not None and not np.array_equal(before.present, np.unique(given[fitted])):
            before = None
        # A few iterations rank labels as well as the optimum does.
        model = fit_logistic(self._rows[fitted], given[fitted], 1.0, 100, start=before)
        self._before = model
        return _of_all(model, self._rows[held], classes)


def _of_all(model: LogisticRegression, rows: Any, classes: int) -> Floats:
    """Probabilities [H, K] of all classes, 0 for those without a fitted row."""
    chances = np.zeros((rows.shape[0], classes))
    chances[:, model.present] = model.chances(rows)
    return chances
