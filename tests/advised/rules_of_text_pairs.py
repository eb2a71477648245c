"""Contracts and tables of text pairs that contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from advised.cases import Case, asked

_BASE = "{kind: pretrained, architecture: base"
ROWS = asked()

_CASES = (
    Case("name the column of each", ("data.group=query",), does=("data.group=person",)),
    Case("name the column of each", ("data.negatives=[passage]",), does=("-data.negatives",)),
    Case("did you mean 'passage'?", ("data.passage=pasage",)),
    Case("did you mean 'person'?", ("data.group=persn",)),
    Case(
        "add the texts, or remove these rows",
        files={"asked.csv": ROWS + "where is it,,g1\n", "whole.csv": ROWS},
        does=("data.path=whole.csv",),
    ),
    Case("change it to passage_ndcg_at_10", ("metric.name=mean_recall",)),
    Case("remove update", ("training.memory.update=in_backward", "training.gradient_clipping=off")),
    Case("remove compile", ("training.compute.compile=on",)),
    Case("remove noise_scale", ("tracking.windows={noise_scale: 5}",)),
    Case(
        "change it, or remove training.loss", ("training.loss.name=mse",), does=("-training.loss",)
    ),
    Case("remove data.tokens", (f"model.text={_BASE}}}", "data.tokens.unit=characters")),
    Case("remove num_labels", (f"model.text={_BASE}, num_labels: 3}}",)),
    Case("change it to 48, or remove it", (f"model.text={_BASE}, max_length: 900}}",)),
    Case("change heads to 2", ("model.text={kind: transformer, width: 16, heads: 3}",)),
    Case(
        "give one file in data.path and split it by group",
        ("data.test_path=other.csv", "data.group=person"),
        does=("-data.test_path",),
        files={"asked.csv": ROWS, "other.csv": asked(12)},
    ),
)
CASES = tuple(replace(case, base="text_pairs") for case in _CASES)
