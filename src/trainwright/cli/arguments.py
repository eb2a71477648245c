"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Where runs are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's name or folder.")]
RUNS = Path("runs")
