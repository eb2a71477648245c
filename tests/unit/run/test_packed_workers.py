"""Packed windows from worker processes: the losses of a run without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from contract_runs import train

pytestmark = pytest.mark.torch

CONTRACT = """
data: {kind: tokens, path: documents.jsonl, text: body, windows: packed}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 32}
training: {num_epochs: 2, batch_size: 8, early_stopping: off}
metric: {target: 9.0, resamples: 100}
"""


@pytest.mark.extended
def test_a_run_with_workers_has_the_losses_of_one_without(tmp_path: Path) -> None:
    words = ["one", "two", "three", "four", "five"]
    rows = [" ".join(words[(row * at) % 5] for at in range(1, 3 + row % 9)) for row in range(200)]
    file = tmp_path / "documents.jsonl"
    file.write_text("".join(json.dumps({"body": text}) + "\n" for text in rows))
    contract = tmp_path / "work.yaml"
    contract.write_text(CONTRACT)
    without, beside = (
        train(contract, f"of-{count}", f"data.num_workers={count}").signals["loss"]
        for count in (0, 2)
    )
    assert len(without) > 10
    assert without == beside
