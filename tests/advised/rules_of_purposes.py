"""Contracts that contradict their purpose."""

from __future__ import annotations

from advised.cases import NUMBERS, ROWS, Case, csv

PARTS = csv(part=[("train", "train", "validation", "test")[at % 4] for at in range(ROWS)])
USE = "serving={latency_ms: 100, megabytes: 500}"
SAID = "training.calibration=none"
PRODUCTION, BENCHMARK = "purpose=production", "purpose=benchmark"
OFFICIAL = "data.split={kind: column, column: part}"
TREES = "model={kind: boosting}"

CASES = (
    Case("remove resume.data_changed", ("purpose=research", "resume.data_changed=record")),
    Case(
        "write for example serving.latency_ms: 100",
        (PRODUCTION, SAID, "serving.megabytes=500"),
    ),
    Case(
        "write for example serving.megabytes: 500",
        (PRODUCTION, SAID, "serving.latency_ms=100"),
    ),
    Case(
        "write training.calibration: auto, or training.calibration: none",
        (PRODUCTION, USE),
        does=(SAID,),
    ),
    Case(
        "write training.calibration: conformal, or training.calibration: none",
        (PRODUCTION, USE, TREES, "metric={name: pinball, quantiles: [0.05, 0.5, 0.95]}"),
        rows=csv(y=NUMBERS),
        does=(SAID,),
    ),
    Case(
        "remove training.refit",
        (BENCHMARK, OFFICIAL, TREES, "training.refit=true"),
        rows=PARTS,
    ),
    Case("write training.seeds: 3", (BENCHMARK, OFFICIAL, TREES), rows=PARTS),
    Case(
        "name the test rows in data.test_path or data.split: {kind: column, column: NAME}, or "
        "remove purpose",
        (BENCHMARK,),
        rows=PARTS,
        does=(OFFICIAL, "-purpose"),
    ),
    Case("remove purpose", ("purpose=adapter",)),
    Case(
        "write model.adapter: {kind: lora}, or remove purpose",
        ("purpose=adapter", "data.exclude=[size, second, third]"),
        "encoder",
    ),
)
