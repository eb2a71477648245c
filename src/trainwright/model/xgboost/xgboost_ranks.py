"""XGBoost's collective: several processes grow the same trees, each on its share of the rows."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Final

import numpy as np
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from trainwright.core.errors import PeerLost
from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.distributed.rank_watch import describe_lost_peer, wait_for_peers
from trainwright.model.library_family import RowShare

_LIMIT_SECONDS: Final = 7200
"""How long a rank waits for another in one call; a frozen one is noticed by `RankWatch`."""

_SECONDS_TO_END = 1


@contextmanager
def start_tracker(ranks: int, address: str) -> Iterator[Mapping[str, Json]]:
    """A tracker, over which so many ranks meet inside the block: what they have to know of it. It
    listens at this address of the machine, a name or an IP address."""
    tracker = RabitTracker(ranks, str(socket.getaddrinfo(address, None)[0][4][0]), sortby="task")
    tracker.start()
    try:
        yield tracker.worker_args()
    finally:
        with suppress(XGBoostError):  # a rank has not come, or not left
            tracker.wait_for(_SECONDS_TO_END)
        # Without having waited it would not return before all ranks have come.
        with suppress(XGBoostError):
            tracker.free()


@contextmanager
def join_ranks(share: RowShare) -> Iterator[None]:
    """Inside the block XGBoost sums over the rows of all ranks; nothing changes for one rank.

    Raises:
        PeerLost: another rank has died.
    """
    if share.ranks == 1:
        yield
        return
    try:
        with wait_for_peers(), _collective(share):
            yield
    except XGBoostError as error:
        if "collective" not in str(error):
            raise
        # Each line is the cause of the one above.
        cause = str(error).partition("Stack trace")[0].strip().rpartition("]: ")[2]
        lost = f"another rank has died, or does not answer: {cause}"
        raise PeerLost(describe_lost_peer(lost)) from error


@contextmanager
def _collective(share: RowShare) -> Iterator[None]:
    task = f"{share.rank:08}"  # ranks are numbered in the order of these texts
    with redirect_stdout(io.StringIO()):  # it says which rank it is
        collective.init(**share.tracker, dmlc_task_id=task, dmlc_timeout=_LIMIT_SECONDS)
    try:
        yield
    except BaseException:
        # The others notice; the error of the block is the one to raise.
        with suppress(XGBoostError):
            collective.finalize()
        raise
    collective.finalize()


def follow_first(share: RowShare, *, decision: bool) -> bool:
    """What rank 0 has decided: budget, signals and stop rules are known to it alone."""
    if share.ranks == 1:
        return decision
    own = np.array([decision and share.rank == 0], np.int8)
    with wait_for_peers():
        return bool(collective.allreduce(own, collective.Op.MAX)[0])


def gather_scores(share: RowShare, scores: Floats, sizes: Integers) -> Floats:
    """Scores of all rows [N], from those of this rank, query by query."""
    if share.ranks == 1:
        return scores
    every = np.zeros(int(sizes.sum()))
    every[share.divide(len(every), sizes)] = scores
    return collective.allreduce(every, collective.Op.SUM)
