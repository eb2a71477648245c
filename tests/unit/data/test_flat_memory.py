"""Reading a table into the cache takes blocks of it, not the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

READ = """
import sys, threading, time
from pathlib import Path
from trainwright.contract.sections.data.sources import Reading
from trainwright.data.sources.find_source import read_source

def held():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000

peak, done, folder = 0.0, threading.Event(), Path(sys.argv[1])
def watch():
    global peak
    while not done.is_set():
        peak = max(peak, held())
        time.sleep(0.005)

before = held()
threading.Thread(target=watch, daemon=True).start()
source = read_source(sys.argv[2], folder, reading=Reading(cache=str(folder / "cache")))
row = source.frame.row(source.frame.height - 1)
done.set()
time.sleep(2)  # the allocator gives back what is free a moment later
print(peak - before, held() - before, source.frame.height)
"""


def megabytes_of_reading(folder: Path, name: str) -> tuple[float, float, int]:
    """The most above the start, what stays, and the rows."""
    reading = [sys.executable, "-c", READ, str(folder), name]
    ran = subprocess.run(reading, capture_output=True, text=True, check=True)
    peak, stays, rows = ran.stdout.split()
    return float(peak), float(stays), int(rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_what_is_held_is_less_than_the_table(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    if not Path("/proc/self/status").exists():
        pytest.skip("this needs Linux")
    rows = 2_000_000
    values = np.random.default_rng(0).random((rows, 20))
    frame = pl.DataFrame(values, schema=[f"x{at}" for at in range(20)])
    if kind == "csv":
        frame.with_columns(pl.all().round(3)).write_csv(tmp_path / "rows.csv")
    else:
        frame.write_parquet(tmp_path / "rows.parquet", compression="lz4")
    del frame, values
    peak, stays, read = megabytes_of_reading(tmp_path, f"rows.{kind}")
    assert read == rows
    (kept,) = (tmp_path / "cache" / "tables").glob("*/rows.arrow")
    print(f"{kind}: {peak:.0f} MB at most, {stays:.0f} MB stay, of {kept.stat().st_size / 1e6:.0f}")
    assert peak < 0.9 * kept.stat().st_size / 1e6
    assert stays < 0.1 * kept.stat().st_size / 1e6
