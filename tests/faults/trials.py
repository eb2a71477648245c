"""Canary workloads, what an unbroken run of each leaves, and the oracles for a broken one.

O1 every component of the final state has the bits of the unbroken run; O2 steps made twice are
identical and none is skipped or doubled; O3 no more than the checkpoint interval is lost; O4 an
independent check of the run folder finds nothing broken; O5 nothing is left behind; O6 each wait
has a deadline (in `zygote`).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from command import write_rows
from comparing import differences
from faults.journal import Attempt, read_journal
from faults.zygote import Child, Death, Zygote
from made_data import make_images, make_text
from trainwright.checkpoint.files.file_entry import read_file
from trainwright.checkpoint.files.manifest import read_manifest, read_parts
from trainwright.core.faultpoints import FAULT_POINTS
from trainwright.core.files import read_json
from trainwright.doctor.verify_run import verify_run
from trainwright.tracking.event_log import read_events
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import read_signals

INTERVAL = 5
NOT_OF_THE_STATE = ("clock",)
NOT_OF_A_STEP = ("step_seconds", "data_seconds", "memory_bytes", "time")

TABLE = """
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: mlp, hidden: [8, 8], dropout: 0.2}
training:
  num_epochs: 5
  batch_size: 16
  average: {kind: ema, decay: 0.9}
  early_stopping: {patience: 2, metric: val_loss}
  optimizer: {learning_rate: 0.02}
  checkpointing: {save_every_n_steps: 5, keep_top_k: 2}
metric: {name: roc_auc, target: 0.6, resamples: 100}
"""
TEXT = """
data: {kind: tokens, path: rows.txt, validation: 0.1, test: 0.1}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}
training:
  num_epochs: 3
  batch_size: 4
  gradient_accumulation_steps: 3
  mixed_precision: bf16
  early_stopping: off
  optimizer: {learning_rate: 0.01}
  checkpointing: {save_every_n_steps: 5, keep_top_k: 2}
metric: {target: dummy, resamples: 100}
"""
IMAGES = """
data:
  kind: images
  path: pictures
  classes: [low, middle, high]
  validation: 0.2
  augment: {flip: true, crop: 1, cutout: 2, mixup: 0.2, cutmix: 1.0}
model: {kind: resnet, width: 4, blocks: [1], norm: batch, stochastic_depth: 0.1}
training:
  num_epochs: 3
  batch_size: 8
  early_stopping: off
  checkpointing: {save_every_n_steps: 5, keep_top_k: 2}
