"""Small clusters on this machine: two hosts as network namespaces, and a Slurm of one machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from deadlines import within
from faults.ranks import free_port

HOSTS = ("10.231.7.1", "10.231.7.2")
_SLURM = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@contextmanager
def two_hosts() -> Iterator[tuple[list[str], list[str]]]:
    """For each of two hosts, `HOSTS`, what stands before a command that runs on it; skips the test
    where there are no network namespaces. `break_link` parts them."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("only root can make network namespaces, with the command ip")
    names = [f"tw{os.getpid()}{side}" for side in "ab"]
    steps = [
        *(f"netns add {name}" for name in names),
        f"link add {names[0]} type veth peer name {names[1]}",
        *(f"link set {name} netns {name}" for name in names),
    ]
    for name, address in zip(names, HOSTS, strict=True):
        steps += [f"-n {name} addr add {address}/24 dev {name}"]
        steps += [f"-n {name} link set {link} up" for link in (name, "lo")]
    try:
        for step in steps:
            done = subprocess.run(["ip", *step.split()], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network namespaces: ip {step}: {done.stderr.strip()}")
        yield tuple(["ip", "netns", "exec", name] for name in names)  # type: ignore[misc]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def break_link(host: list[str]) -> None:
    """Part the hosts: nothing answers, and nothing says so."""
    name = host[-1]
    subprocess.run(["ip", "-n", name, "link", "set", name, "down"], check=True)


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of commands of a Slurm of this machine; skips the test where it is not
    installed."""
    programs = ("munged", "slurmctld", "slurmd", "srun")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in programs if not shutil.which(name, path=path)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, and Slurm and munge: {', '.join(missing)} not installed")
    for inner in (folder / "state", folder / "spool"):
        inner.mkdir(parents=True)
    folder.chmod(0o755)
    config, key = folder / "slurm.conf", folder / "munge.key"
    config.write_text(
        _SLURM.format(
            folder=folder,
            host=socket.gethostname().partition(".")[0],
            cores=os.cpu_count(),
            controller_port=free_port(),
            daemon_port=free_port(),
        )
    )
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    munge = ["munged", "--foreground", "--force", "--key-file", str(key)]
    for option in ("socket", "pid-file", "log-file", "seed-file"):
        munge += [f"--{option}", f"{folder}/munge.{option.partition('-')[0]}"]
    commands = [munge, *([name, "-D", "-f", str(config)] for name in ("slurmctld", "slurmd"))]
    environment = {**os.environ, "PATH": path, "SLURM_CONF": str(config)}
    with ExitStack() as ends:
        log = ends.enter_context((folder / "log.txt").open("w"))
        for command in commands:
            started = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            ends.callback(started.wait, 30)
            ends.callback(started.terminate)
        until = time.monotonic() + within(30)
        while "idle" not in _state_of_nodes(environment):
            assert time.monotonic() < until, (folder / "log.txt").read_text()
            time.sleep(0.2)
        yield environment


def _state_of_nodes(environment: dict[str, str]) -> str:
    asked = ["sinfo", "-h", "-o", "%T"]
    return subprocess.run(asked, env=environment, capture_output=True, text=True).stdout
