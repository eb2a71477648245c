"""Images that cannot be read or divided as the contract says."""

from __future__ import annotations

import io
from dataclasses import replace

import polars as pl

from advised.cases import Case
from made_pictures import CLASSES, encoded, picture, samples, tar_bytes

FILES = {f"own/{label}/{name}.png": data for name, label, data in samples(60, 8)}
BIG = {"own/cat/0001.png": encoded(picture(1, 12))}
ROWS = [
    (f"own/{label}/{name}.png", label, f"p{int(name) // 4}") for name, label, _ in samples(60, 8)
]
TABLE = "\n".join(["image,label,patient", *map(",".join, ROWS)]) + "\n"
OWN = "data.path=own"
OF_TABLE = ("data.path=table.csv",)


def frame(**columns: list[object]) -> bytes:
    """A Parquet file."""
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


TWO = [
    (f"{name}.{end}", data if end != "cls" else str(CLASSES.index(label)).encode())
    for name, label, data in samples(30, 8)
    for end in ("left.png", "right.png", "cls")
]

TAGS = ("red;blue", "red", "blue", "green;red", "")
TAGGED = {
    "tagged.csv": "\n".join(
        [
            "image,label",
            *(f"own/{label}/{name}.png,{TAGS[int(name) % 5]}" for name, label, _ in samples(60, 8)),
        ]
    )
    + "\n"
}
LISTS = ("data.path=tagged.csv", 'data.labels={separator: ";", empty: none}')

_CASES = (
    Case(
        "add them, or remove the images; if they have none, write data.labels.empty: none",
        ("data.path=tagged.csv", 'data.labels={separator: ";"}'),
        files={**FILES, **TAGGED},
    ),
    Case(
        "name a table of images in data.path, or remove data.labels",
        (OWN, 'data.labels={separator: ";", empty: none}'),
        does=("data.path=tagged.csv",),
        files={**FILES, **TAGGED},
    ),
    Case(
        'write data.labels: {separator: ";", empty: none}, or remove data.labels',
        ("data.path=tagged.csv", "data.labels={empty: none}"),
        files={**FILES, **TAGGED},
        leaves="has no label",
    ),
    Case(
        'write data.labels: {separator: ";"}, or remove task',
        ("data.path=tagged.csv", "task=multilabel"),
        files={**FILES, **TAGGED},
        leaves="label",
    ),
    Case("remove data.classes", (*LISTS, "data.classes=[red]"), files={**FILES, **TAGGED}),
    Case(
        "remove data.sampling",
        (*LISTS, "data.sampling={kind: balanced}"),
        files={**FILES, **TAGGED},
    ),
    Case(
        "choose resnet, or remove data.labels",
        (*LISTS, "model={kind: neighbours}", "-training"),
        files={**FILES, **TAGGED},
        does=("model={kind: resnet, blocks: [1], width: 4}",),
        leaves="has no label",
    ),
    Case(
        "write training.batch_size: 4, or a model without batch norm",
        (
            "model={kind: resnet, width: 4, blocks: [1, 1, 1, 1], stem: half, norm: batch}",
            "training={num_epochs: 2, batch_size: 1}",
        ),
        does=("training.batch_size=4",),
    ),
    Case(
        "name every class in data.classes, or mend the labels",
        (OWN, "data.classes=[bird, cat]"),
        does=("data.classes=[bird, cat, dog]",),
        files=FILES,
    ),
    Case(
        "set data.decoding.size",
        ("data.path=", "data={kind: images, path: own, test_path: other}"),
        does=("data.decoding.size=[8, 8]",),
        files={
            **FILES,
            **{f"other/{label}/{name}.png": data for name, label, data in samples(12, 12)},
        },
    ),
    Case("set data.decoding.size, for example [8, 8]", (OWN,), files={**FILES, **BIG}),
    Case(
        "copy the file again, or remove it; data.decoding.corrupt: drop leaves such images out",
        (OWN,),
        files={**FILES, "own/cat/0001.png": FILES["own/cat/0001.png"][:80]},
    ),
    Case(
        "shrink it, or raise data.decoding.most_pixels if the file is trusted; "
        "data.decoding.corrupt: drop leaves such images out",
        (OWN, "data.decoding={most_pixels: 100, size: [8, 8]}"),
        does=("data.decoding.most_pixels=1000",),
        files={**FILES, **BIG},
    ),
    Case("lower data.split.folds, or add images", (OWN, "data.split.folds=30"), files=FILES),
    Case(
        "lower folds, or add images of other groups",
        (*OF_TABLE, "data.split.folds=3", "data.fields.group=patient"),
        does=("data.split.folds=2",),
        leaves="too few groups",
        files={
            **FILES,
            "table.csv": "\n".join(
                ["image,label,patient", *(f"{path},{label},{label}" for path, label, _ in ROWS)]
            ),
        },
    ),
    Case(
        "remove folds, or name in data.path what holds all of them",
        (OWN, "data.split.folds=3"),
        does=("-data.split.folds", "data.path=own/train"),
        files={
            path.replace("own/", f"own/{part}/"): data
            for path, data in FILES.items()
            for part in ("train", "test")
        },
    ),
    Case(
        "name another column in data.fields.image",
        ("data.path=table.parquet",),
        does=("data.fields.image=photo",),
        files={
            "table.parquet": frame(
                image=[1] * 60,
                photo=[data for _, _, data in samples(60, 8)],
                label=[label for _, label, _ in samples(60, 8)],
            )
        },
    ),
    Case(
        "set data.fields.image, for example left.png",
        ("data.path=shard.tar",),
        files={"shard.tar": tar_bytes(TWO)},
    ),
    Case(
        "did you mean 'image'?",
        (*OF_TABLE, "data.fields.image=imagee"),
        files={**FILES, "table.csv": TABLE},
    ),
)
CASES = tuple(replace(case, base="images") for case in _CASES)
