from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import Markup
from matplotlib.axes import Axes

from trainwright.evaluation.curves.plot_data import RegressionCurves
from trainwright.evaluation.evaluation_result import Evaluation, SliceScore
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.verdict import Clause, Status, Verdict
from trainwright.report.figures.bars import Scale, draw_bar
from trainwright.report.figures.confusion_and_histograms import view_confusion
from trainwright.report.figures.svg_figure import SERIES, Panel, draw_svg
from trainwright.report.figures.training_figures import smooth
from trainwright.report.format import (
    clean,
    clean_lines,
    show_change,
    show_range,
    show_share,
    show_value,
    show_when,
)
from trainwright.report.load_run import StoredEvaluation
from trainwright.report.sections.verdict_section import view_judged

ABSENT = Interval(math.nan, -math.inf, math.inf)


def test_a_bar_stands_where_its_numbers_say() -> None:
    bar = draw_bar(Interval(0.5, 0.25, 0.75), 0.9, Scale(0.0, 1.0))
    assert (bar.range[0].left, bar.range[0].width) == (25.0, 50.0)
    assert (bar.value, bar.target) == ((50.0,), (90.0,))
    assert bar.words == "0.5000, interval 0.2500 to 0.7500, target 0.9000"


def test_a_bar_without_interval_has_no_range_and_without_value_no_dot() -> None:
    bar = draw_bar(ABSENT, math.nan, Scale.over([]))
    assert (bar.range, bar.value, bar.target) == ((), (), ())


def test_a_scale_of_one_value_has_a_width() -> None:
    for value in (0.0, 0.5, -3.0):
        scale = Scale.over([value, math.inf, math.nan])
        assert scale.low < value < scale.high
        assert scale.percent(value) == 50.0


def judged(scores: list[tuple[str, float, Status]], metric: str) -> StoredEvaluation:
    """Slices by name, value and status, all of one metric; an empty slice has no value."""
    intervals = [Interval(v, v - 0.1, v + 0.1) if v == v else ABSENT for _, v, _ in scores]
    slices = tuple(
        SliceScore(name, metric, 50, interval, number)
        for number, ((name, _, _), interval) in enumerate(zip(scores, intervals, strict=True))
    )
    whole = Interval(0.6, 0.5, 0.7)
    clauses = [Clause("all", metric, "all rows", 0.5, whole, "met")]
    clauses += [
        Clause(f"on {name}", metric, name, 0.5, interval, status)
        for (name, _, status), interval in zip(scores, intervals, strict=True)
    ]
    curves = RegressionCurves((), (), ())
    evaluation = Evaluation(
        "test", 100, 20, 0.95, {metric: whole}, slices, {}, {}, curves, ("beware",)
    )
    return StoredEvaluation(evaluation, Verdict("missed", tuple(clauses)), {}, ())


@pytest.mark.parametrize(("metric", "order"), [("r2", "dabc"), ("rmse", "dbac")])
def test_slices_that_fail_come_first_then_the_worst(metric: str, order: str) -> None:
    scores: list[tuple[str, float, Status]] = [
        ("a", 0.3, "met"),
        ("b", 0.8, "met"),
        ("c", math.nan, "met"),
        ("d", 0.5, "missed"),
    ]
    view = view_judged(judged(scores, metric))
    assert "".join(row.name for row in view.slices[0].rows) == order
    assert view.sentence.startswith("1 clause of 5 missed")
    assert view.rows == "100 rows (20 independent units)"


@pytest.mark.parametrize(
    ("status", "words"),
    [("met", "The clause of"), ("missed", "1 clause of 1"), ("undecided", "1 clause of 1")],
)
def test_each_verdict_has_its_sentence(status: Status, words: str) -> None:
    one = judged([], "r2")
    clause = replace(one.verdict.clauses[0], status=status)
    view = view_judged(replace(one, verdict=Verdict(status, (clause,))))
    assert view.sentence.startswith(words)


def test_numbers_have_no_confusion() -> None:
    assert view_confusion(RegressionCurves((), (), ())) == ()


def test_smoothing_starts_at_the_first_value_and_steps_over_gaps() -> None:
    values = np.array([4.0, 4.0, math.nan, math.inf, 4.0, 0.0])
    smoothed = smooth(values, 2.0)
    np.testing.assert_allclose(smoothed[:5], 4.0)
    assert 0 < smoothed[5] < 4
    assert math.isnan(smooth(np.array([math.nan]), 1.0)[0])


def test_a_drawing_is_the_same_each_time_and_leaves_colours_to_the_page() -> None:
    def draw(axes: Axes) -> None:
        axes.plot([0, 1], color=SERIES[0])

    def drawn() -> Markup:
        return draw_svg(Panel("one", draw))

    svg = drawn()
    assert svg == drawn()
    assert "var(--c0)" in svg
    assert "#fe0" not in svg
    assert "http" not in svg
    assert 'id="one-' in svg


def test_text_is_one_line_and_shows_every_character() -> None:
    assert clean("a\x00b\u202ec\nd\ud800") == "a\ufffdb\ufffdc d\ufffd"
    assert clean("नमस्ते 日本 🙂") == "नमस्ते 日本 🙂"


def test_long_text_keeps_both_ends() -> None:
    short = clean("a" * 500 + "end", 40)
    assert len(short) == 40
    assert short.startswith("aaa")
    assert short.endswith("end")


def test_longer_text_keeps_its_lines() -> None:
    assert clean_lines("a: 1\n  b: \x002\n", 100) == "a: 1\n  b: \ufffd2"
    assert clean_lines("a" * 50, 10) == "a" * 10 + "\n…"


def test_numbers_as_they_are_written() -> None:
    assert show_value(-0.25) == "−0.2500"
    assert show_value(math.nan) == show_value(math.inf) == "–"
    assert show_change(0.5) == "+0.5000"
    assert show_range(ABSENT) == "–"
    assert [show_share(share) for share in (0.0, 0.0004, 0.5, math.nan)] == [
        "0.0%",
        "<0.1%",
        "50.0%",
        "–",
    ]
    assert show_when("2026-01-02T03:04:05.678Z") == "2026-01-02 03:04:05 UTC"
    assert show_when("yesterday") == "yesterday"
