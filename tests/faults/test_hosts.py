"""Trainings over several hosts: two network namespaces under torchrun, and a Slurm of one
machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command import NETWORK, PROCESS, command, project_in
from deadlines import within
from faults.clusters import HOSTS, break_link, slurm, two_hosts

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(400)]

ONE_THREAD = ("--set", "compute.threads=1")
LONGER = ("--set", "training.num_epochs=12", "--set", "training.early_stopping=off")
"""48 steps, a checkpoint each fourth."""
ALONE = ("--set", "training.gradient_accumulation_steps=2", *ONE_THREAD)
DDP = ("--set", "distributed.strategy=ddp", *ONE_THREAD)
IMPATIENT = """\
from trainwright.distributed import heartbeat, rank_watch
heartbeat.SILENT_SECONDS = rank_watch.SILENT_SECONDS = {seconds}
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def weights(run: str) -> bytes:
    return Path("runs", run, "bundle", "network.safetensors").read_bytes()


AT_A_STORE = ("--rdzv-backend=c10d", f"--rdzv-endpoint={HOSTS[0]}:29400", "--max-restarts=3")
"""As in the Job that `launch --kubernetes` writes. The agent that has lost its store hangs."""
AT_AN_ADDRESS = (f"--master-addr={HOSTS[0]}", "--master-port=29400")


def start_hosts(
    hosts: tuple[list[str], ...], run: str, meeting: tuple[str, ...], **environment: str
) -> list[subprocess.Popen[str]]:
    """Torchrun on each host."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    torchrun += [*meeting, f"--rdzv-id={run}"]
    words = ["train", "small.yaml", "--run", run, "--resume", *DDP, *LONGER]
    started = []
    for number, host in enumerate(hosts):
        # The names of pods lead to their addresses; these hosts have none.
        where = [f"--local-addr={HOSTS[number]}", f"--node-rank={number}"]
        module = "trainwright"
        if meeting == AT_A_STORE:
            module = "trainwright.cli.rank_process"
            where += [f"--rdzv-conf=is_host={not number}"]
        variables = {"GLOO_SOCKET_IFNAME": host[-1]}
        if meeting == AT_A_STORE:
            variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        process = subprocess.Popen(
            [*host, *torchrun, *where, "-m", "--", module, *words],
            env={**os.environ, **variables, "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
    return started


def end_hosts(started: list[subprocess.Popen[str]], seconds: float) -> list[str]:
    """What each has said; all that it started has ended."""
    try:
        return [process.communicate(timeout=within(seconds))[0] for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.mark.row("F-38", "F-36")
def test_two_hosts_are_parted_and_go_on_from_the_last_checkpoint(
    project: Path, figure: Callable[..., None]
) -> None:
    assert command("train", "small.yaml", "--run", "alone", *ALONE, *LONGER).code in (0, 3)
    (project / "impatient").mkdir()
    silent = within(5)
    (project / "impatient" / "sitecustomize.py").write_text(IMPATIENT.format(seconds=silent))
    path = os.pathsep.join([str(project / "impatient"), *sys.path])
    with two_hosts() as hosts:
        slow = "step.done:*:delay=0.1"
        started = start_hosts(
            hosts, "parted", AT_AN_ADDRESS, PYTHONPATH=path, TRAINWRIGHT_FAULT=slow
        )
        until = time.monotonic() + within(120)
        while not list(Path("runs").glob("parted/checkpoints/step-00000000[1-9]*")):
            assert time.monotonic() < until, end_hosts(started, 1)
            time.sleep(0.1)
        break_link(hosts[1])
        said = end_hosts(started, 40)
        assert "trained" not in said[0]
        assert "has given no sign for" in said[0] + said[1], said
    with two_hosts() as hosts:
        killed = "rank1:step.fwd:25:kill"
        started = start_hosts(hosts, "parted", AT_A_STORE, TRAINWRIGHT_FAULT=killed)
        said = end_hosts(started, 120)
    shown = said[0] + said[1]  # rank 0 may be on either
    assert "verdict" in shown, said
    assert shown.count("resumed   at step") >= 2, said
    assert weights("parted") == weights("alone")
    figure(partitions=1, components_that_differ=0)


def test_tasks_of_a_slurm_step_are_ranks(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "alone", *ALONE).code in (0, 3)
    words = ["train", "small.yaml", "--run", "joined", *DDP]
    with slurm(project / "slurm") as environment:
        ran = subprocess.run(
            ["srun", "--ntasks=2", "--overcommit", "--input=none", *PROCESS, *words],
            env={**environment, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=within(120),
        )
    assert "verdict" in ran.stdout, ran.stderr
    assert weights("joined") == weights("alone")
