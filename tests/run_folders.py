"""Run folders made through the real stages, up to the model: its scores are drawn at random."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.files import Json, write_json
from trainwright.core.progress import Progress
from trainwright.data.base.inputs import Floats
from trainwright.data.columns.class_target import Classes
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.verdict import judge
from trainwright.planner.plan import Plan, plan
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Ended, Resumed, Saved, StepKept, StepOutcome, Validated
from trainwright.tracking.record import Ending, RunFacts, RunRecord
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import SignalRecorder

MARKUP = '<mark class="x">bold</mark>\u2069$x^2$ {{ 7*7 }} mailto:a@example.org'


@dataclass(frozen=True)
class Wanted:
    """`labels` empty: numbers are predicted."""

    labels: tuple[str, ...] = ("no", "yes")
    model: str = "{kind: boosting}"
    rows: int = 900
    slice_name: str = "old"
    column: str = "kind"
    skill: float = 1.2
    target: float = 0.7
    note: str = "look"


def build_run(root: Path, wanted: Wanted) -> RunFolder:
    write_rows(root / "rows.csv", wanted)
    contract = root / "contract.yaml"
    contract.write_text(contract_text(wanted), encoding="utf-8")
    folder = RunFolder.create(root / "runs", "income-1")
    folder.contract.write_bytes(contract.read_bytes())
    document = read_contract(contract)
    raw = read_table(document.contract.data, root)
    planned = plan(document, raw.facts, DeviceFacts())
    prepared = prepare_table(
        raw, planned.contract.data, "classification" if wanted.labels else "regression", 0
    )
    write_json(folder.plan, planned.to_json())
    manifest = {"version": prepared.version, "facts": raw.facts.to_json(), "notes": list(raw.notes)}
    write_json(folder.data / "manifest.json", manifest)
    write_json(folder.data / "split.json", prepared.split.to_json())
    write_json(folder.evaluation, evaluation_json(planned, prepared, wanted))
    command = ["trainwright", "train", "contract.yaml"]
    facts = RunFacts(command, root, prepared.version, {"all": 0}, {"torch": 2})
    RunRecord.start(folder.record, facts).finish(Ending("finished", "done", "met", 0))
    return folder


def contract_text(wanted: Wanted) -> str:
    name = wanted.slice_name.replace("'", "''")
    metric = {0: "rmse", 2: "roc_auc"}.get(len(wanted.labels), "accuracy")
    return f"""name: income
data: {{path: rows.csv, target: label, exclude: [city]}}
model: {wanted.model}
metric: {{name: {metric}, target: {wanted.target}, resamples: 200}}
slices:
  - {{where: age > 60, name: '{name}', floor: {wanted.target}}}
  - {{column: sex, floor: {wanted.target}, metric: {metric}}}
  - {{column: {wanted.column!r}}}
"""


def write_rows(path: Path, wanted: Wanted) -> None:
    draw = random.Random(0)
    rows = range(wanted.rows)
    columns: dict[str, list[object]] = {
        "age": [draw.randint(18, 90) for _ in rows],
        "hours": [draw.gauss(40, 9) if draw.random() > 0.1 else None for _ in rows],
        wanted.column: [draw.choice(["a", "b", "c"]) for _ in rows],
        "sex": [draw.choice(["Female", "Male"]) for _ in rows],
        "city": [draw.choice(["Bern", "Rome"]) for _ in rows],
        "empty": [None for _ in rows],
        "label": [
            wanted.labels[draw.randrange(len(wanted.labels))]
            if wanted.labels
            else draw.gauss(10, 4)
            for _ in rows
        ],
    }
    pl.DataFrame(columns, strict=False).write_csv(path)


def evaluation_json(planned: Plan, prepared: Prepared, wanted: Wanted) -> Json:
    part, target = prepared.test, prepared.target
    contract = planned.contract
    baselines = {"dummy": scores_of(prepared, 0.0), "linear": scores_of(prepared, wanted.skill / 2)}
    scored = Scored(
        part, target, scores_of(prepared, wanted.skill), baselines, notes=(wanted.note,)
    )
    evaluation = evaluate(scored, contract.metric, contract.slices, 0)
    return {
        "evaluation": evaluation.to_json(),
        "verdict": judge(contract.metric, contract.slices, evaluation).to_json(),
        "seconds": {"read": 0.3, "prepare": 0.6, "train": 12.4, "baselines": 2.0, "judge": 1.1},
        "opened": [{"time": "2026-01-02T03:04:05Z", "why": "verdict"}],
        "labels": list(target.names) if isinstance(target, Classes) else [],
    }


def scores_of(prepared: Prepared, skill: float) -> Floats:
    """Scores that know the truth as well as `skill` says; 0 knows nothing."""
    generator = np.random.default_rng(1)
    truth = prepared.test.target
    if not isinstance(prepared.target, Classes):
        known = skill / (1 + skill)
        noise = generator.normal(0, 1.0, len(truth)) * (skill > 0)
        return np.asarray(truth * known + (1 - known) * truth.mean() + noise)[:, None]
    classes = prepared.target.outputs
    logits = generator.normal(0, 1, (len(truth), classes)) * (skill > 0)
    logits[np.arange(len(truth)), truth] += skill
    odds = np.exp(logits)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def add_training(folder: RunFolder, steps: int = 300) -> None:
    """The curves of a network that was resumed at two thirds of its steps."""
    draw = random.Random(1)
    log, signals = EventLog(folder.events), SignalRecorder(folder.signals, 50)
    for step in range(1, steps + 1):
        progress = Progress(step, step, step * 64, step // 100)
        loss = 0.3 + 2 / (1 + step / 20) + draw.gauss(0, 0.04)
        norm = 5 / (1 + step / 10) + abs(draw.gauss(0, 0.1)) + 0.01
        rate = 1e-3 * min(1.0, step / 30) * (1 - step / (steps + 1))
        outcome = StepOutcome(loss, rate, norm, 0.0, 0.01, 0.001, 64, step * 64, step // 100)
        signals.observe(StepKept(progress, outcome))
        if step % (steps // 10) == 0:
            values = {"loss": loss, "roc_auc": 0.9 - 0.3 / step**0.5}
            for event in (
                Validated(progress, values, 0.2, True),
                Saved(progress, f"step-{step:010d}", 0.1, 1000, 0.9),
            ):
                log.observe(event)
                signals.observe(event)
        if step == steps * 2 // 3:
            resumed = Resumed(progress, f"step-{step:010d}", ("step-9999999999",))
            log.observe(resumed)
            signals.observe(resumed)
    ended = Ended(progress, "finished", "all epochs are done")
    log.observe(ended)
    signals.observe(ended)


def facts(source: Path, *command: str) -> RunFacts:
    return RunFacts(command or ("trainwright", "train"), source, "data-1", {"seed": 7}, {"omp": 1})
