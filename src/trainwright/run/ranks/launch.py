"""Starts the processes of a contract with torchrun. Imports no torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

from trainwright.contract.reading.read_contract import ContractText, read_contract
from trainwright.contract.rules.distributed_rules import possible_strategies
from trainwright.core.errors import Interrupted, Mistake, PeerLost, Problem
from trainwright.core.files import read_json, write_json
from trainwright.core.lazy_imports import need_torch
from trainwright.core.process import is_rank, world_size
from trainwright.core.threads import usable_cores
from trainwright.run.ranks.slurm import join_slurm_step
from trainwright.run.request import Request
from trainwright.tracking.events import Event

_MEETING = "TRAINWRIGHT_RANKS"
"""Names the folder in which the first rank leaves what outlives its process."""

_CRASHED = (1, PeerLost.exit_code)
"""Exit codes after which the ranks are started again: an unexpected error, a lost peer."""


def count_ranks(contract: Path | ContractText, overrides: Sequence[str]) -> int:
    """Processes that a contract asks for on this machine, or that torchrun or srun has started.

    Raises:
        Mistake: in the contract; or it leaves their number open where there are no GPUs.
    """
    document = read_contract(contract, overrides).contract
    section = document.distributed
    if section.strategy == "single":
        return 1
    need_torch("distributed.strategy", "a training by several processes")
    join_slurm_step()
    if is_rank():
        return world_size()
    is_open = section.strategy == "auto"
    if is_open and possible_strategies(document) == ("single",):
        return 1
    if section.num_gpus != "auto":
        return section.num_gpus
    import torch

    if (ranks := torch.cuda.device_count()) or is_open:
        return max(1, ranks)
    raise Mistake(
        Problem(
            "this machine has no GPU, so the number of processes has to be written",
            path="distributed.num_gpus",
            found="auto",
            expected="how many processes train on this machine",
            fix="--set distributed.num_gpus=2",
        )
    )


def start_ranks(ranks: int, restarts: int, words: Sequence[str]) -> int:
    """Run the command with these words once on each rank; the exit code of the first. Its ranks are
    started again, all of them, when one has died, at most `restarts` times."""
    with tempfile.TemporaryDirectory(prefix="trainwright-ranks-") as folder:
        # torchrun does not start workers again over gloo while they share the store of its agent.
        threads = str(max(1, usable_cores() // ranks))
        environment = {
            "OMP_NUM_THREADS": threads,
            **os.environ,
            _MEETING: folder,
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        command = [sys.executable, "-m", "trainwright.run.ranks.torchrun", "--standalone"]
        command += [f"--nproc-per-node={ranks}", f"--max-restarts={restarts}"]
        command += ["-m", "trainwright.cli.rank_process"]
        # Not among its arguments: torchrun takes some of ours for abbreviations of its own.
        write_json(Path(folder) / "words.json", list(words))
        with subprocess.Popen(command, env=environment, start_new_session=True) as torchrun:  # noqa: S603  no shell
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: torchrun.terminate())
            code = torchrun.wait()
        ending = Path(folder) / "ending.json"
        return int(read_json(ending)["code"]) if ending.is_file() else code


@final
class Meeting:
    """What the first rank leaves for its next start, and for the process that has started all."""

    def __init__(self) -> None:
        self._folder = Path(os.environ[_MEETING]) if _MEETING in os.environ else Path()
        self.is_ours = _MEETING in os.environ

    @property
    def words(self) -> list[str]:
        """Words of the command that has started the ranks."""
        return [str(word) for word in read_json(self._folder / "words.json")]

    def opened(self, folder: Path) -> None:
        """Note the run's name."""
        if self.is_ours:
            write_json(self._folder / "run.json", {"name": folder.name})

    def observe(self, event: Event) -> None:
        """Nothing to note of events."""

    def request_again(self, request: Request) -> Request:
        """The request, which resumes the run that an earlier start has opened."""
        request = replace(request, watchers=(*request.watchers, self))
        run = self._folder / "run.json"
        if not self.is_ours or not run.is_file():
            return request
        return replace(request, name=str(read_json(run)["name"]), resume=True)

    def ending(self, code: int) -> int:
        """Exit code for torchrun, which starts all ranks again unless it is 0."""
        if not self.is_ours:  # what has started torchrun may start it again after a signal
            return code if code in (*_CRASHED, Interrupted.exit_code) else 0
        if os.environ["RANK"] == "0":
            write_json(self._folder / "ending.json", {"code": code})
        return code if code in _CRASHED else 0
