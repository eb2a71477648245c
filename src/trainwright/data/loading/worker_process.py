"""One worker process: makes the blocks that it is asked for, until the asking process is gone.

Needs torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import struct
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from typing import NoReturn, final

import torch

from trainwright.core.faultpoints import reached
from trainwright.data.base.permutation import Positions
from trainwright.data.loading.batch import as_batch
from trainwright.data.loading.dataset import RowDataset
from trainwright.data.loading.shared_buffer import SharedBuffer

REQUEST = struct.Struct("<3q")
"""Number of the slot, epoch, count of rows."""

REPLY_BYTES = 2**16
_PR_SET_PDEATHSIG = 1
_MOST_CHARACTERS = 2000


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
        # one of them could hold.
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
    # The threads of the parent's pools are not there after a fork.
    torch.set_num_threads(1)


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
