"""A contract's table trained on with its rows in files: how much memory no file stands for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

NUMBERS = 10
ROW_BYTES = 8 * NUMBERS
"""Of the numbers; words and the target come beside."""

_PART, _HELD_OUT, _TOWNS = 150_000, 3000, 200
_PROCESS = [sys.executable, "-c", "from trainwright.cli.main import main; main()"]
_CONTRACT = """
task: classification
data:
  path: parts
  target: y
  split: {{kind: stratified, validation: {share}, test: {share}}}
  quality: {{look: quick}}
  reading: {{rows_in: {rows_in}, cache: cache}}
model: {{kind: mlp, hidden: [8]}}
metric: {{resamples: 100, target: 0.5}}
training: {{num_epochs: 1, batch_size: 1024, stop: {{max_steps: 20}}}}
"""


class Trained(NamedTuple):
    """The most anonymous memory of a training, and what it took."""

    rows: int
    anonymous_bytes: int
    seconds: float


def write(folder: Path, rows: int, rows_in: str) -> None:
    """Parquet parts of numbers, words and two classes, and a contract for them. As many rows are
    validated and judged whatever there are."""
    (folder / "parts").mkdir(parents=True)
    towns = np.array([f"a town by the name of {at}" for at in range(_TOWNS)])
    for start in range(0, rows, _PART):
        draw = np.random.default_rng(start)
        size = min(_PART, rows - start)
        numbers = draw.normal(size=(size, NUMBERS))
        numbers[draw.random(size) < 0.1, 1] = np.nan
        columns = {f"x{at}": numbers[:, at] for at in range(NUMBERS)}
        beside = {
            "town": towns[draw.integers(0, _TOWNS, size)],
            "y": np.where(numbers[:, 0] + draw.normal(size=size) > 0, "yes", "no"),
        }
        pl.DataFrame(columns | beside).write_parquet(folder / "parts" / f"{start:09}.parquet")
    contract = _CONTRACT.format(share=_HELD_OUT / rows, rows_in=rows_in)
    (folder / "contract.yaml").write_text(contract)


def train(folder: Path, rows: int, rows_in: str = "files") -> Trained:
    """Write such a table and train on it in a process of its own, from the first reading of the
    parts to the verdict.

    Raises:
        RuntimeError: it did not end as it should.
    """
    write(folder, rows, rows_in)
    started, most = time.perf_counter(), 0
    log = folder / "log.txt"
    with log.open("wb") as out:
        training = subprocess.Popen(
            [*_PROCESS, "train", "contract.yaml"], cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
        while training.poll() is None:
            most = max(most, _anonymous(training.pid))
            time.sleep(0.01)
    if training.returncode not in (0, 3):
        raise RuntimeError(log.read_text())
    return Trained(rows, most, time.perf_counter() - started)


def _anonymous(process: int) -> int:
    """Bytes of RssAnon; none once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
