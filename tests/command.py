"""The command `trainwright` inside the test's process, and a small contract for it to work on."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import typer

from trainwright.cli.main import app, main
from trainwright.core.files import read_json, write_json
from trainwright.tracking.event_log import read_events

if TYPE_CHECKING:
    from trainwright.data.loading.feed import StepBatches
    from trainwright.engine.update.step import OptimizerStep
    from trainwright.tracking.events import StepOutcome

PROCESS = [sys.executable, "-c", "from trainwright.cli.main import main; main()"]
"""The command as a process of its own; its arguments follow."""

MOST_MEGABYTES = (
    "print(next(int(line.split()[1]) for line in open('/proc/self/status')"
    " if line.startswith('VmHWM:')) // 1024)"
)
"""Said in a process of its own: the most memory that it held. The resources that Linux counts for a
process hold its parent's memory too."""

CONTRACT = """\
name: small
task: classification
data:
  path: rows.csv
  target: bought
  positive: "yes"
model:
  kind: boosting
  max_trees: 5
metric:
  name: roc_auc
  target: 0.6
slices:
  - {column: city, floor: 0.1}
"""


def with_layers(hidden: str, contract: str = CONTRACT) -> str:
    """The contract with a network of these layers in the place of the trees."""
    return contract.replace("kind: boosting", "kind: mlp").replace(
        "max_trees: 5", f"hidden: {hidden}"
    )


NETWORK = with_layers("[16, 8]") + "training:\n  num_epochs: 4\n  batch_size: 32\n"
"""The same rows for a network that is trained for 4 epochs."""


def _verbs(command: Any) -> Iterator[tuple[str, ...]]:
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield (name,)
            yield from ((name, *words) for words in _verbs(below))


VERBS = tuple(_verbs(typer.main.get_command(app)))
"""The words of every verb, and of every group of them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def command(*arguments: str | Path) -> Ran:
    """Run the command in this process, from its arguments to its exit code."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["trainwright", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return Ran(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[Path]:
    """The block runs with `folder` as its working folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def tree(folder: Path) -> dict[str, str]:
    """Every path below `folder`, with the hash of its content if it is a file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


def write_rows(path: Path, rows: int = 300, seed: int = 0) -> None:
    """A table of which age and city say much about the target, and one value is missing."""
    random = np.random.default_rng(seed)
    lines = ["age,city,visits,bought"]
    for row in range(rows):
        age, city = int(random.integers(18, 80)), random.choice(["Bern", "Oslo", "Rome"])
        visits = "" if row == 7 else f"{random.normal(10, 3):.2f}"
        likely = (age > 45) + (city == "Oslo") + random.normal(0, 0.6) > 1
        lines.append(f"{age},{city},{visits},{'yes' if likely else 'no'}")
    path.write_text("\n".join(lines) + "\n")


def write_project(folder: Path, contract: str = CONTRACT, rows: int = 300) -> Path:
    """`rows.csv` and `small.yaml` in `folder`; the contract's path."""
    write_rows(folder / "rows.csv", rows)
    path = folder / "small.yaml"
    path.write_text(contract)
    return path


def project_in(folder: Path, contract: str = CONTRACT) -> Iterator[Path]:
    """For a fixture: a project in `folder`, which is the working folder meanwhile."""
    write_project(folder, contract)
    with inside(folder):
        yield folder


def train_one(*settings: str) -> Ran:
    """Train `small.yaml` as the run `one`, with these values in their places."""
    words = [word for setting in settings for word in ("--set", setting)]
    return command("train", "small.yaml", "--run", "one", *words)


def events_of_one(kind: str) -> list[dict[str, Any]]:
    """The events of a kind in the run `one`."""
    events = read_events(Path("runs/one/events.jsonl"))
    return [event for event in events if event["event"] == kind]


def unended(run: Path) -> None:
    """As a process that was killed while it trained leaves its run."""
    (run / "evaluation.json").unlink()
    record = read_json(run / "record.json")
    for entry in (record, record["attempts"][-1]):
        del entry["ending"], entry["ended"]
    write_json(run / "record.json", record)


def stopped_at(step: int, *words: str) -> Ran:
    """Run the command, and get SIGTERM in this step."""
    # Torch is imported where a test has asked for it.
    from trainwright.engine.update.step import OptimizerStep

    take, taken = OptimizerStep.__call__, itertools.count(1)

    def counted(self: OptimizerStep, work: StepBatches) -> StepOutcome:
        if next(taken) == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return take(self, work)

    with mock.patch.object(OptimizerStep, "__call__", counted):
        return command(*words)
