"""Processes joined by gloo: the conformance of the strategies that train with several."""

from __future__ import annotations

import faulthandler
import json
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from deadlines import within
from forked_ranks import start_ranks
from trainwright.distributed.data_parallel import DataParallel
from trainwright.distributed.sharded import FullyShard
from trainwright.distributed.strategy import Strategy
from trainwright.testing.strategy_conformance import CHECKS

STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "ddp": lambda: DataParallel(torch.device("cpu")),
    "fsdp": lambda: FullyShard(torch.device("cpu")),
    "hsdp": lambda: FullyShard(torch.device("cpu"), 2, reshard_after_forward=False),
}

_NOT_OF_SHARDS = frozenset(
    {
        *("out of memory", "exhausted memory", "order of sums"),
        *("resume", "other ranks", "gradient layout", "shared loss"),
        "clipping by value",
    }
)
"""Memory may not run out on one rank, and its sums have an order of their own. Shards are saved by
tests/contracts/test_sharded_ranks.py. A rank without a part of a gradient has no largest element of
it to clip by; the others read whole gradients."""

REFUSED = {"ddp": frozenset[str](), "fsdp": _NOT_OF_SHARDS, "hsdp": _NOT_OF_SHARDS}
"""Checks that a strategy is not taken through."""

SECONDS = 120
"""In which all checks are done on a quiet machine."""


def _run(rank: int, strategy: str, world_size: int, folder: str) -> None:
    stacks = (Path(folder) / f"{rank}.stacks").open("w")
    faulthandler.dump_traceback_later(within(SECONDS), exit=True, file=stacks)
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=within(2 * SECONDS)),
    )
    found: dict[str, Sequence[float] | str] = {}
    for name, check in CHECKS.items():
        if name in REFUSED[strategy]:
            continue
        try:
            found[name] = check(STRATEGIES[strategy]())
        except Exception:
            found[name] = traceback.format_exc()
            break  # the ranks are no longer at the same place
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()
    # A thread of gloo may still hold the tensors of the last collective: it needs the interpreter
    # to drop them, and aborts the process if that is ending (pytorch/pytorch#179291).
    os._exit(0)


def check_all(
    strategy: str, world_size: int, folder: Path
) -> list[dict[str, Sequence[float] | str]]:
    """What each check returned on each rank, or its error.

    Raises:
        AssertionError: a rank has died, or was not done in time; with the stacks of all ranks.
    """
    try:
        start_ranks(_run, world_size, (strategy, world_size, str(folder)))
    except (ProcessRaisedException, ProcessExitedException) as error:
        stacks = [f"{one.name}:\n{one.read_text()}" for one in sorted(folder.glob("*.stacks"))]
        raise AssertionError("\n".join([str(error), *stacks])) from None
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]
