"""Watch of a rank over the others: ends a group one of whose ranks is frozen, with the stacks of
all ranks in their logs, so that torchrun can start it again."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, final

from trainwright.core.errors import PeerLost
from trainwright.distributed.heartbeat import (
    SILENT_SECONDS,
    Frozen,
    Heartbeat,
    PeerPatience,
    locate_thread,
    name_machine,
)

_EVERY_SECONDS = 1.0
_DUMP_AND_END = signal.SIGVTALRM
"""Ends a process that does not handle it, and hardly any library uses it."""
_SECONDS_TO_DUMP = 5.0
_SECONDS_TO_BREAK = 10.0
"""After a process has ended, the calls of the others fail within milliseconds."""

_found: Final[list[Frozen]] = []


class _Calls:
    """Calls of the training thread that other ranks have to join: those made, and those open."""

    made = 0
    open = 0


@contextmanager
def wait_for_peers() -> Iterator[None]:
    """The block is a call that other ranks have to join."""
    _Calls.made += 1
    _Calls.open += 1
    try:
        yield
    finally:
        _Calls.open -= 1


def describe_lost_peer(otherwise: str) -> str:
    """Why a peer was lost, where the watch knows it."""
    return _found[0].message if _found else otherwise


class BeatStore(Protocol):
    """What the watch needs of a store of torch.distributed, over a connection of its own: rank 0
    keeps it, and does not answer while its process is stopped."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""
        ...

    def check(self, keys: list[str]) -> bool:
        """Are there values of these keys?"""
        ...

    def get(self, key: str) -> bytes:
        """Read a value."""
        ...

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Read several values."""
        ...


@final
class RankWatch:
    """Two threads: one talks to the store, the other notices if that does not return."""

    def __init__(self, store: BeatStore, rank: int, world_size: int) -> None:
        self._store = store
        self._rank = rank
        self._keys = [f"beat/{rank}" for rank in range(world_size)]
        self._training = threading.get_ident()
        self._beat = Heartbeat(name_machine(), os.getpid())
        self._stack = 0
        self._beats: Sequence[Heartbeat] = ()
        self._answers = 0
        self._is_over = threading.Event()
        self._folder = Path()
        self._log = os.dup(2)
        self._screen = os.dup(2)
        self._say_alive()

    def start(self) -> None:
        """Once all ranks have given a first sign."""
        self._beats = self._read_beats()
        # Needs no interpreter, and comes before all else that a continued process does.
        faulthandler.register(_DUMP_AND_END, file=self._log, chain=True)
        for body in (self._talk, self._watch):
            threading.Thread(target=body, name=f"rank{body.__name__}", daemon=True).start()

    def log_to(self, path: Path) -> None:
        """Write stacks to the end of this file."""
        self._folder = path.parent
        path.parent.mkdir(exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, self._log)
        os.close(log)

    def stop(self) -> None:
        """Watch no longer."""
        self._is_over.set()
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(_DUMP_AND_END)

    def _say_alive(self) -> None:
        self._store.set(self._keys[self._rank], json.dumps(self._beat))

    def _read_beats(self) -> Sequence[Heartbeat]:
        return [Heartbeat(*json.loads(beat)) for beat in self._store.multi_get(self._keys)]

    def _talk(self) -> None:
        """Give the heartbeat of this rank, and take those of all while it waits."""
        # A store that is gone is noticed by the training thread.
        with suppress(RuntimeError):
            while not self._is_over.wait(_EVERY_SECONDS):
                self._say_alive()
                if _found:
                    self._store.set("frozen", json.dumps(_found[0]))
                elif self._store.check(["frozen"]):
                    _found.append(Frozen.read(json.loads(self._store.get("frozen"))))
                if self._beat.waits:
                    self._beats = self._read_beats()
                self._answers += 1

    def _watch(self) -> None:
        patience = PeerPatience(self._rank)
        answers = -1
        while not self._is_over.wait(_EVERY_SECONDS):
            # Where no rank of this machine sends the signal. Needs no interpreter either.
            faulthandler.dump_traceback_later(2 * SILENT_SECONDS, file=self._log)
            self._look_at_training()
            if not self._beat.waits:
                patience.forget()
            elif not _found:
                is_answered = answers != self._answers
                frozen = patience.judge(self._beats, is_answered=is_answered)
                if frozen is not None:
                    stacks = f"; the stacks of all ranks are in {self._folder}"
                    _found.append(frozen._replace(message=frozen.message + stacks))
            answers = self._answers
            if _found:
                self._end_group(_found[0])
                return

    def _look_at_training(self) -> None:
        stack, line = locate_thread(self._training)
        stack = hash((stack, _Calls.made))
        moved = stack != self._stack
        self._stack = stack
        self._beat = self._beat._replace(
            beats=self._beat.beats + 1,
            moves=self._beat.moves + moved,
            waits=_Calls.open > 0,
            line=line,
        )

    def _end_group(self, frozen: Frozen) -> None:
        """End the frozen rank, which breaks the calls of the others; where it is out of reach,
        this one."""
        os.write(self._log, f"{frozen.message}; this is rank {self._rank}:\n".encode())
        if frozen.rank != self._rank:
            faulthandler.dump_traceback(self._log, all_threads=True)
        if frozen.rank == 0 and self._rank == 1:  # else rank 0 says it when its call has failed
            self._say(frozen)
        time.sleep(_EVERY_SECONDS)  # for the others to hear of it
        if frozen.machine == self._beat.machine:
            with suppress(ProcessLookupError):
                os.kill(frozen.pid, _DUMP_AND_END)
                os.kill(frozen.pid, signal.SIGCONT)
                time.sleep(_SECONDS_TO_DUMP)
                os.kill(frozen.pid, signal.SIGKILL)
        time.sleep(_SECONDS_TO_BREAK)
        if _Calls.open and not self._is_over.is_set():
            if self._rank == 0:
                self._say(frozen)
            os._exit(PeerLost.exit_code)

    def _say(self, frozen: Frozen) -> None:
        os.write(self._screen, f"{frozen.message}\n".encode())
