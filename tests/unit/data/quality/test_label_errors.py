"""Confident learning beside the package of its authors, and on labels that were swapped."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from trainwright.data.quality import out_of_sample
from trainwright.data.quality.confident import confident_errors, wrong_labels
from trainwright.data.quality.examined import examine
from trainwright.data.quality.label_errors import Suspects, find_suspects, label_errors


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
