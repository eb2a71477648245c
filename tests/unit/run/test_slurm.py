"""Ranks from the environment that Slurm gives."""

from __future__ import annotations

import os

import pytest

from trainwright.core.process import is_rank, world_size
from trainwright.run.ranks.slurm import join_slurm_step, read_first_host

TASK = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_JOB_NODELIST": "gpu[01-08]",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}
MEETING = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MEETING:
        monkeypatch.setenv(name, "")  # what the code sets is taken back
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("gpu01", "gpu01"),
        ("gpu[01-03,07],login", "gpu01"),
        ("a,b[1-2]", "a"),
        ("rack[2,4]node[07-09]x", "rack2node07x"),
    ],
)
def test_the_first_host_of_a_list(nodes: str, host: str) -> None:
    assert read_first_host(nodes) == host


def test_a_task_of_a_step_is_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TASK.items():
        monkeypatch.setenv(name, value)
    join_slurm_step()

    assert [os.environ[name] for name in MEETING] == ["5", "1", "8", "gpu07", "27112"]
    assert is_rank()
    assert world_size() == 8


@pytest.mark.parametrize("changed", [{"SLURM_STEP_NUM_TASKS": "1"}, {"RANK": "3"}])
def test_one_task_and_what_torchrun_has_started_are_left_alone(
    changed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**TASK, **changed}.items():
        monkeypatch.setenv(name, value)
    join_slurm_step()
    assert not is_rank()


def test_a_batch_script_is_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TASK.items():
        if "STEP" not in name:
            monkeypatch.setenv(name, value)
    join_slurm_step()
    assert not is_rank()
