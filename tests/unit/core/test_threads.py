"""Threads by the size of the work, the cores, the quota of a container and the load."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from trainwright.core import threads
from trainwright.core.threads import (
    MachineLoad,
    choose_threads,
    cpu_quota,
    idle_cores,
    usable_cores,
)


@pytest.mark.parametrize(
    ("cells", "cores", "idle", "chosen"),
    [
        (251 * 10, 2, 2, 1),
        (27_677 * 12, 2, 2, 2),
        (27_677 * 12, 16, 16, 3),
        (10**8, 16, 16, 16),
        (10**8, 16, 5, 5),
        (10**8, 4, 60, 4),
        (10**8, 2, -2, 1),
        (0, 2, 2, 1),
    ],
)
def test_a_thread_needs_enough_cells_and_a_core_of_its_own(
    cells: int, cores: int, idle: int, chosen: int
) -> None:
    assert choose_threads(cells, cores, idle) == chosen


def _group(folder: Path, own: str, files: dict[str, str]) -> float:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(own)
    return cpu_quota(folder, folder / "own")


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/outside\n", {"cpu.max": "400000 100000"}, 4.0),
        (
            "4:cpu,cpuacct:/a\n0::/\n",
            {"cpu/a/cpu.cfs_quota_us": "50000", "cpu/a/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        (
            "4:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            math.inf,
        ),
        ("3:cpuset:/\n", {"cpu.max": "100000 100000"}, math.inf),
        ("0::/\n", {"cpu.max": "unreadable"}, math.inf),
    ],
)
def test_the_smallest_quota_of_all_groups_counts(
    tmp_path: Path, own: str, files: dict[str, str], quota: float
) -> None:
    assert _group(tmp_path, own, files) == quota


@pytest.mark.parametrize(("quota", "cores"), [(math.inf, 8), (2.7, 2), (0.5, 1), (100.0, 8)])
def test_no_more_cores_than_the_quota_lasts_for(
    monkeypatch: pytest.MonkeyPatch, quota: float, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    assert usable_cores() == cores


def test_a_core_is_idle_unless_another_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    file = tmp_path / "stat"
    file.write_text("cpu 1 2 3\nprocs_running 3\nprocs_blocked 0\n")
    assert idle_cores(file) == 2
    file.write_text("cpu 1 2 3\n")
    assert idle_cores(file) == 4
    assert idle_cores(tmp_path / "absent") == 4


def test_a_thread_that_waits_for_a_core_is_slower(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("5000000000 100 7\n")
    load = MachineLoad(file)
    assert load.factor == 1
    file.write_text("7000000000 4000000100 9\n")
    assert load.factor == 3
    assert MachineLoad(tmp_path / "absent").factor == 1
