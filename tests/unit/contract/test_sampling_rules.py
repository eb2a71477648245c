from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake

TABLE = "data: {{path: rows.csv, {0}}}\nmodel: {{kind: {1}}}\n"


def paths(folder: Path, text: str) -> list[str]:
    file = folder / "c.yaml"
    file.write_text(text)
    try:
        read_contract(file)
    except ContractMistake as mistake:
        return [problem.path for problem in mistake.problems]
    return []


@pytest.mark.parametrize(
    ("sampling", "path"),
    [
        ("{}", ""),
        ("{kind: balanced}", ""),
        ("{kind: weighted, column: w}", ""),
        ("{kind: weighted}", "data.sampling.column"),
        ("{kind: mixture, column: s, weights: {a: 1.0, b: 2.0}}", ""),
        ("{kind: mixture, column: s, weights: {a: 0.0}}", "data.sampling.weights.a"),
        ("{kind: mixture, column: s, temperature: 5.0}", ""),
        (
            "{kind: mixture, column: s, weights: {a: 1.0}, temperature: 5.0}",
            "data.sampling.weights",
        ),
        ("{kind: curriculum, column: d}", ""),
        ("{kind: curriculum, column: d, samples: 9}", ""),
        ("{kind: curriculum, column: d, samples: 9, ratio: 0.5}", "data.sampling.samples"),
        ("{kind: curriculum, column: d, start: 0.0}", "data.sampling.start"),
        ("{kind: balanced}, shuffle: false", "data.shuffle"),
        ("{kind: blocks}", ""),
        ("{kind: blocks, block_rows: 0}", "data.sampling.block_rows"),
        ("{kind: blocks, mixed_blocks: 0}", "data.sampling.mixed_blocks"),
        ("{kind: blocks}, shuffle: false", "data.shuffle"),
    ],
)
def test_a_sampling_is_whole(sampling: str, path: str, tmp_path: Path) -> None:
    found = paths(tmp_path, TABLE.format(f"sampling: {sampling}", "mlp"))
    assert found == ([path] if path else [])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (TABLE.format("sampling: {kind: balanced}", "boosting"), "data.sampling"),
        ("task: regression\n" + TABLE.format("sampling: {kind: balanced}", "mlp"), "kind"),
        (
            "data: {kind: tokens, path: a.txt, sampling: {kind: balanced}}\nmodel: {kind: gpt}\n",
            "kind",
        ),
        ("data: {kind: tokens, path: a, sampling: {kind: mixture}}\nmodel: {kind: gpt}\n", ""),
        (
            "data: {kind: tokens, path: a, sampling: {kind: mixture, column: s}}\n"
            "model: {kind: gpt}\n",
            "column",
        ),
        (
            "data: {kind: tokens, path: a, text: b, sampling: {kind: mixture}}\n"
            "model: {kind: gpt}\n",
            "column",
        ),
        (
            "data: {kind: tokens, path: a, sampling: {kind: curriculum, column: s}}\n"
            "model: {kind: gpt}\n",
            "kind",
        ),
        (TABLE.format("sampling: {kind: mixture}", "mlp"), "column"),
        (
            "data: {kind: images, path: a, sampling: {kind: weighted, column: w}}\n"
            "model: {kind: resnet}\n",
            "kind",
        ),
        (
            "data: {kind: images, path: a, sampling: {kind: balanced}}\nmodel: {kind: resnet}\n",
            "",
        ),
    ],
)
def test_data_and_model_have_what_is_sampled(text: str, path: str, tmp_path: Path) -> None:
    found = paths(tmp_path, text)
    assert [one.rpartition("sampling.")[2] for one in found] == ([path] if path else [])
