"""Every file of a run with every kind of damage: exit codes of the tree, and never a traceback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command import CONTRACT, command, inside, write_project
from faults.tiers import times

pytestmark = pytest.mark.row("F-64")
_CODES = {0, 2, 3, 11, 12, 13}
_VERBS = (
    ("runs", "list"),
    ("runs", "show", "small-1"),
    ("runs", "verify", "small-1"),
    ("runs", "checkpoints", "small-1"),
    ("runs", "compare", "small-1", "small-2"),
    ("report", "small-1"),
    ("evaluate", "small-1"),
    ("evaluate", "small-1", "rows.csv"),
    ("predict", "small-1", "rows.csv", "-o", "out.csv"),
    ("resume", "small-1"),
)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


_DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": _truncate,
    "empty": lambda path: path.write_bytes(b""),
    "mapping": lambda path: path.write_bytes(b"{}"),
    "list": lambda path: path.write_bytes(b"[]"),
    "number": lambda path: path.write_bytes(b"5"),
    "nested": lambda path: path.write_bytes(b"[" * 1000),
    "encoding": lambda path: path.write_bytes(b'{"contract": "\xff\xfe"}'),
    "folder": _make_folder,
    "missing": lambda path: path.unlink(),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "device": lambda path: (path.unlink(), path.symlink_to("/dev/null")),
    "outside": lambda path: (path.unlink(), path.symlink_to(__file__)),
    "loop": lambda path: (path.unlink(), path.symlink_to(path.name)),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two finished runs; one would not be enough for a comparison."""
    folder = tmp_path_factory.mktemp("damaged")
    write_project(folder, CONTRACT.replace("target: 0.6", "target: 0.6\n  resamples: 100"))
    with inside(folder):
        assert command("train", "small.yaml", "--run", "small-1").code in (0, 3)
    shutil.copytree(folder / "runs" / "small-1", folder / "runs" / "small-2")
    return folder


def test_a_damaged_file_of_a_run_never_ends_in_a_traceback(
    runs: Path, tmp_path: Path, figure: Callable[..., None]
) -> None:
    run = runs / "runs" / "small-1"
    files = sorted(
        path.relative_to(run)
        for path in run.rglob("*")
        if path.is_file() and path.name not in ("lock", "report.html")
    )
    cases = [(file, name, words) for file in files for name in _DAMAGES for words in _VERBS]
    # A step that has no factor in common with the numbers of verbs and damages reaches all of them.
    tried = cases[:: times(97, 1)]
    whole = tmp_path / "whole"
    shutil.copytree(run, whole)
    wrong = []
    with inside(runs):
        for file, name, words in tried:
            _DAMAGES[name](run / file)
            try:
                code = command(*words).code
                if code not in _CODES:
                    wrong.append(f"{' '.join(words)}: {file} {name}: exit code {code}")
            except Exception as error:
                wrong.append(f"{' '.join(words)}: {file} {name}: {error!r:.200}")
            shutil.rmtree(run)
            shutil.copytree(whole, run)
    figure(damages=len(tried))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("empty", ("runs", "compare", "small-1", "small-2"), 0),
        ("loop", ("runs", "show", "small-1"), 2),
        ("pipe", ("resume", "small-1"), 2),
        ("device", ("report", "small-1"), 2),
        ("outside", ("runs", "verify", "small-1"), 2),
    ],
)
@pytest.mark.timeout(60)
def test_what_stands_in_the_place_of_a_record(
    runs: Path, tmp_path: Path, name: str, words: tuple[str, ...], code: int
) -> None:
    run, whole = runs / "runs" / "small-1", tmp_path / "whole"
    shutil.copytree(run, whole)
    _DAMAGES[name](run / "record.json")
    with inside(runs):
        ran = command(*words)
    shutil.rmtree(run)
    shutil.copytree(whole, run)
    assert ran.code == code, ran.err
