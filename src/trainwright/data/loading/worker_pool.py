"""Worker processes that make blocks before they are needed. Needs torch.

Only the numbers of rows and where a block lies are sent; blocks lie in shared memory. Blocks are
dealt to the workers in turn and taken in the order of the feed, so how many workers there are
changes nothing but the time. A worker that dies is started again with the blocks it had.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn, final

import torch

from trainwright.contract.sections.data.data_traits import Loading
from trainwright.core.errors import PeerLost
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json
from trainwright.data.base.counter_rng import Positions
from trainwright.data.loading.batch import Batch, as_batch
from trainwright.data.loading.block_loader import make, name_rows
from trainwright.data.loading.dataset import AlignedTensors, RowDataset, as_store
from trainwright.data.loading.device_copy import build_landing
from trainwright.data.loading.shared_buffer import SharedBuffer

REQUEST = struct.Struct("<3q")
"""Number of the slot, epoch, count of rows."""

REPLY_BYTES = 2**16
_PR_SET_PDEATHSIG = 1
_MOST_CHARACTERS = 2000
_USUAL = Loading()


@final
class Worker:
    """A forked process and the socket to it. It shares the memory of this process at the fork, so
    nothing of the store is copied or sent.

    Args:
        store: whose rows it makes.
        slots: where rows are read and blocks written.
        others: sockets of this process that the new one must not hold open.
    """

    def __init__(
        self, store: RowDataset, slots: Sequence[SharedBuffer], others: Iterable[socket.socket]
    ) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        # No handler of this process may run in the new one before they are reset there.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = _fork()
            if self.pid == 0:
                _run(store, slots, theirs, (*others, self.socket), parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def ask(self, slot: int, epoch: int, rows: Positions) -> None:
        """Send a request. That the process is dead shows when its answer is waited for."""
        with contextlib.suppress(ConnectionError):
            self.socket.send(REQUEST.pack(slot, epoch, len(rows)))

    def end(self) -> str:
        """Kill it if it lives; gives how it died."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.socket.close()
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"


def _fork() -> int:
    with warnings.catch_warnings():
        # From Python 3.12 on a warning where there are threads: the new process needs nothing that
        # one of them could hold, and one that hangs all the same is started again. Why it is no
        # fresh process: docs/decisions/0064-forks.md.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _run(
    store: RowDataset,
    slots: Sequence[SharedBuffer],
    asked: socket.socket,
    others: Iterable[socket.socket],
    parent: int,
) -> NoReturn:
    """The whole life of the process. It must never return into the code that has forked it."""
    code = 1
    try:
        _settle(others, parent)
        _serve(store, slots, asked)
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(code)


def _settle(others: Iterable[socket.socket], parent: int) -> None:
    """Let go of what belongs to the parent, and die with it."""
    # First of all: the threads among which torch divided its work are not there after a fork, and
    # an operation that waits for one never ends. With one thread nothing is divided.
    torch.set_num_threads(1)
    for other in others:
        other.close()
    signal.set_wakeup_fd(-1)
    # Ctrl-C reaches every process of a terminal: the parent decides what it means.
    for number in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    # What the parent left behind must not be taken apart here: it may hold memory of a GPU.
    gc.freeze()


def _serve(store: RowDataset, slots: Sequence[SharedBuffer], asked: socket.socket) -> None:
    while request := asked.recv(REQUEST.size):
        number, epoch, count = REQUEST.unpack(request)
        slot = slots[number]
        try:
            reached("data.worker")
            batch = as_batch(store.take(epoch, slot.read_rows(count)))
            reply = {"batch": slot.write(batch, count)}
        except Exception as error:
            reply = {"failed": f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]}
        asked.send(json.dumps(reply).encode())


class _Asked(NamedTuple):
    """A block under way: in which slot, and which worker has it."""

    epoch: int
    rows: Positions
    slot: int
    worker: int


def _say_nothing(_kind: str, _message: str) -> None:
    return


