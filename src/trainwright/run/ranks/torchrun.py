"""`python -m trainwright.run.ranks.torchrun`: torchrun, without a traceback where a rank has failed
or a signal ends it: the ranks have said why."""

from __future__ import annotations

import sys

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main

if __name__ == "__main__":
    try:
        main()
    except (ChildFailedError, SignalException):
        sys.exit(1)
