"""The processes that train one model: how they meet, and what the first tells the others.

torchrun or srun starts them and says in the environment who each of them is (`RANK`, `WORLD_SIZE`,
`LOCAL_RANK`, `MASTER_ADDR`, `MASTER_PORT`). Tensors go through the default group of
torch.distributed; what is to be trained through its store, as JSON, which a process can wait for
without missing a signal.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, Literal, final

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from trainwright.contract.sections.run_settings import Distributed
from trainwright.core.errors import Mistake, PeerLost, Problem
from trainwright.core.files import Json
from trainwright.distributed.data_parallel import LIMIT, DataParallel, notice_lost_peers
from trainwright.distributed.rank_watch import RankWatch
from trainwright.distributed.strategy import SingleProcess, Strategy

_MEETING_LIMIT = timedelta(minutes=5)

_SECONDS_BETWEEN = 0.05
_SECONDS_TO_LEAVE = 10.0


@final
class ProcessGroup:
    """The default process group, of which this process is the rank `rank`. Rank 0 prepares, judges
    and writes; it tells the others what to train."""

    def __init__(self, store: Store, watch: RankWatch) -> None:
        self.watch = watch
        self.rank = distributed.get_rank()
        self.world_size = distributed.get_world_size()
        self._store = store
        self._orders = 0

    def tell(self, order: Json) -> None:
        """Give the other ranks their next order."""
        self._orders += 1
        self._store.set(f"order/{self._orders}", json.dumps(order))

    def next_order(self) -> Json:
        """Wait for the next order of rank 0; None at the end.

        Raises:
            PeerLost: rank 0 has died.
        """
        self._orders += 1
        key = f"order/{self._orders}"
        try:
            while not self._store.check([key]):
                time.sleep(_SECONDS_BETWEEN)
            order: Json = json.loads(self._store.get(key))
        except RuntimeError as error:
            raise PeerLost(f"rank 0 has died: {error}"[:300]) from error
        if order is None:
            self._store.add("left", 1)
        return order

    def end(self) -> None:
        """Leave the group. Rank 0 tells the others that all is done, or that it cannot go on; those
        inside a call get `PeerLost`, and ask for their next order."""
        if self.rank:
            return
        with suppress(RuntimeError):
            distributed.destroy_process_group()
            self.tell(None)
            until = time.monotonic() + _SECONDS_TO_LEAVE
            while self._store.add("left", 0) < self.world_size - 1 and time.monotonic() < until:
                time.sleep(_SECONDS_BETWEEN)


_joined: Final[list[ProcessGroup]] = []
"""The group of this process, if it has joined one."""


@contextmanager
def join_group() -> Iterator[ProcessGroup]:
    """Meet the processes that torchrun has started, inside the block."""
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        # Slurm may show each task its own GPU only.
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    store, rank, world_size = _meet()
    # Of a connection of its own; the stubs of torch do not know it.
    watch = RankWatch(store.clone(), rank, world_size)  # type: ignore[attr-defined]
    with notice_lost_peers():
        distributed.init_process_group(
            "nccl" if has_gpu else "gloo",
            store=PrefixStore("training", store),
            rank=rank,
            world_size=world_size,
            timeout=LIMIT,
        )
    group = ProcessGroup(PrefixStore("orders", store), watch)
    with notice_lost_peers():
        watch.start()
    _joined.append(group)
    try:
        yield group
    except BaseException as error:
        # torchrun ends the others by a signal at once, which may interrupt the handling of it.
        if (lost := _find_lost_peer(error)) is not None:
            raise lost from None
        group.end()
        raise
    else:
        group.end()
    finally:
        watch.stop()
        _joined.remove(group)


def _meet() -> tuple[Store, int, int]:
    """The store that rank 0 keeps, this rank and the number of ranks.

    Raises:
        Mistake: they do not meet.
    """
    try:
        store, rank, world_size = next(rendezvous("env://", timeout=_MEETING_LIMIT))
    except (distributed.DistNetworkError, distributed.DistStoreError) as error:
        port = os.environ["MASTER_PORT"]
        raise Mistake(
            Problem(
                f"the processes that are to train together do not meet at port {port}",
                found=f"{os.environ['MASTER_ADDR']}: {error}"[:300],
                expected="rank 0 at this address, and the others within five minutes",
                fix="start all of them, or let them meet at a free port (MASTER_PORT)",
            )
        ) from error
    return store, rank, world_size


def _find_lost_peer(error: BaseException | None) -> PeerLost | None:
    """The loss of a peer among the errors that led to this one."""
    while error is not None and not isinstance(error, PeerLost):
        error = error.__context__
    return error


def find_group() -> ProcessGroup | Literal["none"]:
    """The group that this process has joined."""
    return _joined[-1] if _joined else "none"


def build_strategy(section: Distributed, device: torch.device) -> Strategy:
    """The strategy of a contract on the device of this rank; a single process where no other has
    joined, as for what rank 0 measures by itself."""
    if section.strategy == "single" or not _joined:
        return SingleProcess(device)
    if section.strategy == "fsdp":
        # Imported here: it takes a second that other strategies need not wait.
        from trainwright.distributed.sharded import FullyShard

        return FullyShard(
            device, section.replicas, reshard_after_forward=section.reshard_after_forward
        )
    if section.model_ranks > 1:
        if section.pipeline > 1:
            from trainwright.distributed.pipeline import PipelineParallel

            return PipelineParallel(device, section.tensor, section.pipeline)
        from trainwright.distributed.model_parallel import ModelParallel

        return ModelParallel(device, section.tensor)
    return DataParallel(device)
