"""Ranks of one training to break, joined over gloo without torchrun, which takes seconds."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.trials import START, Trial
from faults.zygote import Child, Death

DDP = ("--set", "distributed.strategy=ddp", "--set", "compute.threads=1")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@dataclass
class RankTrial(Trial):
    """A run of several ranks that is broken again and again."""

    ranks: int = 2

    def start_all(
        self,
        fault: str = "",
        *,
        words: Sequence[str] = (),
        port: int = 0,
        counting: Path | None = None,
        seconds_between: float = 0.0,
    ) -> list[Child]:
        """The ranks, which begin the run or go on with it. How often each armed point is reached
        by rank 0 goes to `counting`.0, and so on."""
        begun = self.run.path.exists() and any(self.run.path.iterdir())
        number = ("--set", f"distributed.num_gpus={self.ranks}")
        words = (*START, *DDP, *number, *self.words, *words, *(["--resume"] if begun else []))
        group = {"TORCHELASTIC_RUN_ID": "trial", "WORLD_SIZE": str(self.ranks)}
        group |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port or free_port())}
        children = []
        for rank in range(self.ranks):
            how = dict(self.how or {})
            if counting:
                how["count_points"] = str(counting.with_suffix(f".{rank}"))
            if not rank:  # the steps of the others are those of the first
                how["journal"] = str(self.folder / "journal.txt")
            how["environment"] = {**group, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            child = self.zygote.start(words, self.folder, fault=fault, **how)  # type: ignore[arg-type]
            children.append(child)
            time.sleep(seconds_between)
        return children

    def wait_all(self, children: Sequence[Child], seconds: float = 60.0) -> list[Death]:
        """How each ended, in the order of ranks."""
        return [self.zygote.wait(child, seconds) for child in children]

    def once(self, fault: str = "") -> Death:
        """Start all ranks, and wait for them; the end of the first."""
        return self.wait_all(self.start_all(fault))[0]

    def loses(self, rank: int, fault: str) -> None:
        """Start, and one rank is killed; the others notice."""
        deaths = self.wait_all(self.start_all(f"rank{rank}:{fault}"))
        codes = [death.code for death in deaths]
        assert codes.pop(rank) == -signal.SIGKILL, deaths[0].output
        # Rank 0 may just have ended.
        assert set(codes) <= {16}, (codes, deaths[0].output)
