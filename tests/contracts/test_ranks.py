"""Several processes train what one process trains, to the bit, and after one of them has died."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import trainwright as tw
from command import NETWORK, PROCESS, command, inside, project_in
from deadlines import within
from golden.golden_runs import CONTRACTS, write_data
from rank_runs import ONE_THREAD, on_ranks, run_ranks, validations, weights
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json
from trainwright.tracking.event_log import read_events

pytestmark = pytest.mark.torch

DROPOUT = NETWORK.replace("hidden: [16, 8]", "hidden: [16, 8]\n  dropout: 0.2")
VALIDATION = "training.validation.batch_size=16"
ALONE = (
    *("--set", "training.gradient_accumulation_steps=2"),
    *("--set", VALIDATION),
    *ONE_THREAD,
)
TWO = on_ranks("ddp", 2, VALIDATION)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, DROPOUT)


def test_two_ranks_of_which_one_is_killed_train_what_one_process_trains(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "alone", *ALONE).code in (0, 3)
    words = ("train", "small.yaml", "--run", "two", *TWO, "--restart", "1")
    ran = run_ranks(*words, fault="rank1:step.done:13:kill")
    assert ran.returncode in (0, 3), ran.stderr
    assert "resumed   at step" in ran.stderr
    assert weights("two") == weights("alone")
    values = [
        read_json(Path("runs", run, "evaluation.json"))["evaluation"] for run in ("two", "alone")
    ]
    assert values[0]["metrics"] == values[1]["metrics"]
    assert validations("two") == validations("alone")
    assert Path("runs/two/ranks/1.log").is_file()
    assert not Path("runs/two/ranks/rows").exists()


@pytest.mark.extended
@pytest.mark.parametrize("strategy", ["ddp"])
@pytest.mark.parametrize("number", [3, 4])
def test_more_ranks_train_what_one_process_trains(
    project: Path, strategy: str, number: int
) -> None:
    settings = ("training.batch_size=16", VALIDATION)
    words = on_ranks(strategy, number, *settings)
    ran = run_ranks("train", "small.yaml", "--run", "several", *words)
    assert ran.returncode in (0, 3), ran.stderr
    words = on_ranks("single", 1, f"training.gradient_accumulation_steps={number}", *settings)
    assert command("train", "small.yaml", "--run", "alone", *words).code in (0, 3)
    assert weights("several") == weights("alone")
    assert validations("several") == validations("alone")


@pytest.mark.extended
@pytest.mark.parametrize("strategy", ["ddp"])
@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("encoder", "model.adapter={kind: lora, rank: 2, alpha: 4, dropout: 0.1}"),
        ("gpt", "training.average={kind: ema, decay: 0.9}"),
    ],
)
def test_adapters_and_averages_of_ranks_are_those_of_one_process(
    tmp_path: Path, family: str, setting: str, strategy: str
) -> None:
    write_data(tmp_path)
    settings = (setting, "training.batch_size=32", "training.validation.batch_size=8")
    with inside(tmp_path):
        Path("contract.yaml").write_text(CONTRACTS[family])
        words = ("train", "contract.yaml", "--run")
        ran = run_ranks(*words, "two", *on_ranks(strategy, 2, *settings))
        assert ran.returncode in (0, 3), ran.stderr
        ran = run_ranks(*words, "alone", *on_ranks("single", 1, *settings))
        assert ran.returncode in (0, 3), ran.stderr
        assert weights("two") == weights("alone")
        assert validations("two") == validations("alone")


@pytest.mark.extended
@pytest.mark.parametrize("strategy", ["ddp"])
def test_memory_that_runs_out_on_one_rank_makes_smaller_micro_batches_on_all(
    project: Path, strategy: str
) -> None:
    words = ("train", "small.yaml", "--run", "little", *on_ranks(strategy, 2))
    ran = run_ranks(*words, fault="rank1:step.fwd:1:oom")
    assert ran.returncode in (0, 3), ran.stderr
    events = read_events(Path("runs/little/events.jsonl"))
    noted = [event["kind"] for event in events if event["event"] == "noted"]
    assert noted == ["out_of_memory"]
    small = ("training.batch_size=16", "training.gradient_accumulation_steps=2")
    ran = run_ranks("train", "small.yaml", "--run", "small", *on_ranks(strategy, 2, *small))
    assert ran.returncode in (0, 3), ran.stderr
    assert weights("little") == weights("small")
    assert validations("little") == validations("small")


@pytest.mark.extended
def test_a_signal_stops_all_ranks_and_a_resume_ends_with_the_same_bits(project: Path) -> None:
    longer = ("--set", "training.num_epochs=60")
    whole = run_ranks("train", "small.yaml", "--run", "whole", *TWO, *longer)
    assert whole.returncode in (0, 3), whole.stderr
    with subprocess.Popen(
        [*PROCESS, "train", "small.yaml", "--run", "cut", *TWO, *longer],
        env={**os.environ, "TRAINWRIGHT_FAULT": "rank0:step.done:*:delay=0.05"},
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        until = time.monotonic() + within(120)
        while not list(Path("runs").glob("cut/checkpoints/step-00000000[1-9]*")):
            assert time.monotonic() < until
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=within(60))
    assert running.returncode == 75, said
    assert "go on with" in said
    assert "Traceback" not in said
    shutil.copytree("runs/cut", "runs/other")
    again = ("train", "small.yaml", "--run", "other", "--resume", *ALONE, *longer)
    ran = run_ranks(*again)
    assert ran.returncode == 2
    assert "with the same number of ranks, 2" in ran.stderr
    ran = run_ranks(*again, "--set", "resume.numerics_changed=record")
    assert ran.returncode in (0, 3), ran.stderr
    ran = run_ranks("resume", "cut")
    assert ran.returncode in (0, 3), ran.stderr
    assert weights("cut") == weights("whole")


@pytest.mark.extended
def test_processes_that_torchrun_has_started_are_joined(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "alone", *ALONE).code in (0, 3)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "--"]
    words = ["trainwright", "train", "small.yaml", "--run", "joined", "--resume"]
    ddp = ("--set", "distributed.strategy=ddp", *ONE_THREAD)
    ran = subprocess.run(
        [*torchrun, *words, *ddp],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=within(240),
        check=False,
    )
    assert "verdict" in ran.stdout, ran.stderr
    assert weights("joined") == weights("alone")


@pytest.mark.extended
def test_an_error_of_the_first_rank_ends_all_of_them(project: Path) -> None:
    """With the exit code that it has alone, and without a second start."""
    ran = run_ranks("train", "small.yaml", *TWO, "--restart", "2", fault="ckpt.fsync:1:enospc")
    assert ran.returncode == 13, ran.stderr
    assert ran.stderr.count("No space left") == 1


def test_ranks_that_nobody_has_started_are_refused(project: Path) -> None:
    with pytest.raises(Mistake, match="processes that are to train together are not there"):
        tw.train("small.yaml", overrides=TWO[1::2])
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (["model.kind=linear"], "distributed.strategy"),
        (["training.memory.update=in_backward"], "training.memory.update"),
        (["tracking.windows.noise_scale=100"], "tracking.windows.noise_scale"),
        (["distributed.strategy=single"], "distributed.num_gpus"),
        (["distributed.num_gpus=auto"], "distributed.num_gpus"),
    ],
)
def test_what_ranks_cannot_do_is_refused(project: Path, settings: list[str], path: str) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "small.yaml", *TWO, *words)
    assert ran.code == 2
    assert path in ran.err
    assert not Path("runs").exists()
