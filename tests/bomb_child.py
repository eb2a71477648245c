"""A process that checks one contract after the other, and says what each took. It is given the
memory of a small machine, and no more than an address space that the bombs would pass."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path

from trainwright.core import limits
from trainwright.core import process as machine

GIBIBYTE = 2**30
ADDRESSES = 16 * GIBIBYTE


def most_held() -> int:
    """The most memory in RAM since the last `forget`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def forget() -> None:
    """Count the most memory from here on."""
    Path("/proc/self/clear_refs").write_text("5")


def serve() -> None:
    """Check the contract in each folder that a line names, and answer with a line."""
    from command import command, inside

    for line in sys.stdin:
        forget()
        began = time.monotonic()
        with inside(Path(line.strip())):
            ran = command("check", "contract.yaml")
        answer = {
            "code": ran.code,
            "err": ran.err,
            "seconds": time.monotonic() - began,
            "bytes": most_held(),
            # What was left behind goes on: nothing more can be measured here.
            "alone": not any(one.daemon for one in threading.enumerate()),
        }
        print(json.dumps(answer), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    machine.memory_bytes = lambda: 8 * GIBIBYTE
    limits.TOKENIZER_SECONDS = 1.0  # type: ignore[misc]
    limits.TOKENIZER_LETTERS_PER_SECOND = 40_000  # type: ignore[misc]
    serve()
