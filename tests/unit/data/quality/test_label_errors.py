"""Confident learning beside the package of its authors, and on labels that were swapped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from faults.tiers import in_test
from real_data import real_data
from trainwright.data.quality.examined_data import examine
from trainwright.data.quality.labels import label_noise as label_noise_module
from trainwright.data.quality.labels import out_of_sample
from trainwright.data.quality.labels.label_errors import (
    Suspects,
    confident_errors,
    find_suspects,
    label_errors,
    wrong_labels,
    wrong_numbers,
)
from trainwright.data.quality.labels.label_noise import label_noise
from trainwright.data.quality.labels.out_of_sample import Known, class_chances


def probabilities(rows: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which a tenth is swapped, and chances from a model that is often right."""
    random = np.random.default_rng(seed)
    true = random.integers(0, classes, rows)
    scores = random.normal(0, 1, (rows, classes))
    scores[np.arange(rows), true] += 2.5
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    swapped = random.random(rows) < 0.1
    given = np.where(swapped, (true + random.integers(1, classes, rows)) % classes, true)
    return given, chances


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_rows_are_those_of_cleanlab(classes: int, seed: int) -> None:
    filtering = pytest.importorskip("cleanlab.filter")
    given, chances = probabilities(1500, classes, seed)
    confident = filtering.find_label_issues(
        given, chances, filter_by="confident_learning", n_jobs=1
    )
    assert (confident_errors(given, chances) == confident).all()
    wanted = filtering.find_label_issues(given, chances, filter_by="low_self_confidence", n_jobs=1)
    assert (wrong_labels(given, chances) == wanted).all()


def swapped_rows(rows: int, share: float) -> tuple[pl.DataFrame, set[int]]:
    random = np.random.default_rng(0)
    values = random.normal(0, 1, (rows, 4))
    place = random.choice(["a", "b", "c"], rows)
    true = (values[:, 0] + values[:, 1] + (place == "b") > 0.3).astype(int)
    chosen = random.choice(rows, int(share * rows), replace=False)
    true[chosen] = 1 - true[chosen]
    columns = {f"x{i}": values[:, i] for i in range(4)}
    frame = pl.DataFrame({**columns, "place": place, "label": np.where(true, "yes", "no")})
    return frame, set(chosen.tolist())


