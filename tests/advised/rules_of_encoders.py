"""Contracts of encoders whose columns, images or base do not fit."""

from __future__ import annotations

from advised.cases import Case

_EYE = "model={architecture: eye, weights: none}"
_TWO = "data.exclude=[size, second, third]"

CASES = (
    Case(
        "exclude as well: second, third",
        (),
        "encoder",
        does=("data.exclude=[size, second, third]",),
    ),
    Case(
        "exclude as well: size",
        ("data.exclude=[third]",),
        "encoder",
        does=("data.exclude=[size, third]",),
    ),
    Case(
        "write data.columns: {NAME: {kind: text}} for the text",
        ("-data.columns", "data.exclude=[second, third]"),
        "encoder",
        does=("data.columns={line: {kind: text}}",),
        leaves="no other columns",
    ),
    Case(
        "save the model with its weights, or write model.weights: none",
        (_TWO, "model.architecture=bare"),
        "encoder",
    ),
    Case("change it to 48, or remove it", (_TWO, "model.max_length=500"), "encoder"),
    Case("change it to 2, or remove it", (_TWO, "model.num_labels=5"), "encoder"),
    Case("write data.decoding.channels: grey", (_EYE,), "images"),
    Case(
        "remove data.decoding.size",
        (_EYE, "data.decoding={channels: grey, size: [24, 24]}"),
        "images",
    ),
)
