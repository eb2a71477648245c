"""Which rank is frozen, from heartbeats: work that is slow is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from trainwright.distributed import heartbeat
from trainwright.distributed.heartbeat import Frozen, Heartbeat, PeerPatience, locate_thread

SILENT, STILL = heartbeat.SILENT_SECONDS, heartbeat.STILL_SECONDS


@dataclass(frozen=True)
class Rank:
    """What a rank does, second by second: of each sign of life, whether it goes on."""

    beats: Callable[[int], int] = lambda second: second
    moves: Callable[[int], int] = lambda second: second
    waits: bool = False


RUNS, STANDS = Rank(), Rank(moves=lambda second: 0)
WAITS = Rank(moves=lambda second: 0, waits=True)
STOPPED = Rank(beats=lambda second: 0, moves=lambda second: 0)


def judge(ranks: Sequence[Rank], seconds: int, by: int = 0, lost: bool = False) -> Frozen | None:
    """What a rank that waits finds within so many seconds."""
    patience = PeerPatience(by)
    for second in range(seconds):
        beats = [
            Heartbeat("", 10 + number, rank.beats(second), rank.moves(second), rank.waits, "a:1")
            for number, rank in enumerate(ranks)
        ]
        if frozen := patience.judge(beats, is_answered=not lost):
            return frozen
    return None


@pytest.mark.parametrize(
    "slow",
    [
        RUNS,  # it validates or compiles: another line each second
        Rank(moves=lambda second: second // (STILL - 10)),  # a file is synced for half an hour
        Rank(beats=lambda second: second // (SILENT - 10)),  # a library keeps the lock
    ],
)
def test_slow_work_is_waited_for(slow: Rank) -> None:
    assert judge([WAITS, slow, WAITS], 10 * 3600) is None
    assert judge([slow, WAITS], 10 * 3600, by=1) is None


@pytest.mark.parametrize(
    ("rank", "seconds", "says"),
    [
        (STOPPED, SILENT, "has given no sign for 5m00s"),
        (STANDS, STILL, "has stood still for 30m00s"),
    ],
)
def test_a_frozen_rank_is_named(rank: Rank, seconds: int, says: str) -> None:
    assert judge([WAITS, WAITS, rank], seconds) is None
    frozen = judge([WAITS, WAITS, rank], seconds + 2)
    assert frozen is not None
    assert (frozen.rank, frozen.pid) == (2, 12)
    assert says in frozen.message
    assert frozen.message.endswith("at a:1")


def test_ranks_that_wait_for_each_other_are_listed() -> None:
    assert judge([WAITS, WAITS], STILL) is None
    frozen = judge([WAITS, WAITS], STILL + 2)
    assert frozen is not None
    assert frozen.rank == -1
    assert frozen.message.endswith("rank 0 at a:1; rank 1 at a:1")


def test_a_store_that_does_not_answer_is_that_of_the_first_rank() -> None:
    frozen = judge([STOPPED, WAITS, STOPPED], SILENT + 2, by=1, lost=True)
    assert frozen is not None
    assert frozen.rank == 0


def test_calls_that_follow_each_other_are_no_wait() -> None:
    """Seen at the same line each second, in another call."""
    busy = Rank(waits=True)
    assert judge([busy, busy], 10 * 3600) is None


def test_a_thread_that_works_is_seen_at_other_instructions() -> None:
    ended, waits = threading.Event(), threading.Event()

    def work() -> None:
        while not ended.is_set():
            sum(range(100))
            sorted(range(100))

    threads = [threading.Thread(target=work), threading.Thread(target=waits.wait)]
    for thread in threads:
        thread.start()
    try:
        seen: list[set[int]] = [set(), set()]
        for _ in range(200):
            for thread, stacks in zip(threads, seen, strict=True):
                stacks.add(locate_thread(thread.ident or 0)[0])
            ended.wait(0.005)
    finally:
        ended.set()
        waits.set()
    assert len(seen[0]) > 1
    assert len(seen[1]) <= 2
