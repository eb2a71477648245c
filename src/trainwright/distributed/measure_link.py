"""Latency and bandwidth between the ranks of the default process group."""

from __future__ import annotations

import time

import torch
from torch import distributed

from trainwright.distributed.data_parallel import notice_lost_peers, sum_in_order
from trainwright.distributed.link import BUCKET_BYTES, Link

_SMALL_BYTES = 2**16
_REPEATS = 5


def measure_link(device: torch.device) -> Link:
    """The link by which gradients are summed; all ranks call this.

    Raises:
        PeerLost: another rank has died.
    """
    small, large = (time_sum(size, device) for size in (_SMALL_BYTES, BUCKET_BYTES))
    ranks = distributed.get_world_size()
    return Link.fit(ranks, (_SMALL_BYTES, small), (BUCKET_BYTES, large))


def time_sum(size: int, device: torch.device) -> float:
    """The least of some times in seconds in which about `size` bytes are summed over the ranks."""
    ranks = distributed.get_world_size()
    values = torch.zeros(-(-size // 4 // ranks) * ranks, device=device)
    seconds = []
    with notice_lost_peers():
        for _ in range(_REPEATS + 1):  # the first one connects them
            distributed.barrier()
            started = time.perf_counter()
            sum_in_order(values, ranks)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - started)
    return min(seconds[1:])
