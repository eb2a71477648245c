"""`runs checkpoints`, `runs pin` and `runs unpin`."""

from __future__ import annotations

import sys
from pathlib import Path

from trainwright.checkpoint.keeping.score import NotScored
from trainwright.checkpoint.storages.list_checkpoints import Listed
from trainwright.cli.output.damage import naming_damage
from trainwright.cli.output.render import show_json, show_table
from trainwright.core.formatting import show_bytes, show_number
from trainwright.run.after.pin_checkpoints import checkpoints_of, pin_checkpoint, unpin_checkpoint
from trainwright.run.folder.planned_contract import find_run


def show_checkpoints(run: str, runs: Path, *, as_json: bool) -> None:
    """All checkpoints of a run."""
    folder = find_run(run, runs)
    with naming_damage(folder):
        listed = checkpoints_of(folder)
    if as_json:
        show_json([one.to_json() for one in listed])
        return
    if not listed:
        sys.stdout.write(f"no checkpoints in {folder.name}\n")
        return
    show_table(("step", "score", "size", "kept as"), [_row(one) for one in listed])


def keep(run: str, runs: Path, step: int) -> None:
    """Pin a checkpoint."""
    pin_checkpoint(find_run(run, runs), step)
    sys.stdout.write(f"step {step} stays\n")


def let_go(run: str, runs: Path, step: int) -> None:
    """Unpin a checkpoint."""
    unpin_checkpoint(find_run(run, runs), step)
    sys.stdout.write(f"step {step} is no longer pinned\n")


def _row(one: Listed) -> tuple[str, str, str, str]:
    score = "" if isinstance(one.score, NotScored) else show_number(one.score)
    marks = {
        "newest": one.newest,
        "best": one.best,
        "pinned": one.pinned,
        "abandoned by a rollback": one.abandoned,
    }
    kept_as = ", ".join(mark for mark, holds in marks.items() if holds)
    return f"{one.step:,}", score, show_bytes(one.size_bytes), kept_as