metric: {target: 0.8, resamples: 100}
"""


@dataclass(frozen=True)
class Canary:
    """A small workload through a real contract."""

    name: str
    contract: str
    make_data: Callable[[Path], object]

    def lay(self, folder: Path) -> Path:
        """Contract and data in a new folder."""
        folder.mkdir(parents=True)
        (folder / "work.yaml").write_text(f"name: work{self.contract}")
        self.make_data(folder)
        return folder


CANARIES = {
    canary.name: canary
    for canary in (
        Canary("table", TABLE, lambda folder: write_rows(folder / "rows.csv", 150)),
        Canary("text", TEXT, lambda folder: make_text(folder / "rows.txt", 120)),
        Canary("images", IMAGES, lambda folder: make_images(folder / "pictures", 80, 30, 8)),
    )
}
START = ("train", "work.yaml", "--run", "one")


@dataclass(frozen=True)
class Reference:
    """What an unbroken run leaves."""

    state: Mapping[str, str]
    steps: Mapping[int, str]
    points: Mapping[str, int]
    """How often each fault point was reached."""
    seconds: float
    """From the fork to the end."""

    def nth(self, point: str, draw: random.Random) -> int:
        """One of the times that a point is reached."""
        return draw.randint(1, self.points[point])


@dataclass
class Trial:
    """A run that is broken again and again."""

    zygote: Zygote
    canary: Canary
    folder: Path
    words: tuple[str, ...] = ()
    how: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        self.canary.lay(self.folder)

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return RunFolder(self.folder / "runs" / "one")

    def start(self, fault: str = "") -> Child:
        """A process that begins the run, or goes on with it."""
        begun = self.run.path.exists() and any(self.run.path.iterdir())
        words = [*START, *self.words, *(["--resume"] if begun else [])]
        journal = str(self.folder / "journal.txt")
        how = dict(self.how or {})
        return self.zygote.start(words, self.folder, fault=fault, journal=journal, **how)  # type: ignore[arg-type]

    def once(self, fault: str = "") -> Death:
        """Start, and wait for the end."""
        return self.zygote.wait(self.start(fault))

    def dies(self, fault: str) -> None:
        """Start, and be killed."""
        death = self.once(fault)
        assert death.code == -9, death.output

    def ends_well(self) -> None:
        """Go on without a fault, to the verdict."""
        death = self.once()
        assert death.code in (0, 3), death.output

    def attempts(self) -> list[Attempt]:
        """What each process saw."""
        return read_journal(self.folder / "journal.txt")

    def state(self) -> dict[str, str]:
        """A hash for each component of what the finished run leaves."""
        return state_of(self.run)

    def check(self, reference: Reference, lost: int = INTERVAL, aside: int = 0) -> None:
        """Every oracle. No more than `lost` steps were made in vain at a time, and `aside`
        checkpoints were set aside."""
        other = differences(self.state(), reference.state)  # O1
        assert not other, other
        check_steps(self.attempts(), reference.steps, lost)  # O2, O3
        wrong = [one for one in verify_run(self.run) if one.status != "whole"]  # O4
        assert len(wrong) == aside, wrong
        assert all(one.status == "note" for one in wrong), wrong
        left = left_behind(self.folder)  # O5
        assert not left, left


def lost_steps(attempts: list[Attempt]) -> list[int]:
    """For each process but the first that trained, how many steps before it were made in vain."""
    lost = []
    last = 0
    for attempt in (attempt for attempt in attempts if attempt.trains):
        lost.append(last - attempt.resumed_at)
        last = max(attempt.steps, default=attempt.resumed_at)
    return lost[1:]


def check_steps(attempts: list[Attempt], reference: Mapping[int, str], most_lost: int) -> None:
    """Steps made twice are identical, none is skipped or doubled, little is lost."""
    for attempt in attempts:
        wanted = range(attempt.resumed_at + 1, attempt.resumed_at + 1 + len(attempt.steps))
        assert list(attempt.steps) == list(wanted), "a process makes its steps in order"
        for step, line in attempt.steps.items():
            assert line == reference[step], f"step {step} is another one"
    made = {step for attempt in attempts for step in attempt.steps}
    assert made == set(reference)
    assert all(0 <= lost <= most_lost for lost in lost_steps(attempts)), lost_steps(attempts)


def state_of(run: RunFolder) -> dict[str, str]:
    """A hash for each component of what a finished run leaves, by name."""
    newest = run.checkpoints / read_json(run.checkpoints / "pointers.json")["newest"]
    read = partial(read_file, newest)
    manifest, _ = read_manifest(read)
    found = {"step": str(manifest.step), "score": str(manifest.score)}
    for part, snapshot in read_parts(read, manifest).items():
        if part in NOT_OF_THE_STATE:
            continue
        found[f"{part} values"] = hash_of(snapshot.packed_values)
        for name, tensor in snapshot.tensors.items():
            bits = tensor.reshape(-1).view(-1).numpy().tobytes() if tensor.numel() else b""
            found[f"{part} {name}"] = hash_of([str(tensor.dtype), list(tensor.shape), bits.hex()])
    for path in sorted(run.bundle.iterdir()):
        found[f"bundle {path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    # `about` names the run, and the contract the place of its copies: both are other ones.
    own = {"about": "", "contract_hash": ""}
    found["bundle bundle.json"] = hash_of({**read_json(run.bundle / "bundle.json"), **own})
    judged = read_json(run.evaluation)
    found["evaluation"] = hash_of([judged["evaluation"], judged["verdict"]])
    for name, values in read_signals(run.signals).items():
        if name not in NOT_OF_A_STEP:
            found[f"signal {name}"] = hash_of([value.hex() for value in values])
    for step, values in validations(run).items():
        found[f"validation {step}"] = hash_of(values)
    return found


def validations(run: RunFolder) -> dict[int, object]:
    """The values of each validation; one that was made twice must be the same twice."""
    seen: dict[int, object] = {}
    for event in read_events(run.events):
        if event["event"] == "validated":
            assert seen.setdefault(event["step"], event["values"]) == event["values"]
    return seen


def left_behind(folder: Path) -> list[str]:
    """Unfinished files below a folder."""
    return [str(path) for path in folder.rglob("*") if path.name.startswith((".tmp", "replaced-"))]


def hash_of(value: object) -> str:
    """A short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


COUNTING = ",".join(f"{point}:999999999:raise" for point in FAULT_POINTS)
