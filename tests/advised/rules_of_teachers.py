"""Contracts whose teacher cannot teach."""

from __future__ import annotations

from advised.cases import NUMBERS, Case, csv

TEACHER = "training.teacher={bundle: teacher}"

CASES = (
    Case("remove training.teacher", (TEACHER,), "pairs"),
    Case(
        "remove training.teacher, or training.ramps.sequence",
        (TEACHER, "training.ramps.sequence={start: 4}"),
        "text",
        leaves="the teacher cannot be used",
    ),
    Case(
        "remove training.teacher.top_k",
        ("training.teacher={bundle: teacher, top_k: 4}",),
        leaves="the teacher cannot be used",
    ),
    Case(
        "remove training.teacher.hidden, or change model.kind",
        ("training.teacher={bundle: teacher, hidden: {weight: 0.5}}",),
        leaves="the teacher cannot be used",
    ),
    Case(
        "remove training.compute.compile, or training.teacher.hidden",
        (
            "training.teacher={bundle: teacher, hidden: {weight: 0.5}}",
            "training.compute.compile=on",
        ),
        "network",
        leaves="the teacher cannot be used",
    ),
    Case(
        "remove training.teacher.hidden",
        ("training.teacher={bundle: teacher, hidden: {weight: 0.5}}",),
        "text",
        leaves="the teacher cannot be used",
    ),
    Case("remove training.teacher, or data.augment", (TEACHER, "data.augment.mixup=0.2"), "images"),
    Case(
        "remove training.teacher, or change model.kind",
        ("training={teacher: {bundle: teacher}, threshold: 0.4}", "model={kind: neighbours}"),
    ),
    Case(
        "remove training.teacher, or training.loss",
        (TEACHER, "training.loss={name: focal}"),
        "network",
    ),
    Case("remove training.teacher, or training.refit", (TEACHER, "training.refit=true")),
    Case(
        "remove training.teacher, or metric.quantiles",
        (TEACHER, "metric.quantiles=[0.1, 0.5, 0.9]"),
        "network",
        rows=csv(y=NUMBERS),
    ),
)
