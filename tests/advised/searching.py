"""Commands on runs of retrievals that refuse, and the command that their fix names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advised.cases import CONTRACTS, asked
from advised.commands import Refused
from command import command, inside
from made_pictures import write_pairs


def make_searching(folder: Path) -> Path:
    """A project with a run of text pairs, `asks`, one of another seed, `again`, and one of images
    with captions, `shows`."""
    (folder / "asked.csv").write_text(asked())
    write_pairs(folder)
    with inside(folder):
        for run, base, seed in (
            ("asks", "text_pairs", 0),
            ("again", "text_pairs", 1),
            ("shows", "pairs", 0),
        ):
            contract: dict[str, Any] = {**CONTRACTS[base], "name": run, "task": "retrieval"}
            contract["metric"] = {"target": "dummy", "resamples": 100}
            Path(f"{run}.yaml").write_text(json.dumps({**contract, "seed": seed}))
            ran = command("train", f"{run}.yaml", "--run", run)
            assert ran.code in (0, 3), ran.err
            assert (
                command("index", run, "asked.csv" if base == "text_pairs" else "pairs.csv").code
                == 0
            )
    return folder


def damaged(_: Path) -> None:
    rows = Path("runs/asks/index/rows.parquet")
    rows.write_bytes(rows.read_bytes()[:-1] + b"x")


CASES = (
    Refused(
        "write --as passages",
        "index asks asked.csv --as texts",
        ("index asks asked.csv --as passages",),
    ),
    Refused(
        "write --as texts",
        "index shows pairs.csv --as passages",
        ("index shows pairs.csv --as texts",),
    ),
    Refused(
        'trainwright search RUN "a red circle"',
        "search asks",
        ('search asks "a red circle"',),
    ),
    Refused(
        'trainwright search RUN "a red circle"',
        'search shows "low 3" --from pairs.csv',
        ('search shows "a red circle"', "search shows --from pairs.csv"),
    ),
    Refused(
        "build it again: trainwright index RUN DATA",
        "search asks thing --index runs/again/index",
        ("index asks asked.csv -o runs/again/index", "search asks thing --index runs/again/index"),
    ),
    Refused(
        "build it again: trainwright index RUN DATA",
        "search asks thing",
        ("index asks asked.csv", "search asks thing"),
        damaged,
    ),
    Refused(
        "build it again: trainwright index RUN DATA",
        "search asks thing --index away",
        ("index asks asked.csv -o away", "search asks thing --index away"),
    ),
)
