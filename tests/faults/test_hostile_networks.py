"""The architecture in a bundle is held against its weights before memory is taken for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from trainwright.contract.sections.model.table_networks import Mlp
from trainwright.data.columns.number_target import Numbers
from trainwright.model.build_network import build_network
from trainwright.model.input_shape import TableShape
from trainwright.predictor.network_scorer import NetworkScorer, read_network


@pytest.mark.row("F-63")
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("place", "changes", "says"),
    [
        ("model", {"hidden": [60_000, 60_000]}, "parameters"),
        ("model", {"hidden": [1] * 1_000_000}, "1,000,000 layers"),
        ("", {"outputs": 10**12}, "parameters"),
        ("", {"numeric": -(10**6)}, "impossible sizes"),
    ],
    ids=["width", "layers", "outputs", "negative"],
)
def test_an_architecture_beyond_its_weights_is_refused(
    tmp_path: Path, place: str, changes: dict[str, Any], says: str
) -> None:
    section, shape = Mlp(kind="mlp", hidden=(4,)), TableShape(3, (5,), 1)
    model = build_network(section, shape)
    NetworkScorer(section, shape, Numbers("y", 0.0, 1.0), model).write(tmp_path)
    assert read_network(tmp_path).kind == "network"
    file = tmp_path / "network.json"
    about = json.loads(file.read_text())
    (about[place] if place else about).update(changes)
    file.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=says):
        read_network(tmp_path)
