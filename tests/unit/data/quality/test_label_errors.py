"""Confident learning beside the package of its authors, and on labels that were swapped."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from trainwright.data.quality import out_of_sample
from trainwright.data.quality.confident import confident_errors, wrong_labels
from trainwright.data.quality.examined import examine
from trainwright.data.quality.label_errors import Suspects, find_suspects, label_errors
from trainwright.data.quality.noise_floor import chances_wrong


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
def test_the_chances_say_how_many_labels_are_wrong(share: float) -> None:
    """Of classes that overlap: disagreement alone is no error."""
    given, chances, swapped = overlapping(20_000, share)
    disagree = wrong_labels(given, chances)
    wrong = chances_wrong(given, chances)
    named = disagree & (wrong >= 0.5)
    assert swapped[named].mean() >= swapped[disagree].mean() + 0.1
    assert 0.9 * swapped[named].sum() <= wrong[named].sum() <= 1.3 * swapped[named].sum()
    assert swapped[named].sum() >= 0.35 * swapped.sum()


def test_no_label_of_classes_that_overlap_is_wrong() -> None:
    given, chances, _ = overlapping(20_000, 0.0)
    assert wrong_labels(given, chances).sum() > 1000
    assert (chances_wrong(given, chances) >= 0.5).sum() <= 20


def test_many_classes_are_judged_together() -> None:
    given, chances = probabilities(6000, 20, 0)
    wrong = wrong_labels(given, chances)
    assert (chances_wrong(given, chances)[wrong] >= 0.5).mean() > 0.9


def test_labels_that_overlap_are_told_apart_from_wrong_ones() -> None:
    """The finding says how many are wrong; where none is likely to be, it is good to know only."""
    random = np.random.default_rng(3)
    x = random.normal(0, 1, 3000)
    sure = random.random(3000) < 0.5
    bought = np.where(sure, 0.0, np.where(x > 0, 0.75, 0.25)) > random.random(3000)
    columns = {"x": x, "group": np.where(sure, "a", "b"), "y": np.where(bought, "yes", "no")}
    honest = examine(pl.DataFrame(columns), "y")
    (finding,) = label_errors(honest)
    assert (finding.severity, finding.count, finding.rows) == ("info", 0, ())
    assert "none is likely wrong" in finding.message
    planted = np.flatnonzero(sure)[:40]
    bought[planted] = True
    data = examine(pl.DataFrame({**columns, "y": np.where(bought, "yes", "no")}), "y")
    (finding,) = label_errors(data)
    assert finding.severity == "warning"
    assert len(set(finding.rows) & set(planted.tolist())) >= 38
    assert len(finding.rows) <= 60
    assert "'yes' for 'no' in" in finding.message
    assert "more may be right" in finding.message
    suspects = find_suspects(data)
    assert isinstance(suspects, Suspects)
    assert set(suspects.surest) <= set(planted.tolist())
    assert 30 <= suspects.expected <= len(suspects.rows)


def test_a_second_look_finds_what_wrong_labels_hid() -> None:
    """Of few rows: the models of the second were not fitted on those that the first doubts."""
    random = np.random.default_rng(5)
    true = np.repeat([0, 1, 2], 30)
    x = random.normal(0, 1, (90, 3)) + 3.5 * np.eye(3)[true]
    wrong = random.choice(90, 9, replace=False)
    given = true.copy()
    given[wrong] = (true[wrong] + 1) % 3
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(
        label=pl.Series(np.array(["a", "b", "c"])[given])
    )
    suspects = find_suspects(examine(frame, "label"))
    assert isinstance(suspects, Suspects)
    assert len(set(suspects.rows.tolist()) & set(wrong.tolist())) >= 8
    assert len(suspects.rows) <= 10


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


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_swapped_numbers_are_found(share: float) -> None:
    frame, planted, clear = measured(2000, share)
    (finding,) = label_errors(examine(frame, "y"))
    found = set(finding.rows)
    assert (finding.kind, finding.severity, finding.columns) == ("label_error", "warning", ("y",))
    assert len(found & clear) >= 0.8 * len(clear)
    assert len(found & planted) >= 0.8 * len(found)
    assert "relabel" not in finding.fix


def test_honest_numbers_are_hardly_called_wrong() -> None:
    """Large ones vary more, and are no errors for that."""
    frame, _, _ = measured(2000, 0.0)
    found = label_errors(examine(frame, "y"))
    assert sum(one.count for one in found) <= 10


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
    labels = ["a" if row % 2 else "b" for row in range(200)]
    texts = [" ".join(random.choice(list("uvw" if one == "a" else "xyz"), 8)) for one in labels]
    labels[7] = "b"
    data = examine(pl.DataFrame({"text": texts, "label": labels}), "label")
    suspects = find_suspects(data)
    assert isinstance(suspects, Suspects)
    assert suspects.rows.tolist() == [7]


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
