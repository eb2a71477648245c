"""Where a run is to be written: below files, without rights, in use, on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import PROCESS, command, project_in, tree
from faults.disks import small_disk
from faults.mistakes import mistaken, process
from trainwright.tracking.run_folder import RunFolder


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


def test_a_folder_for_runs_below_a_file(project: Path) -> None:
    ran = mistaken("train", "small.yaml", "--runs", "rows.csv/runs")
    assert "the folder for runs cannot be written" in ran.err
    for said in ("found: rows.csv", "expected: ", "fix: "):
        assert said in ran.err


@pytest.mark.row("F-18")
def test_a_folder_for_runs_that_may_not_be_written(project: Path) -> None:
    # Root may write everywhere, unless it gives up that right.
    plain = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    (project / "runs").mkdir(mode=0o555)
    if plain and subprocess.run([*plain, "test", "!", "-w", "runs"], check=False).returncode:
        pytest.skip("root cannot give up its right to write everywhere here")
    before = tree(project)
    done = process(*plain, *PROCESS, "train", "small.yaml")
    assert tree(project) == before
    assert done.returncode == 2, done.stderr
    assert "the folder for runs cannot be written" in done.stderr
    assert "found: runs: Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_existing_name_is_refused(project: Path) -> None:
    RunFolder.create(project / "runs", "first")
    ran = mistaken("train", "small.yaml", "--run", "first")
    assert "a run named first is there already" in ran.err
    assert "--resume" in ran.err


@pytest.mark.row("F-47")
def test_an_unsafe_name_is_refused(project: Path) -> None:
    ran = mistaken("train", "small.yaml", "--run", "../first")
    assert "not a safe name" in ran.err


@pytest.mark.row("F-41")
def test_a_run_in_use(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "busy").code in (0, 3)
    with RunFolder.open(project / "runs" / "busy").lock():
        before = tree(project)
        done = process(*PROCESS, "train", "small.yaml", "--run", "busy", "--resume")
        assert tree(project) == before
    assert done.returncode == 15
    assert f"in use by process {os.getpid()} " in done.stderr
    assert "Traceback" not in done.stderr


# A full disk.


def assert_nothing_half_written(run: Path) -> None:
    for path in run.rglob("*.json"):
        assert path.read_text().endswith("}\n") or path.read_text().endswith("]\n"), path
    assert not [path for path in run.rglob("*") if path.name.startswith(".tmp-")]


@pytest.mark.row("F-16")
@pytest.mark.root
@pytest.mark.parametrize("kib", [8, 32, 64, 120])
def test_a_full_disk(project: Path, kib: int) -> None:
    with small_disk(project / "disk", kib) as disk:
        ran = command("train", "small.yaml", "--runs", disk)
        assert ran.code == 13, ran.err
        assert "No space left on device" in ran.err
        assert "Traceback" not in ran.err
        assert not ran.out
        assert_nothing_half_written(disk)


@pytest.mark.row("F-16")
@pytest.mark.parametrize("kib", [1, 8])
def test_a_limit_on_the_size_of_files(project: Path, kib: int) -> None:
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({kib * 1024}, {kib * 1024}))\n"
        "from trainwright.cli.main import main\n"
        "sys.argv = ['trainwright', 'train', 'small.yaml']\n"
        "main()\n"
    )
    done = process(sys.executable, "-c", script)
    assert done.returncode == 13, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert_nothing_half_written(project / "runs")