def overlapping(rows: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes of which the second is seldom sure of itself: labels, chances that are right but
    for a share of the labels that is then swapped, and which are."""
    random = np.random.default_rng(1)
    chance = 0.8 * random.beta(0.3, 1, rows)
    swapped = random.random(rows) < share
    given = ((random.random(rows) < chance) ^ swapped).astype(int)
    seen = chance * (1 - share) + (1 - chance) * share
    return given, np.stack([1 - seen, seen], axis=1), swapped


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_noise_is_told_from_overlapping_classes(share: float) -> None:
    """Log-odds of the classes as they are without the noise; the finding vouches for no more than
    there are."""
    given, chances, swapped = overlapping(20_000, share)
    clean = np.clip((chances - share) / (1 - 2 * share), 1e-4, 1 - 1e-4)
    noise = label_noise(given, clean)
    named = noise.chances >= 0.5
    assert noise.evidence > 15
    assert swapped[named].mean() >= 0.7
    assert swapped[named].sum() >= 0.3 * swapped.sum()
    assert noise.least * noise.chances[named].sum() <= swapped[named].sum()


@pytest.mark.parametrize("sharpness", in_test(2, [0.3, 1.0, 3.0, 8.0]))
def test_known_probabilities_are_no_evidence_of_noise(sharpness: float) -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        log_odds = sharpness * random.normal(0, 1, 4000)
        chance = 1 / (1 + np.exp(-log_odds))
        given = (random.random(4000) < chance).astype(int)
        # A model that is too sure, or not sure enough, and errs a little.
        seen = random.uniform(0.7, 1.4) * log_odds + random.normal(0, 0.3, 4000)
        seen = 1 / (1 + np.exp(-seen))
        assert label_noise(given, np.stack([1 - seen, seen], axis=1)).evidence < 12


def test_wrong_labels_of_many_classes_are_found() -> None:
    random = np.random.default_rng(0)
    true = random.integers(0, 20, 6000)
    scores = 2 * random.normal(0, 1, (6000, 20))
    scores[np.arange(6000), true] += 12
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    swapped = random.random(6000) < 0.05
    given = np.where(swapped, (true + random.integers(1, 20, 6000)) % 20, true)
    noise = label_noise(given, chances)
    named = noise.chances >= 0.5
    assert noise.evidence > 15
    assert swapped[named].mean() > 0.95
    assert swapped[named].sum() > 0.9 * swapped.sum()


def drawn_labels(rows: int, seed: int) -> pl.DataFrame:
    """Labels from known probabilities, by numbers and by a category of many values."""
    random = np.random.default_rng(seed)
    values = random.normal(0, 1, (rows, 4))
    shops = random.integers(0, 40, rows)
    effects = random.normal(0, 1, 40)[shops]
    log_odds = random.choice([0.5, 1, 2]) * (values[:, 0] - values[:, 1] * values[:, 2] + effects)
    drawn = random.random(rows) < 1 / (1 + np.exp(-log_odds))
    columns = {f"x{i}": values[:, i] for i in range(4)}
    return pl.DataFrame(
        {**columns, "shop": [f"s{shop}" for shop in shops], "y": np.where(drawn, "yes", "no")}
    )


@pytest.mark.parametrize("rows", [300, 2000])
def test_labels_drawn_from_known_probabilities_name_no_row(rows: int) -> None:
    for seed in range(4):
        found = label_errors(examine(drawn_labels(rows, seed), "y"))
        assert [(one.severity, one.count, one.rows) for one in found] == [("info", 0, ())]
        assert "overlapping classes" in found[0].message


def test_survivors_of_the_titanic_are_no_label_errors() -> None:
    frame = pl.read_csv(real_data("titanic") / "titanic_train.csv", infer_schema=False)
    found = label_errors(examine(frame, "Survived"))
    assert [(one.severity, one.count) for one in found] == [("info", 0)]


def test_the_finding_says_how_many_labels_are_wrong_at_least() -> None:
    frame, planted = swapped_rows(3000, 0.05)
    data = examine(frame, "label")
    (finding,) = label_errors(data)
    suspects = find_suspects(data)
    assert isinstance(suspects, Suspects)
    wrong = set(finding.rows) & planted
    assert finding.severity == "warning"
    assert f"at least {suspects.least:,} of them" in finding.message
    assert 0 < suspects.least <= len(wrong)
    sure = suspects.vouched()
    assert len(sure.rows) == len(sure.given) == len(sure.likelier) == suspects.least
    assert sure.rows.tolist() == suspects.rows[: suspects.least].tolist()


def test_a_second_look_finds_what_wrong_labels_hid() -> None:
    """Of few rows: the models of the second were not fitted on those that the first doubts."""
    random = np.random.default_rng(5)
    true = np.repeat([0, 1, 2], 100)
    x = random.normal(0, 1, (300, 3)) + 6 * np.eye(3)[true]
    wrong = random.choice(300, 18, replace=False)
    given = true.copy()
    given[wrong] = (true[wrong] + random.integers(1, 3, 18)) % 3
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(
        label=pl.Series(np.array(["a", "b", "c"])[given])
    )
    suspects = find_suspects(examine(frame, "label"))
    assert isinstance(suspects, Suspects)
    assert len(set(suspects.rows.tolist()) & set(wrong.tolist())) >= 17
    assert len(suspects.rows) <= 19


def test_swapped_labels_of_a_table_are_found() -> None:
    frame, planted = swapped_rows(1500, 0.05)
    suspects = find_suspects(examine(frame, "label"))
    assert isinstance(suspects, Suspects)
    found = set(suspects.rows.tolist())
    assert len(found & planted) >= 0.7 * len(planted)
    assert len(found & planted) >= 0.75 * len(found)
    for row, given, likelier in zip(suspects.rows, suspects.given, suspects.likelier, strict=True):
        assert frame["label"][int(row)] == given != likelier


def test_labels_that_nothing_tells_are_not_called_wrong() -> None:
    frame, _ = swapped_rows(600, 0.0)
    random = np.random.default_rng(1)
    noise = frame.with_columns(label=pl.Series(random.choice(["yes", "no", "maybe"], 600)))
    (finding,) = label_errors(examine(noise, "label"))
    assert (finding.severity, finding.rows) == ("info", ())


def test_few_rows_are_left_alone() -> None:
    frame, _ = swapped_rows(1500, 0.05)
    assert label_errors(examine(frame.head(40), "label")) == []
    assert label_errors(examine(frame.head(150), "x0")) == []


def measured(rows: int, share: float) -> tuple[pl.DataFrame, set[int], set[int]]:
    """Numbers that vary more where they are large, of which a share is another row's: these rows,
    and those of them that anybody could find, which are not nearly what they should be."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, (rows, 3))
    true = np.exp(0.3 * x[:, 0] + 0.1 * x[:, 1]) * random.lognormal(0, 0.1, rows)
    chosen = random.choice(rows, int(share * rows), replace=False)
    given = true.copy()
    given[chosen] = true[np.roll(chosen, 1)]
    clear = {int(row) for row in chosen if abs(given[row] - true[row]) > true[row]}
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": given})
    return frame, set(chosen.tolist()), clear


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_swapped_numbers_are_found(share: float) -> None:
    frame, planted, clear = measured(2000, share)
    (finding,) = label_errors(examine(frame, "y"))
    found = set(finding.rows)
    assert (finding.kind, finding.severity, finding.columns) == ("label_error", "info", ("y",))
    assert len(found & clear) >= 0.8 * len(clear)
    assert len(found & planted) >= 0.8 * len(found)
    assert "relabel" not in finding.fix


def test_honest_numbers_are_not_called_wrong() -> None:
    """Large ones vary more, and are no errors for that."""
    frame, _, _ = measured(2000, 0.0)
    assert label_errors(examine(frame, "y")) == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda random, guess: guess + random.standard_t(3, len(guess)),
        lambda random, guess: guess + random.laplace(size=len(guess)),
        lambda random, guess: guess * random.lognormal(0, 1, len(guess)),
        lambda random, guess: random.poisson(guess / 50).astype(float),
    ],
    ids=["student", "laplace", "log-normal", "poisson"],
)
def test_numbers_of_a_heavy_tail_are_not_called_wrong(
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray],
) -> None:
    named = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        guess = random.lognormal(2, 1, 2000)
        named.append(len(wrong_numbers(draw(random, guess), guess).rows))
    assert named == [0] * 10


