"""Calls before the first tree of the income example, as three numbers: calls of our functions in
the main thread, modules that they are in, and calls into another module than the call before.

Nothing is kept from an earlier run, so the numbers are the same each time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from inspect import CO_OPTIMIZED
from itertools import pairwise
from pathlib import Path
from types import FrameType

import trainwright
from trainwright.cli.main import main

PACKAGE = str(Path(trainwright.__file__).parent)
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "income"


class FirstTree(BaseException):
    """Ends the run: nothing in it catches this."""


def trace_example(folder: Path) -> Sequence[str]:
    """The file of each call of a function of ours, up to the first tree."""
    shutil.copytree(EXAMPLE, folder / "income")
    os.environ["TRAINWRIGHT_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    sys.argv = ["trainwright", "train", "income/contract.yaml"]
    sys.stdout = sys.stderr
    files: list[str] = []

    def record(frame: FrameType, event: str, _result: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_filename.startswith(PACKAGE):
            # Bodies of modules and classes are not optimized.
            if code.co_flags & CO_OPTIMIZED:
                files.append(code.co_filename)
        elif code.co_name == "update" and code.co_filename.endswith("lightgbm/basic.py"):
            sys.setprofile(None)
            raise FirstTree

    sys.setprofile(record)
    try:
        main()
    except FirstTree:
        return files
    raise AssertionError("the example ended without a tree")


if __name__ == "__main__":
    stdout = sys.stdout
    with tempfile.TemporaryDirectory() as temporary:
        files = trace_example(Path(temporary))
    hops = sum(file != before for before, file in pairwise(files))
    print(len(files), len(set(files)), hops, file=stdout)
