"""Contracts with a key, a word or a type that does not belong there."""

from __future__ import annotations

from advised.cases import Case

CASES = (
    Case(
        "did you mean data.exclude? Move it there",
        ("exclude=[x]",),
        does=(("-exclude", "data.exclude=[x]"),),
    ),
    Case("did you mean exclude?", ("data.exclud=[x]",)),
    Case(
        "did you mean training.num_epochs?",
        ("num_epoch=3",),
        "network",
        does=(("-num_epoch", "training.num_epochs=3"),),
    ),
    Case("remove it, or choose one of the known keys", ("quux=3",)),
    Case("remove it: it belongs to another kind of model (mlp)", ("model.hidden=[3]",)),
    Case(
        "add for example:\n        model:\n          kind: boosting",
        ("-model",),
        does=("model.kind=boosting",),
    ),
    Case("add for example: kind: boosting", ("model={max_trees: 5}",)),
    Case(
        "add for example:\n        data:\n          path: data.csv",
        ("-data",),
        does=("data.path=data.csv",),
        leaves="no such file",
    ),
    Case("add column", ("data.split={kind: group}",), does=("data.split.column=z",)),
    Case("add for example: kind: ema", ("training.average={}",), "network"),
    Case("did you mean boosting?", ("model.kind=bosting",)),
    Case("choose one of them", ("model.kind=quux",), does=("model.kind=boosting",)),
    Case("write {kind: boosting}", ("model=boosting",)),
    Case("put it in brackets: [x]", ("data.exclude=x",)),
    Case("write true or false", ("data.shuffle='maybe'",), "network", does=("data.shuffle=true",)),
    Case("remove the quotes: 32", ("training.batch_size='32'",), "network"),
    Case("did you mean classification?", ("task=clasification",)),
    Case(
        "write one of: auto, classification, regression, multilabel, ranking, retrieval, "
        "generation, forecasting",
        ("task=quux",),
        does=("task=classification",),
    ),
    Case("write 32", ("training.batch_size=32.0",), "network"),
    Case(
        "write auto, or a whole number of at least 1",
        ("training.num_epochs=0",),
        "network",
        does=("training.num_epochs=1",),
    ),
    Case('put it in quotes: "3"', ("name=3",)),
    Case("write off", ("training.early_stopping=false",), "network"),
    Case(
        'write text, in quotes if it looks like nothing (null, ~), or "" for none',
        ("name=",),
        does=("name=few",),
    ),
    Case(
        "write text, or a list, each item text, or remove the key",
        ("data.target=",),
        does=("data.target=y",),
    ),
    Case(
        "write auto, or a whole number of at least 1, or remove the key",
        ("training.batch_size=",),
        "network",
        does=("training.batch_size=auto", "training.batch_size=1", "-training.batch_size"),
    ),
    Case(
        "write a mapping with one of: "
        "table, images, tokens, series, chats, preferences, pairs, text_pairs, captions",
        ("data=3",),
        does=("data={kind: table, path: rows.csv, target: y}",),
    ),
)
