"""Contracts and tables of image-text pairs that contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from advised.cases import Case
from made_pictures import encoded, pair_rows, picture

PICTURES = {f"shown/{at:02d}.png": encoded(picture(at, 8)) for at in range(60)}
ROWS = pair_rows()
TABLE = "\n".join(ROWS) + "\n"
WHOLE = {**PICTURES, "pairs.csv": TABLE}
BIG = {f"large/{at:02d}.png": encoded(picture(at, 12)) for at in range(12)}

_CASES = (
    Case(
        "remove data.tokens",
        ("model.text={kind: pretrained, architecture: base}", "data.tokens.unit=characters"),
    ),
    Case(
        "remove num_labels",
        ("model.text={kind: pretrained, architecture: base, num_labels: 3}",),
    ),
    Case(
        "change it to 48, or remove it",
        ("model.text={kind: pretrained, architecture: base, max_length: 900}",),
    ),
    Case("write norm: group", ("model.image.norm=batch",)),
    Case("change it to 8", ("model.image.pool_grid=9",)),
    Case("change heads to 2", ("model.text={kind: transformer, width: 16, heads: 3}",)),
    Case("remove mixup", ("data.augment.mixup=0.2",)),
    Case("name the column of each", ("data.group=caption",), does=("data.group=image_group",)),
    Case("remove update", ("training.memory.update=in_backward", "training.gradient_clipping=off")),
    Case(
        "change it, or remove training.loss", ("training.loss.name=mse",), does=("-training.loss",)
    ),
    Case(
        "write a smaller size",
        ("data.decoding.size=[90000, 90000]",),
        does=("data.decoding.size=[8, 8]",),
    ),
    Case(
        "write such a table, and name it",
        ("data.path=shown",),
        does=("data.path=pairs.csv",),
        files=WHOLE,
    ),
    Case(
        "add the captions, or remove these rows",
        files={**PICTURES, "pairs.csv": TABLE + "shown/00.png,,a\n", "whole.csv": TABLE},
        does=("data.path=whole.csv",),
    ),
    Case("did you mean 'caption'?", ("data.caption=captionn",)),
    Case(
        "set data.decoding.size",
        ("data.test_path=other.csv",),
        does=("data.decoding.size=[8, 8]",),
        files={
            **WHOLE,
            **BIG,
            "other.csv": "\n".join(
                ["image,caption,image_group", *(f"{name},a large one,b" for name in BIG)]
            ),
        },
    ),
    Case(
        "give one file in data.path and split it by group",
        ("data.test_path=other.csv", "data.group=image_group"),
        does=("-data.test_path",),
        files={**WHOLE, "other.csv": "\n".join(ROWS[:12]) + "\n"},
    ),
)
CASES = tuple(replace(case, base="pairs") for case in _CASES)
