"""Contracts of texts that contradict themselves."""

from __future__ import annotations

import json
from dataclasses import replace

from advised.cases import ROWS, Case, csv

PADDED = 'data={kind: tokens, path: notes.txt, windows: padded, separator: "\\n\\n"}'
COMPILED = "training.compute.compile=on"

SOURCES = {f"texts/{name}/{at}.txt": f"{name} " * 50 for name in ("old", "new") for at in range(20)}
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
WORDS = {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2}, "unk_token": "c"}
NONE = dict.fromkeys(("truncation", "padding", "pre_tokenizer", "post_processor", "decoder"))
DOUBLING = json.dumps(
    {
        "version": "1.0",
        **NONE,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 40},
        "model": WORDS,
    }
)
"""A tokenizer of forty rules that each double a text."""

TENSOR = "distributed={strategy: ddp, num_gpus: 2, tensor: 2}"
STAGES = "distributed={strategy: ddp, num_gpus: 2, pipeline: 2}"

_CASES = (
    Case("change strategy to ddp", ("distributed.tensor=2",), leaves="number of processes"),
    Case("change it to 2", (TENSOR, "distributed.num_gpus=3")),
    Case(
        "change it to 2, or remove distributed.tensor",
        (TENSOR, "model.heads=2", "model.kv_heads=1", "model.width=16"),
        does=("model.kv_heads=2", "-distributed.tensor"),
    ),
    Case(
        "change it to 2",
        (
            STAGES,
            "model.tied=false",
            "model.layers=2",
            "distributed.pipeline=4",
            "distributed.num_gpus=4",
        ),
    ),
    Case("change it to false, or remove distributed.pipeline", (STAGES,)),
    Case(
        "change it, or remove distributed.pipeline",
        (STAGES, "model.tied=false", "training.checkpointing.asynchronous=true"),
        does=("training.checkpointing.asynchronous=false",),
    ),
    Case(
        "change it, or remove distributed.tensor",
        (TENSOR, "training.optimizer={name: muon}"),
        does=("training.optimizer.name=adamw",),
    ),
    Case(
        "write training.optimizer.name: adamw, or remove model.init",
        ("model.init={kind: mup, base_width: 8}", "training.optimizer={name: lion}"),
    ),
    Case("add tokenizer: tokenizer.json", ("data.vocabulary=tokenizer",), leaves="tokenizer"),
    Case(
        "write vocabulary: tokenizer, or remove tokenizer",
        ("data.tokenizer=tokenizer.json",),
        leaves="tokenizer",
    ),
    Case(
        "write vocabulary: bpe, or remove vocabulary_size",
        ("data.vocabulary=bytes", "data.vocabulary_size=300"),
    ),
    Case(
        "write windows: packed, or remove long_documents",
        ('data.separator="\\n\\n"', "data.long_documents=split"),
    ),
    Case(
        "leave attention out of tracking.inspect.which",
        (PADDED, "tracking.windows={}", "tracking.inspect.which=[attention, activations]"),
        does=("-tracking.inspect.which.0",),
    ),
    Case(
        "write data.windows: padded, or remove padding",
        ('data.separator="\\n\\n"', "data.padding.multiple=8"),
    ),
    Case("remove buckets, or shuffle", (PADDED, "data.padding.buckets=4", "data.shuffle=false")),
    Case(
        "remove training.ramps.sequence", (PADDED, "training.ramps.sequence={start: 4, ratio: 0.5}")
    ),
    Case("change it to 8", ("training.ramps.sequence={start: 7, ratio: 0.5}",)),
    Case(
        "write data.padding.multiple: 2 or more, or compile: off",
        (PADDED, "model.context=64", COMPILED, "data.padding.multiple=1"),
    ),
    Case("change it to 256", (PADDED, "data.padding.max_tokens=8")),
    Case("remove max_tokens, or compile", (PADDED, "data.padding.max_tokens=64", COMPILED)),
    Case(
        "remove max_tokens, or update",
        (
            PADDED,
            "data.padding.max_tokens=64",
            "training.memory.update=in_backward",
            "training.gradient_clipping=off",
            "training.guard.non_finite=rollback",
        ),
    ),
    Case("remove data.sampling", ("data.sampling.kind=balanced",)),
    Case(
        "remove column, or name in data.text the column of a table of texts",
        ("data.path=texts", "data.sampling={kind: mixture, column: source}"),
        files=SOURCES,
    ),
    Case(
        "remove buckets",
        (PADDED, "data.path=texts", "data.padding.buckets=4", "data.sampling={kind: mixture}"),
        files=SOURCES,
    ),
    Case("remove class_weights", ("training.loss={name: cross_entropy, class_weights: balanced}",)),
    Case("change it to 16", ("model.width=18", "model.heads=4")),
    Case("change it to 3", ("model.width=24", "model.heads=6", "model.kv_heads=4")),
    Case(
        "remove rotary_scaling",
        ("model.positions=learned", "model.rotary_scaling={kind: linear, factor: 2}"),
    ),
    Case("remove adapter, or name a base", ("model.adapter={kind: lora}",)),
    Case("remove quantization", ("model.quantization=nf4",)),
    Case("lower it, or give a longer text", ("model.context=9000",), does=("model.context=16",)),
    Case(
        "lower it, or give more documents",
        (PADDED, "data.windows=packed", "model.context=9000"),
        does=("model.context=16",),
    ),
    Case(
        "divide it into documents, or remove windows",
        ("data.path=texts", "data.windows=packed", "data.sampling={kind: mixture}"),
        files={**SOURCES, "texts/one.txt": "one " * 600},
    ),
    Case('write for example data.separator: "\\n\\n", or remove windows', ("data.windows=packed",)),
    Case(
        "put the texts of each source into a folder of its own, or remove sampling",
        ("data.sampling={kind: mixture}",),
    ),
    Case(
        "name a text, or a table of texts with its column in data.text",
        ("data.path=here",),
        does=(("data.path=rows.csv", "data.text=word"), "data.path=notes.txt"),
        rows=csv(word=["some words of a text"] * ROWS),
        files={"here/paper.pdf": "x", "notes.txt": "a b c " * 400},
    ),
    Case(
        "did you mean 'word'?",
        ("data.path=rows.csv", "data.text=wrod"),
        rows=csv(word=["some words of a text"] * ROWS),
    ),
    Case(
        "use another one, or write vocabulary: bpe and remove tokenizer",
        ("data.vocabulary=tokenizer", "data.tokenizer=tokenizer.json"),
        does=(("data.vocabulary=bpe", "-data.tokenizer"),),
        files={"tokenizer.json": DOUBLING, "notes.txt": "\n".join(map(str, range(4000)))},
    ),
)
CASES = tuple(replace(case, base="text") for case in _CASES)