@final
class Workers:
    """The rows of a store, made by `count` forked processes, ahead of their use.

    They are started with the first block, and share the dataset at that time. They die with this
    process, whatever ends it.

    Args:
        rows: aligned tensors on the host, or a store that makes its rows there.
        count: processes.
        loading: how far they are ahead, and what happens to those that die or hang.
        device: where blocks are taken to.
        pin_memory: whether blocks reach a GPU through page-locked memory.
        tell: receives the kind and the description of each failure that was repaired.
    """

    def __init__(
        self,
        rows: AlignedTensors | RowDataset,
        count: int,
        loading: Loading = _USUAL,
        *,
        device: torch.device | None = None,
        pin_memory: bool = False,
        tell: Callable[[str, str], object] = _say_nothing,
    ) -> None:
        assert count >= 1
        self.store = as_store(rows)
        self.depth = count * loading.ahead
        self._loading = loading
        self._device = device or torch.device("cpu")
        self._landing = build_landing(self._device, pin_memory)
        self._tell = tell
        self._count = count
        self._slots: list[SharedBuffer] = []
        self._free: list[int] = []
        self._workers: list[Worker] = []
        self._asked: deque[_Asked] = deque()
        self._landed: deque[Batch] = deque()
        self._dealt = 0
        self._deaths = 0
        weakref.finalize(self, _end_all, self._workers, os.getpid())

    def ask(self, epoch: int, rows: Positions) -> None:
        """Deal a block to the next worker."""
        if not self._workers:
            self._start()
        asked = _Asked(epoch, rows, self._free.pop(), self._dealt % self._count)
        self._dealt += 1
        self._asked.append(asked)
        self._send(asked)

    def take(self, epoch: int, rows: Positions) -> Batch:
        """The block that was asked for first."""
        assert (epoch, len(rows)) == (self._asked[0].epoch, len(self._asked[0].rows))
        if not self._landed:
            self._land(self._answer())
        asked = self._asked.popleft()
        self._free.append(asked.slot)
        return self._landing.end(self._landed.popleft())

    def now(self, epoch: int, rows: Positions) -> Batch:
        """Rows made in this process."""
        return make(self.store, epoch, rows).move(lambda tensor: tensor.to(self._device))

    def advance(self) -> None:
        """Begin to copy the next block to the device if it is made: on the host there would be
        nothing to gain."""
        if self._device.type == "cpu" or self._landed or not self._asked:
            return
        if self._can_read(self._asked[0].worker, seconds=0):
            self._land(self._answer())

    def forget(self) -> None:
        """End the workers with what they have under way; the next block starts new ones."""
        self.close()

    def close(self) -> None:
        """End the workers, and give the memory back."""
        _end_all(self._workers, os.getpid())
        for slot in self._slots:
            slot.close()
        self._slots, self._free = [], []
        self._asked.clear()
        self._landed.clear()

    def _start(self) -> None:
        self._slots = [SharedBuffer() for _ in range(self.depth)]
        self._free = list(range(self.depth))
        self._dealt = 0
        for _ in range(self._count):
            self._workers.append(self._new())

    def _new(self) -> Worker:
        return Worker(self.store, self._slots, [worker.socket for worker in self._workers])

    def _send(self, asked: _Asked) -> None:
        self._slots[asked.slot].write_rows(asked.rows)
        self._workers[asked.worker].ask(asked.slot, asked.epoch, asked.rows)

    def _answer(self) -> Json:
        """What the worker of the first block says of it; starts that worker again until it says
        something."""
        worker = self._asked[0].worker
        while True:
            if not self._can_read(worker, self._loading.hang_seconds):
                self._revive(worker, f"did not answer for {self._loading.hang_seconds:g} s")
            elif reply := self._received(worker):
                return json.loads(reply)
            else:
                self._revive(worker, "died")

    def _can_read(self, worker: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._workers[worker].socket, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def _received(self, worker: int) -> bytes:
        """Empty if the process is dead."""
        try:
            return self._workers[worker].socket.recv(REPLY_BYTES)
        except ConnectionError:
            return b""

    def _land(self, reply: Json) -> None:
        asked = self._asked[0]
        if "batch" in reply:
            views = self._slots[asked.slot].view(reply["batch"]).with_rows(asked.rows)
            self._landed.append(self._landing.begin(views))
            return
        # The rows are a pure function: an error that lies in them comes again here, with its own
        # type and trace.
        self._landed.append(self.now(asked.epoch, asked.rows))
        story = f"data worker {asked.worker} failed where this process did not: {reply['failed']}"
        self._tell("worker_failed", story)

    def _revive(self, number: int, what: str) -> None:
        """Start a worker again with the blocks it had.

        Raises:
            PeerLost: it is one too many.
        """
        first = self._asked[0]
        pid, how = self._workers[number].pid, self._workers[number].end()
        self._deaths += 1
        story = (
            f"data worker {number} (process {pid}) {what}: {how}; it had "
            f"{name_rows(first.rows)} of epoch {first.epoch}"
        )
        if self._deaths > self._loading.restarts:
            self._workers.pop(number)
            self.close()
            raise PeerLost(
                f"{story}. That is death {self._deaths} of this run's workers, and "
                f"data.loading.restarts is {self._loading.restarts}. If the system killed it, "
                "memory is short: lower data.num_workers or data.loading.ahead. The run can go on "
                "with --resume, also with --set data.num_workers=0"
            )
        self._tell("worker_restarted", f"{story}; started again, {self._deaths} so far")
        self._workers[number] = self._new()
        for asked in self._asked:
            if asked.worker == number:
                self._send(asked)


def _end_all(workers: list[Worker], owner: int) -> None:
    """End them, if this is the process that has them and not one forked from it."""
    if os.getpid() == owner:
        while workers:
            workers.pop().end()