def test_the_large_ones_of_a_heavy_tailed_target_are_not_called_wrong() -> None:
    """A few rows are far larger than any model says: imports by country, costs by patient."""
    random = np.random.default_rng(0)
    country = np.repeat(np.arange(150), 20)
    size = random.lognormal(0, 3, 150)[country]
    frame = pl.DataFrame(
        {
            "country": [f"c{number}" for number in country],
            "x": random.normal(size=3000),
            "year": np.tile(np.arange(1990, 2010), 150),
            "imports": size * random.lognormal(0, 0.1, 3000),
        }
    )
    (finding,) = label_errors(examine(frame, "imports"))
    assert (finding.severity, finding.rows) == ("info", ())


def test_numbers_that_nothing_tells_are_not_called_wrong() -> None:
    frame, _, _ = measured(1000, 0.0)
    noise = np.random.default_rng(1).lognormal(0, 1.5, 1000)
    (finding,) = label_errors(examine(frame.with_columns(y=pl.Series(noise)), "y"))
    assert (finding.severity, finding.count, finding.rows) == ("info", 0, ())
    assert "the labels cannot be judged" in finding.message


def test_texts_without_a_word_that_two_have_say_nothing_of_labels() -> None:
    labels = ["a", "b"] * 50
    for texts in (
        ["? ! ? !" + "?" * row for row in range(100)],
        [f"k{row} l{row} m{row} n{row}" for row in range(100)],
    ):
        frame = pl.DataFrame({"text": texts, "label": labels})
        assert [look.kind for look in examine(frame, "label").features] == ["text"]
        assert label_errors(examine(frame, "label")) == []


def test_words_of_one_letter_say_something_of_labels() -> None:
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    texts = [" ".join(random.choice(list("uvw" if one else "xyz"), 8)) for one in labels]
    labels[7] = 0
    known = Known.of(examine(pl.DataFrame({"text": texts, "label": labels}), "label"))
    chances = class_chances(known, labels, 2, np.zeros(200, dtype=np.bool_))
    assert np.flatnonzero(chances.argmax(axis=1) != labels).tolist() == [7]


def test_a_rare_class_of_very_many_rows_is_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows that are fitted on, an even choice could leave it out."""
    monkeypatch.setattr(out_of_sample, "MOST_FITTED", 100)
    random = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], [1000, 990, 10])
    centres = np.repeat([-3.0, 3.0, 9.0], [1000, 990, 10])
    frame = pl.DataFrame({"x": centres + random.normal(0, 0.3, 2000), "label": labels})
    suspects = find_suspects(examine(frame, "label"))
    assert isinstance(suspects, Suspects)
    assert suspects.rows.tolist() == []


def test_every_label_may_be_wrong() -> None:
    given = np.array([0, 1] * 5)
    chances = np.eye(2)[1 - given]
    assert wrong_labels(given, chances).all()


@pytest.mark.parametrize("share", [0.0, 0.02])
def test_very_many_pairs_in_steps_say_the_same(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    log_odds = random.normal(0, 3, 6000)
    chances = 1 / (1 + np.exp(-log_odds))
    given = (random.random(6000) < chances).astype(np.int64)
    swapped = random.random(6000) < share
    given[swapped] = 1 - given[swapped]
    columns = np.stack([1 - chances, chances], axis=1)
    single = label_noise(given, columns)
    monkeypatch.setattr(label_noise_module, "_MOST_PAIRS", 1000)
    stepped = label_noise(given, columns)
    assert (single.evidence > 15) == (share > 0)
    assert stepped.evidence == pytest.approx(single.evidence, rel=1e-3)
    assert stepped.least == pytest.approx(single.least, rel=1e-3)
    assert stepped.chances == pytest.approx(single.chances, rel=1e-2, abs=1e-6)
