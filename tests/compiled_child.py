"""A process of its own that trains compiled contracts of stages, kills runs of them, and goes on
with those that earlier processes left.

    python compiled_child.py FOLDER TASK...

A task is `CONTRACT RUN STEP` with commas between, the attempt at which the run is killed, or `-`.
A line of JSON is printed for each run that ended: its losses and the SHA-256 of all its state.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path

import torch._dynamo

from canary import Killed
from contract_runs import bits, train

COMPILED = "training.compute.compile=on"


def main(folder: Path, tasks: list[str]) -> None:
    for task in tasks:
        contract, name, death = task.split(",")
        torch._dynamo.reset()  # as the first run of a process
        try:
            run = train(
                folder / f"{contract}.yaml",
                name,
                COMPILED,
                dies_at=math.inf if death == "-" else int(death),
            )
        except Killed:
            continue
        state = hashlib.sha256()
        for part, content in sorted(bits(run).items()):
            state.update(part.encode() + content)
        print(json.dumps([name, run.signals["loss"], state.hexdigest()]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
