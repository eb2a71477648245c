"""The figures of windows: one for each kind of number, and none for numbers that are not there."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from run_folders import Wanted, add_training, build_run
from trainwright.report.figures.window_figures import draw_windows
from trainwright.report.page import write_report
from trainwright.tracking.telemetry_file import WindowFile, WindowLine


def lines(groups: int = 3) -> list[WindowLine]:
    found = []
    for number in range(1, 13):
        numbers = {"rows_per_second": 900.0 + number, "mfu_measured": 0.3, "mfu_vendor": 0.2}
        numbers |= {"peak_flops_measured": 8e14, "peak_flops_vendor": 9.894e14}
        for group in range(groups):
            numbers |= {
                f"weight_norm/blocks.{group}": 5.0 + group,
                f"update_ratio/blocks.{group}": 1e-3 / number,
                f"gradient_norm/blocks.{group}": math.nan if number == 5 else 0.1 / (1 + group),
                f"dead_share/blocks.{group}": 0.0,
            }
            if number % 4 == 0:
                numbers[f"silent_share/blocks.{group}.active"] = 0.1 * group
                numbers[f"activation_zeros/blocks.{group}.active"] = 0.0
        found.append(WindowLine(50 * number, 0, 50, 2.0, numbers))
    return found


@pytest.mark.extended
def test_there_is_a_figure_for_each_kind_of_number_that_says_something() -> None:
    figures = draw_windows(lines())
    assert [figure.title for figure in figures] == [
        "Update over weights",
        "Norm of the weights",
        "Gradient norm by layer group",
        "Rows a second",
        "Model FLOP utilisation",
        "Silent units",
    ]
    assert [key.name for key in figures[0].keys] == ["blocks.0", "blocks.1", "blocks.2"]
    assert "800.00 TFLOP/s" in figures[4].caption
    assert "20.0% at the end" in figures[4].caption
    assert "3 blocks.2.active" in figures[5].caption


@pytest.mark.extended
def test_many_groups_are_thinned_from_the_first_to_the_last() -> None:
    figure = draw_windows(lines(60))[0]
    names = [key.name for key in figure.keys]
    assert (len(names), names[0], names[-1]) == (10, "blocks.0", "blocks.59")
    assert "10 of 60 groups" in figure.caption


def test_no_windows_no_figures() -> None:
    assert draw_windows([]) == []


@pytest.mark.extended
@pytest.mark.parametrize("damaged", [False, True])
def test_the_report_has_them_and_names_a_damaged_file(damaged: bool, tmp_path: Path) -> None:
    folder = build_run(tmp_path, Wanted(("a", "b"), model="{kind: mlp}"))
    add_training(folder)
    file = WindowFile(folder.windows)
    for line in lines():
        file.append(line)
    file.sync()
    if damaged:
        folder.windows.write_text("{}\n", encoding="utf-8")
    text = write_report(folder).read_text(encoding="utf-8")
    assert ("Update over weights" in text) != damaged
    assert ("<code>windows.jsonl</code>" in text) == damaged


def points(windows: list[WindowLine], title: str) -> int:
    """The markers of a figure that have the colour of a series."""
    (figure,) = [figure for figure in draw_windows(windows) if figure.title == title]
    return len(re.findall(r'<use[^>]*style="[^"]*var\(--c\d', str(figure.svg)))


@pytest.mark.extended
def test_a_run_of_one_window_shows_its_points() -> None:
    assert points(lines()[:1], "Norm of the weights") == 3
    assert points(lines()[:1], "Rows a second") == 1
    assert points(lines(), "Rows a second") == 0
