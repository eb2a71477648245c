"""Contracts and tables of images with captions to write that contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from advised.cases import Case
from advised.rules_of_pairs import PICTURES, ROWS

_TOKENIZER = "base/tokenizer.json"
_ASKED = [f"{row},{'' if at == 3 else 'which'}" for at, row in enumerate(ROWS)]
_TABLE = "\n".join([f"{ROWS[0]},asked", *_ASKED[1:]]) + "\n"

_CASES = (
    Case(
        "remove image_from",
        ("model.start=nowhere", "model.image_from=nowhere"),
        leaves="the earlier stage gives the shape",
    ),
    Case(
        "remove model.projector.grid",
        ("model={kind: vision_language, start: nowhere, projector: {grid: 2}}",),
        leaves="there is no bundle of an earlier run",
    ),
    Case(
        "remove adapter",
        (
            "model.image={kind: pretrained, architecture: eye, weights: none}",
            "model.image.adapter={kind: lora}",
            "data.decoding.channels=grey",
        ),
    ),
    Case(
        "write {kind: lora}",
        ("model.decoder.adapter={kind: prompt_tuning}",),
        leaves="an adapter stands beside the weights of a base",
    ),
    Case("remove quantization", ("model.decoder.quantization=nf4",)),
    Case(
        "change it to 36, or write model.projector.grid: 1",
        ("model.decoder.context=6",),
    ),
    Case(
        "add tokenizer: tokenizer.json",
        ("data.vocabulary=tokenizer", "data.prompt=a", "data.end=b"),
        leaves="there is no such tokenizer",
    ),
    Case(
        "write vocabulary: tokenizer, or remove tokenizer",
        (f"data.tokenizer={_TOKENIZER}", "data.prompt=a", "data.end=b"),
    ),
    Case("remove prompt", ('data.prompt=""',)),
    Case("remove end", ('data.end=""',)),
    Case("remove compile", ("training.compute.compile=on",)),
    Case(
        "remove data.prompt, or ask something in every row",
        ('data.prompt=""', "data.question=asked"),
        files={**PICTURES, "pairs.csv": _TABLE},
    ),
)

CASES = tuple(replace(one, base="captions") for one in _CASES)
