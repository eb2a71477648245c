"""The report of a search: every number of it is that of the study, and no text is trusted."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import trainwright as tw
from command import command
from trainwright.core.errors import DamagedFile
from trainwright.core.files import Json, read_json, write_json
from trainwright.report.format import show_value
from trainwright.report.study_page import render_study, write_study_report
from trainwright.tune.read_study import read_study
from tuned import SEARCHED, people

pytest.importorskip("optuna")

pytestmark = pytest.mark.extended

TRIALS = 11


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tw.TunedStudy:
    runs = tmp_path_factory.mktemp("runs")
    trials = [f"tune.trials={TRIALS}"]
    return tw.tune(SEARCHED, frames={"people": people()}, overrides=trials, runs=runs)


@pytest.fixture
def folder(study: tw.TunedStudy, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    copy = tmp_path / "buyers"
    shutil.copytree(study.folder, copy, ignore=shutil.ignore_patterns("rows", "checkpoints"))
    return copy


def cells(page: str) -> list[list[str]]:
    """Cells of the table of trials."""
    table = page[page.index("<h2>Trials</h2>") :]
    rows = re.findall(r"<tr[^>]*>(<td.*?)</tr>", table)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


def test_the_page_says_what_was_kept_and_what_it_is_worth(study: tw.TunedStudy) -> None:
    page = study.report.read_text(encoding="utf-8")
    winner, of_many = study.result.winner, study.result.winner.of_many
    test = study.run.evaluation.metrics["roc_auc"]
    assert f"Verdict of the winner: {study.run.verdict.status}" in page
    assert f"p = {of_many.p:.3f}" in page
    assert winner.trial.outcome.value is not None
    for value in (of_many.value, of_many.worth, winner.trial.outcome.value, test.value, test.low):
        assert show_value(value) in page
    (link,) = re.findall(r'<a href="([^"]+)">Report of the winner', page)
    assert (study.folder / link).samefile(study.run.report)


def test_the_table_has_every_trial_with_what_it_tried(study: tw.TunedStudy) -> None:
    rows = cells(study.report.read_text(encoding="utf-8"))
    assert len(rows) == TRIALS
    for row, trial in zip(rows, study.trials.iter_rows(named=True), strict=True):
        assert int(row[0].split()[0]) == trial["trial"]
        assert row[1] == show_value(trial["value"])
        tried = {
            str(value) for path in ("num_leaves", "objective") if (value := trial[f"model.{path}"])
        }
        assert tried <= set(row)
    marked = [row[0].partition(" ")[2] for row in rows]
    assert "best" in marked[study.best.number]
    assert "kept" in marked[study.winner.number]


def test_figures_show_the_trials_and_hold_no_text_of_the_contract(study: tw.TunedStudy) -> None:
    page = study.report.read_text(encoding="utf-8")
    drawings = re.findall(r"<svg[^>]*focusable.*?</svg>", page, re.DOTALL)
    titles = re.findall(r"<figure>\s*<h3>(.*?)</h3>", page)
    over = list(SEARCHED["tune"]["over"])
    assert titles[:2] == ["History", "Parallel coordinates"]
    assert sorted(titles[2:]) == sorted(over)
    assert not any(word in drawing for drawing in drawings for word in ("log_loss", "model."))
    assert not any("mathdefault" in drawing for drawing in drawings)


def test_importances_are_shares_of_the_variance(study: tw.TunedStudy) -> None:
    page = study.report.read_text(encoding="utf-8")
    shares = [float(share) for share in re.findall(r'<td class="n">([\d.]+)%</td>', page)]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert shares == sorted(shares, reverse=True)
    assert "is an estimate" in page


def test_the_command_writes_the_same_page_again(study: tw.TunedStudy) -> None:
    before = study.report.read_bytes()
    study.report.unlink()
    ran = command("report", study.name, "--runs", str(study.folder.parent))
    assert (ran.code, ran.out.strip()) == (0, str(study.report))
    assert study.report.read_bytes() == before


def test_a_search_that_has_not_ended_shows_its_trials(folder: Path) -> None:
    content = read_json(folder / "study.json")
    write_json(folder / "study.json", {key: content[key] for key in ("asked", "seconds")})
    for number in range(5, TRIALS):
        (folder / "trials" / f"{number:04d}.json").unlink()
    page = write_study_report(folder).read_text(encoding="utf-8")
    assert "No winner yet" in page
    assert len(cells(page)) == 5
    assert "No importance is estimated" in page


def test_failed_trials_are_shown_with_their_reason(folder: Path) -> None:
    path = folder / "trials" / "0003.json"
    failed: dict[str, Json] = {
        "state": "failed",
        "value": None,
        "reason": "<b>no</b> memory",
        "steps": {},
    }
    write_json(path, {**read_json(path), **failed})
    page = render_study(read_study(folder))
    assert "failed: &lt;b&gt;no&lt;/b&gt; memory" in page
    assert "<b>no" not in page


def test_what_was_tried_is_escaped(folder: Path) -> None:
    for path in (folder / "study.json", *(folder / "trials").glob("*.asked.json")):
        text = path.read_text(encoding="utf-8").replace('"log_loss"', '"<script>x</script>"')
        path.write_text(text, encoding="utf-8")
    page = write_study_report(folder).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_damaged_study_is_named(folder: Path) -> None:
    (folder / "study.json").write_text('{"asked": {}}', encoding="utf-8")
    with pytest.raises(DamagedFile, match=r"study\.json"):
        write_study_report(folder)
    ran = command("report", str(folder))
    assert ran.code == DamagedFile.exit_code
    assert "study.json" in ran.err
