"""Memory of a process that makes a row file of generated Parquet, and trains on it in blocks.

Run by itself it prints what it measured as JSON: a process of its own, so that nothing else is in
its memory. `python benchmarks/batches/streaming.py --gigabytes 1 --folder FOLDER`
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.data.loading.feed import Feed
from trainwright.data.loading.row_file import RowFile, parquet_batches, write_row_file
from trainwright.data.sampling.samplers import BlockSampler

COLUMNS = 32
INPUTS = [f"x{at}" for at in range(COLUMNS)]
PART_ROWS, GROUP_ROWS, BATCH = 1_000_000, 100_000, 1024
BLOCK_ROWS = MIXED_BLOCKS = 1024
WARM_UP = 0.05


@dataclass
class Watched:
    """Resident memory over a phase, in MB: how far it rose above what it was after the first
    twentieth."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    @property
    def growth(self) -> float:
        warm = self.seconds[0] + WARM_UP * (self.seconds[-1] - self.seconds[0])
        first = next(at for at, second in enumerate(self.seconds) if second >= warm)
        return max(self.megabytes[first:]) - self.megabytes[first]


def resident_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("Linux says it")


@contextmanager
def watching() -> Iterator[Watched]:
    watched, done = Watched(), threading.Event()

    def watch() -> None:
        while True:
            watched.seconds.append(time.perf_counter())
            watched.megabytes.append(resident_megabytes())
            if done.wait(0.01):
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield watched
    finally:
        done.set()
        thread.join()


def generate(folder: Path, gigabytes: float) -> tuple[int, float]:
    """Parts of random numbers: rows, and gigabytes that they take."""
    rows = written = 0
    draw = np.random.default_rng(0)
    while written < gigabytes * 1e9:
        numbers = draw.standard_normal((COLUMNS, PART_ROWS), dtype=np.float32)
        frame = pl.DataFrame({**dict(zip(INPUTS, numbers, strict=True)), "y": numbers.sum(axis=0)})
        part = folder / f"part-{rows // PART_ROWS:05}.parquet"
        frame.write_parquet(part, row_group_size=GROUP_ROWS, compression="uncompressed")
        rows += PART_ROWS
        written += part.stat().st_size
    return rows, written / 1e9


def stream(folder: Path, rows: int) -> dict[str, float]:
    """One row file, and one epoch of it."""
    file = folder / "rows.bin"
    batches = parquet_batches(sorted(folder.glob("part-*.parquet")))
    with watching() as indexing:
        assert write_row_file(batches, (INPUTS, "y"), file) == rows
    feed = Feed(RowFile(file), BATCH, draws=BlockSampler(rows, BLOCK_ROWS, MIXED_BLOCKS))
    seen, total = 0, 0.0
    with watching() as training:
        while seen < rows:
            work = feed.next_step()
            seen += work.rows
            total += float(work.micro_batches[0][1].sum())
    return {
        "indexing_growth_mb": indexing.growth,
        "indexing_seconds": indexing.seconds[-1] - indexing.seconds[0],
        "epoch_growth_mb": training.growth,
        "epoch_seconds": training.seconds[-1] - training.seconds[0],
        "resident_mb": max(training.megabytes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=0, help="rows of Parquet that is there already")
    given = parser.parse_args()
    if given.rows:
        print(json.dumps(stream(given.folder, given.rows)))
    else:
        rows, gigabytes = generate(given.folder, given.gigabytes)
        print(json.dumps({"rows": rows, "gigabytes": gigabytes}))


if __name__ == "__main__":
    sys.exit(main())
