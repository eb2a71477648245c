"""Arguments and options shared by several verbs, and what they do when a run is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright.tracking.run_folder import RunFolder

Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of the runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's name or folder.")]
RunOrCopies = Annotated[
    str,
    typer.Argument(
        metavar="RUN|URL", help="A run's name or folder, or s3://BUCKET/FOLDER/RUN: its copies."
    ),
]
NameOfRun = Annotated[str, typer.Option("--run", metavar="NAME", help="The run's name.")]
ToResume = Annotated[bool, typer.Option("--resume", help="Resume an unfinished run.")]
Restarts = Annotated[
    int, typer.Option("--restart", metavar="N", min=0, help="Restart after a crash.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Plan only, without training.")]
Longer = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="AMOUNT",
        help='Give a finished run a new ending: "5 epochs", "200 steps" or "1_000 tokens" more.',
    ),
]
AfterEnding = Annotated[
    Literal["hold", "redraw"],
    typer.Option(
        "--schedule",
        help="With --for: hold the learning rate at its last value, or redraw its schedule "
        "over the whole new length.",
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--from", metavar="RUN@STEP", help="Begin at a checkpoint of another run of this model."
    ),
]
RUNS = Path("runs")

ContractPath = Annotated[Path, typer.Argument(metavar="CONTRACT", help="The contract's file.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value of the contract."),
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Run the code that the contract names (model.kind: imported, a template).",
    ),
]
ZeroShotFile = Annotated[
    Path,
    typer.Option(
        "--zero-shot",
        metavar="CLASSES",
        help="A YAML file of classes and templates: images are classified by a dual encoder.",
    ),
]
NO_CLASSES = Path("-")
Every = Annotated[bool, typer.Option("--all", help="Show every finding, not one line per kind.")]
JudgedRows = Annotated[
    str,
    typer.Argument(metavar="DATA", help="Labelled rows; by default the run's verdict is shown."),
]
Questions = Annotated[
    str, typer.Option(metavar="FILE", help="Let a decoder answer these questions.")
]
Against = Annotated[
    list[str],
    typer.Option("--against", metavar="RUN", help="With --questions: compare with this run."),
]
HarnessFile = Annotated[
    Path,
    typer.Option(
        "--harness", metavar="TASK", help="Run a task of the lm-evaluation-harness on a decoder."
    ),
]
NO_TASK = Path("-")


AllowUnknown = Annotated[
    list[str],
    typer.Option(
        "--allow-unknown",
        metavar="COLUMN",
        help="Accept rows most of which have no value of this column, or none that is known.",
    ),
]
ReadAs = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override how the file is read: data.reading.encoding=cp1252.",
    ),
]


@contextmanager
def naming_damage(*folders: RunFolder) -> Iterator[None]:
    """`verifying_on_error` for a verb, which may end by an exit."""
    from trainwright.doctor.damaged_runs import verifying_on_error

    with verifying_on_error(*folders, passing=(typer.Exit,)):
        yield


def mentions_ranks(contract: Path, overrides: Sequence[str]) -> bool:
    """Does a contract, or an override of it, speak of several processes? Of one that cannot be read
    that is said later."""
    try:
        text = contract.read_bytes()
    except OSError:
        return False
    return b"distributed" in text or any("distributed" in override for override in overrides)
