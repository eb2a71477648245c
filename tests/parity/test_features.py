"""Features against scikit-learn's own transformers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import RobustScaler, TargetEncoder

from trainwright.contract.sections.data.table_data import TextFeatures
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.scaling import NumberRows, fit_numbers
from trainwright.data.encoders.target_encoding import TrainTarget, cross_fitted, fit_means
from trainwright.data.encoders.tfidf import Terms, fit_terms

WORDS = "the river runs under old bridges while clouds of grey birds fly north every cold year"


def texts(rows: int = 300) -> list[str]:
    draw = np.random.default_rng(1)
    words = WORDS.split()
    return [
        " ".join(words[v] for v in draw.integers(0, len(words), draw.integers(0, 12))).title()
        for _ in range(rows)
    ]


@pytest.mark.parametrize("rows", [2, 3, 500])
def test_robust_scaling_is_that_of_scikit_learn_to_the_last_bit(rows: int) -> None:
    draw = np.random.default_rng(0)
    values = np.stack([draw.standard_cauchy(rows), draw.integers(0, 3, rows) * 1.0], axis=1)
    values[1::7, 0] = np.nan
    scaler = RobustScaler().fit(values)
    state = fit_numbers(NumberRows.of(values), ["robust"] * 2, ["none"] * 2)
    assert (state.center == scaler.center_).all()
    assert (state.spread == scaler.scale_).all()
    asked = np.concatenate([values, 10 * values])
    np.testing.assert_array_equal(
        state.transform(asked), scaler.transform(asked).astype(np.float32)
    )


@pytest.mark.parametrize("kind", ["continuous", "binary", "multiclass"])
@pytest.mark.parametrize("smoothing", ["variance", 0.0, 7.5])
def test_mean_targets_are_those_of_scikit_learn(kind: str, smoothing: float | str) -> None:
    draw = np.random.default_rng(3)
    codes = draw.integers(0, 12, 400) ** 2 // 13
    cells = codes[:, None].astype(float)
    target: np.ndarray = draw.normal(size=400) + codes  # type: ignore[type-arg]
    folds: KFold | StratifiedKFold = KFold(4)
    values = target[:, None]
    if kind != "continuous":
        classes = 2 if kind == "binary" else 3
        target = (draw.integers(0, 6, 400) + codes) % classes
        folds = StratifiedKFold(4)
        values = (target[:, None] == np.arange(classes)).astype(float)
        values = values[:, 1:] if classes == 2 else values
    smooth = "auto" if smoothing == "variance" else smoothing
    encoder = TargetEncoder(target_type=kind, smooth=smooth, cv=folds)
    expected = encoder.fit_transform(cells, target)
    fold = np.empty(400, dtype=np.int64)
    for at, (_, inside) in enumerate(folds.split(cells, target)):
        fold[inside] = at
    size = int(codes.max()) + 2
    train = TrainTarget(values, ("",) * values.shape[1], fold)
    found = cross_fitted(codes, train, size, smoothing)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # All training rows for other rows, and the mean of all for a category that none of them has.
    whole = fit_means(codes, values, size, smoothing)  # type: ignore[arg-type]
    np.testing.assert_allclose(whole[codes], encoder.transform(cells), rtol=1e-9, atol=1e-12)
    unseen = encoder.transform(np.array([[-5.0]]))
    np.testing.assert_allclose(whole[-1:], unseen, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("words", "rows"), [(1, 1), (2, 3), (3, 2)])
def test_weights_of_terms_are_those_of_scikit_learn(words: int, rows: int) -> None:
    train, asked = texts(), ["grey rivers fly north north", "", "nothing known"]
    reference = TfidfVectorizer(ngram_range=(1, words), min_df=rows).fit(train)
    section = TextFeatures(terms=10_000, words=words, rows=rows, reduce="none")
    fitted = fit_terms(pl.Series("note", train), section)
    assert list(fitted.terms) == reference.get_feature_names_out().tolist()
    np.testing.assert_allclose(fitted.weights, reference.idf_, rtol=1e-14)
    for some in (train, asked):
        np.testing.assert_allclose(
            fitted.weigh(pl.Series("note", some)).dense(),
            reference.transform(some).toarray(),
            rtol=1e-6,
            atol=1e-7,
        )


@pytest.mark.parametrize(
    "train",
    [
        ["今天的比赛很好", "餐厅的味道很好", "比赛的餐厅"],
        ["きょうのサッカー", "サッカーのごはん", "きょうのごはん"],
        ["วันนี้ดูบอล", "กินข้าววันนี้", "ดูบอลกินข้าว"],
    ],
)
def test_scripts_without_spaces_have_characters_and_pairs_as_terms(train: list[str]) -> None:
    reference = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), min_df=2).fit(train)
    section = TextFeatures(terms=10_000, words=2, rows=2, reduce="none")
    fitted = fit_terms(pl.Series("note", train), section)
    assert list(fitted.terms) == reference.get_feature_names_out().tolist()
    found = Terms.from_json(fitted.to_json()).weigh(pl.Series("note", train)).dense()
    np.testing.assert_allclose(found, reference.transform(train).toarray(), rtol=1e-6, atol=1e-7)
    # A bundle of an earlier version reads words, as it was fitted.
    earlier = {key: value for key, value in fitted.to_json().items() if key != "unspaced"}
    words = CountVectorizer(ngram_range=(1, 2), vocabulary=fitted.terms).transform(train).toarray()
    found = Terms.from_json(earlier).weigh(pl.Series("note", train)).dense()
    assert ((found > 0) == (words > 0)).all()


def test_words_beside_characters_stay_words_and_no_term_is_refused() -> None:
    section = TextFeatures(terms=10_000, words=1, rows=2, reduce="none")
    fitted = fit_terms(pl.Series("note", ["iphone手机 case", "iPhone case 手"]), section)
    assert fitted.terms == ("case", "iphone", "手")
    with pytest.raises(DataMistake, match="no term of the text column"):
        fit_terms(pl.Series("note", ["one two", "three four", None]), section)


def test_directions_are_those_of_scikit_learn() -> None:
    train = texts()
    weighted = TfidfVectorizer(min_df=2).fit_transform(train)
    reference = TruncatedSVD(6, algorithm="arpack", random_state=0).fit_transform(weighted)
    reference /= np.sqrt((reference**2).mean(axis=0))
    section = TextFeatures(terms=10_000, words=1, rows=2, reduce="svd", components=6)
    found = fit_terms(pl.Series("note", train), section).transform(pl.Series("note", train))
    np.testing.assert_allclose((found**2).mean(axis=0), 1.0, rtol=1e-5)
    np.testing.assert_allclose(np.abs((found * reference).mean(axis=0)), 1.0, rtol=1e-5)
