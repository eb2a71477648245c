"""Dividing, dropping and drawing rows in files takes slices of them, not a number for each row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, threading, time
from pathlib import Path
from types import SimpleNamespace
import numpy as np, polars as pl, pyarrow
from pydantic import TypeAdapter
from trainwright.contract.sections.data.split import Split
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.data.data_traits import Sampling
from trainwright.data.base import row_storage as space_module
from trainwright.data.sampling.build_sampler import build_draws
from trainwright.data.split.groups import label_codes
from trainwright.data.split.time_split import moments, time_units
from trainwright.data.quality.actions import act
from trainwright.data.split.random_split import Shares
from trainwright.data.sources.find_source import FileVersion
from trainwright.data.base.row_storage import InFiles, bounds, counted
from trainwright.data.split.split_file import WrittenSplit, with_parts
from trainwright.data.split.splits import divide

# Small slices, so that few rows are many of them.
space_module.SLICE_ROWS = 16_384

def held():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000

def made(rows):
    for start, stop in bounds(rows):
        row = np.arange(start, stop)
        yield pl.DataFrame({
            "row": row, "shop": (row * 7919 % 500).astype(str), "when": row * 48271 % rows / 3,
            "y": (row % 3).astype(str), "part": np.array(["train", "test", "validation"])[row % 3],
        })

def drawn(frame, space):
    prepared = SimpleNamespace(train=SimpleNamespace(frame=frame), space=space)
    found = 0
    for kind, column in (("mixture", "shop"), ("weighted", "when"), ("curriculum", "when")):
        sampling = TypeAdapter(Sampling).validate_python({"kind": kind, "column": column})
        section = SimpleNamespace(sampling=sampling)
        draws = build_draws(section, prepared, 1, frame.height, 0)
        found += len(draws.at(0, 0, 1000))
    assert found == 3000
    return np.full(3, frame.height)

def run(rows):
    kind, space = sys.argv[2], InFiles(Path(sys.argv[1]))
    frame = space.frame(made(rows))
    if kind == "actions":
        columns = {"when": {"range": (9, 1e9)}, "shop": {"pattern": "[0-9]+"}}
        actions = {"pattern_mismatch": "drop", "out_of_range": "drop"}
        section = TableData.model_validate(
            {"path": "a", "target": "y", "columns": columns, "quality": {"actions": actions}})
        acted = act({"train": frame}, counted(rows, space), section, space)
        assert 0 < rows - len(acted.places) < 100
        return np.full(3, len(acted.places))
    if kind == "sampling":
        return drawn(frame, space)
    if kind == "file":
        file = FileVersion("s.csv", "", 0, rows)
        written = WrittenSplit("", frame.select("row", "part"), (file,))
        frame = with_parts(frame, [], written, space)
    written = {
        "group": {"column": "shop"}, "time": {"column": "when", "gap": 9.0},
        "file": {"path": "s.csv"},
    }[kind]
    split = TypeAdapter(Split).validate_python({"kind": kind, **written})
    shares = Shares.of(split, frozenset())
    parts = divide(frame, "y", split, shares, 0, space)
    if kind == "group":
        label_codes([frame["shop"]], space)
    if kind == "time":
        time_units(moments(frame, "when", space), space)
    return np.bincount(parts, minlength=3)

peak, done = 0.0, threading.Event()
def watch():
    global peak
    while not done.is_set():
        peak = max(peak, held())
        time.sleep(0.002)

run(100_000)
before = held()
threading.Thread(target=watch, daemon=True).start()
counts = run(int(sys.argv[3]))
done.set()
print(peak - before, counts[:3].min())
"""
ROWS = 1_500_000
MOST = 0.75 * ROWS * 8 / 1e6
"""MB: less than a number for each row, as what Python holds anyway takes a part of them."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["group", "time", "file", "sampling", "actions"])
def test_less_than_a_number_for_each_row(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    if not Path("/proc/self/status").exists():
        pytest.skip("this needs Linux")
    # What allocators hold back besides differs from process to process: the least of them counts.
    peaks = [measured(kind, tmp_path)]
    if peaks[0] >= MOST:
        peaks.append(measured(kind, tmp_path))
    print(f"{kind}: {min(peaks):.1f} MB at most, of {MOST:.0f}")
    assert min(peaks) < MOST


def measured(kind: str, folder: Path) -> float:
    """MB at most, in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, str(folder), kind, str(ROWS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, fewest = ran.stdout.split()
    assert int(fewest) > 0.05 * ROWS
    return float(peak)
