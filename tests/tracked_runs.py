"""Run folders whose files the recorders of a training wrote, without a training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.contract.sections.run_settings import Tracking
from trainwright.core.files import Json, write_json, write_text
from trainwright.core.progress import Progress
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import (
    Event,
    OwnNumbers,
    Resumed,
    RolledBack,
    StepKept,
    StepOutcome,
    Validated,
)
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import SignalRecorder, read_signals
from trainwright.tracking.sinks.sender import send_run
from trainwright.tracking.sinks.training_facts import TrackedTraining
from trainwright.tracking.telemetry_file import WindowFile, WindowLine


@dataclass
class RecordedRun:
    """A run at work: each attempt of it has recorders of its own, in the order of a training."""

    folder: RunFolder
    window: int = 5
    step: int = 0
    made: int = 0
    loss: float = 0.0
    again: dict[int, float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin_attempt()

    def begin_attempt(self) -> None:
        self._signals = SignalRecorder(self.folder.signals, self.window)
        self._windows = WindowFile(self.folder.windows)
        self._events = EventLog(self.folder.events)

    def tell(self, event: Event) -> None:
        if isinstance(event, Resumed | RolledBack):
            self._windows.cut(event.progress.step)
        self._signals.observe(event)
        self._events.observe(event)

    def train(self, steps: int, losses: Mapping[int, float] | None = None) -> None:
        for _ in range(steps):
            self.step += 1
            self.made += 1
            loss = (losses or {}).get(self.step, self.again.pop(self.step, 1 / self.made))
            self.loss = loss
            outcome = StepOutcome(
                loss=loss,
                learning_rate=1e-3,
                gradient_norm=2.0,
                found_nonfinite=0.0,
                step_seconds=1e-4,
                data_seconds=1e-5,
                rows=8,
                samples=8 * self.step,
                epoch=0,
                own=OwnNumbers(("share (a)",), (0.25,), (1,)),
            )
            self.tell(StepKept(Progress(self.step), outcome))
            if self.step % 10 == 0:
                sizes = {"gradient_sizes/-5": 0.75, "gradient_sizes/zero": 0.25}
                numbers = {"weight_norm/body.0": loss, **sizes}
                self._windows.append(WindowLine(self.step, 0, 10, 0.1, numbers))

    def validate(self) -> None:
        self.tell(Validated(Progress(self.step), {"val_loss": self.loss}, 0.1, True))

    def save(self) -> None:
        self._windows.sync()
        self._signals.flush()

    def roll_back(self, step: int) -> None:
        before, self.step = self.step, step
        self.again.clear()
        self.tell(RolledBack(Progress(step), before, "non-finite"))

    def resume(self, step: int) -> None:
        """In a new process, which repeats the steps behind `step` with the same numbers."""
        self.begin_attempt()
        self.again |= {made: loss for made, loss in signals_of(self).items() if made > step}
        self.step = step
        self.tell(Resumed(Progress(step), f"step-{step}"))

    def end(self, state: str = "finished", verdict: str = "met") -> None:
        self.save()
        ending = {"state": state, "reason": f"all {self.step} steps", "verdict": verdict}
        write_record(self.folder, {"ended": "2026-01-31T12:00:00.000Z", "ending": ending})
        write_json(self.folder.evaluation, EVALUATION)
        write_text(self.folder.report, "<html>report</html>")

    def send(self, kind: str, seconds: float = 60.0, **changed: Json) -> bool:
        """Send what there is, as the process of a sink does; what it says is in `said`."""

        def say(label: str, text: str) -> None:
            self.said.append(f"{label}: {text}")

        training = TrackedTraining(self.folder, changed=changed)
        return send_run(training, kind, say, lambda _seconds: True, seconds)


EVALUATION: Json = {
    "evaluation": {
        "part": "test",
        "metrics": {"roc_auc": {"value": 0.9, "low": 0.88, "high": 0.92}},
        "slices": [{"name": "sex=F", "metric": "roc_auc", "value": 0.8, "low": None, "high": None}],
        "baselines": {"dummy": {"roc_auc": {"value": 0.5, "low": 0.5, "high": 0.5}}},
    },
    "by_fold": {"folds": []},
}


def write_record(folder: RunFolder, added: Mapping[str, Json]) -> None:
    git = {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False}
    record = {"git": git, "data_version": "d" * 64, "started": "2026-01-31T11:00:00.000Z"}
    write_json(folder.record, {**record, **added})


def begin_run(
    root: Path, name: str = "run", *, identity: str = "", **tracking: Json
) -> RecordedRun:
    folder = RunFolder.create(root, name)
    contract = {
        "name": "small",
        "model": {"kind": "mlp", "hidden": [8, 4], "note": "x" * 7000},
        "training": {"seed": 3, "clip": True, "rate": 0.001},
        "tracking": Tracking.model_validate(tracking).model_dump(mode="json"),
    }
    write_json(
        folder.plan,
        {
            "contract": contract,
            "hash": "f" * 64,
            "identity": {"run": identity or f"{name:0<32}"},
            "contract_folder": str(root),
        },
    )
    write_text(folder.contract, "name: small\n")
    write_record(folder, {})
    return RecordedRun(folder)


def finite(values: Iterable[float]) -> Sequence[float]:
    return [value for value in values if math.isfinite(value)]


def signals_of(run: RecordedRun, name: str = "loss") -> dict[int, float]:
    columns = read_signals(run.folder.signals)
    return dict(zip(map(int, columns["step"]), columns[name], strict=True))
