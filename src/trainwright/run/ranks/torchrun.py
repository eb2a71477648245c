"""`python -m trainwright.run.ranks.torchrun`: torchrun, without a traceback where a rank has failed
or a signal ends it: the ranks have said why."""

from __future__ import annotations

import ctypes
import signal
import sys

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    # The ranks end, with a checkpoint, if the command that has started them is killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        main()
    except (ChildFailedError, SignalException):
        sys.exit(1)
