"""Data that changes under a run or while it is stopped. Row F-33 of the fault matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from command import Ran, command, project_in, write_rows
from trainwright.core.files import read_json
from trainwright.run import train as training

CHANGES: dict[str, Callable[[Path], object]] = {
    "changed": lambda path: path.write_text(path.read_text().replace(",Bern,", ",Basel,", 1)),
    "truncated": lambda path: path.write_text("\n".join(path.read_text().splitlines()[:-7]) + "\n"),
    "replaced": lambda path: write_rows(path, seed=1),
    "appended": lambda path: path.write_text(path.read_text() + "44,Bern,9.00,no\n"),
    "deleted": lambda path: path.unlink(),
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


def spoiled_under_the_run(change: Callable[[Path], object], *words: str) -> Ran:
    """Train, and change the data as soon as the training has begun."""
    build = training.learner_of

    def changed(*given: object) -> object:
        if Path("rows.csv").exists() and not Path("spoiled").exists():
            change(Path("rows.csv"))
            Path("spoiled").touch()
        return build(*given)  # type: ignore[arg-type]

    with mock.patch.object(training, "learner_of", changed):
        return command("train", "small.yaml", "--run", "one", *words)


@pytest.mark.row("F-33")
@pytest.mark.parametrize("what", CHANGES)
def test_data_that_changes_under_a_run_is_found(project: Path, what: str) -> None:
    ran = spoiled_under_the_run(CHANGES[what])
    assert ran.code == 11, ran.err
    assert "rows.csv" in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err
    assert not Path("runs/one/evaluation.json").exists()
    assert read_json(Path("runs/one/record.json"))["ending"]["exit_code"] == 11


@pytest.mark.row("F-33")
def test_a_file_that_was_only_touched_is_the_same(project: Path) -> None:
    ran = spoiled_under_the_run(lambda path: path.write_bytes(path.read_bytes()))
    assert ran.code in (0, 3), ran.err


@pytest.mark.row("F-33")
def test_a_change_under_a_run_is_recorded_where_that_is_allowed(project: Path) -> None:
    ran = spoiled_under_the_run(CHANGES["appended"], "--set", "resume.data_changed=record")
    assert ran.code in (0, 3), ran.err
    events = Path("runs/one/events.jsonl").read_text()
    assert "data_changed" in events
    assert "rows.csv" in events


@pytest.mark.row("F-33")
@pytest.mark.parametrize("what", [name for name in CHANGES if name != "deleted"])
def test_data_that_changes_between_stop_and_resume_is_refused(project: Path, what: str) -> None:
    ran = spoiled_under_the_run(CHANGES["appended"])
    assert ran.code == 11
    write_rows(Path("rows.csv"))
    assert command("train", "small.yaml", "--run", "two").code in (0, 3)
    CHANGES[what](Path("rows.csv"))
    again = command("train", "small.yaml", "--run", "one", "--resume")
    assert again.code == 11, again.err
    assert "rows.csv" in again.err


@pytest.mark.row("F-33")
def test_a_run_goes_on_once_its_data_is_back(project: Path) -> None:
    assert spoiled_under_the_run(CHANGES["replaced"]).code == 11
    write_rows(Path("rows.csv"))
    ran = command("train", "small.yaml", "--run", "one", "--resume")
    assert ran.code in (0, 3), ran.err


@pytest.mark.row("F-33")
def test_a_changed_split_file_is_found_too(project: Path) -> None:
    parts = ["train", "train", "validation", "train", "test"] * 60
    lines = ["row,part", *(f"{row},{part}" for row, part in enumerate(parts))]
    Path("split.csv").write_text("\n".join(lines) + "\n")
    split = ("--set", "data.split={kind: file, path: split.csv}")
    ran = spoiled_under_the_run(
        lambda _: Path("split.csv").write_text("\n".join(lines).replace("3,train", "3,test", 1)),
        *split,
    )
    assert ran.code == 11, ran.err
    assert "split.csv" in ran.err.splitlines()[-1]
