"""The architecture in a bundle is held against its weights before memory is taken for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("torch")

from trainwright.contract.sections.model.table_networks import Mlp
from trainwright.data.columns.number_target import Numbers
from trainwright.model.build_network import build_network
from trainwright.model.families import network_family
from trainwright.model.input_shape import TableShape
from trainwright.predictor.network_scorer import NetworkScorer, read_network


@pytest.mark.row("F-63")
@pytest.mark.parametrize(
    ("place", "changes", "says"),
    [
        ("model", {"hidden": [900]}, "parameters"),
        ("model", {"hidden": [4, 4]}, "2 layers"),
        ("", {"outputs": 2000}, "parameters"),
        ("", {"numeric": -1}, "impossible sizes"),
    ],
    ids=["width", "layers", "outputs", "negative"],
)
def test_an_architecture_beyond_its_weights_is_refused(
    tmp_path: Path,
    place: str,
    changes: dict[str, Any],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a network of that size is built."""
    section, shape = Mlp(kind="mlp", hidden=(4,)), TableShape(3, (5,), 1)
    model = build_network(section, shape)
    NetworkScorer(section, shape, Numbers("y", 0.0, 1.0), model).write(tmp_path)
    assert read_network(tmp_path).kind == "network"
    monkeypatch.setattr("trainwright.predictor.network_scorer.MOST_LAYERS", 1)
    file = tmp_path / "network.json"
    about = json.loads(file.read_text())
    (about[place] if place else about).update(changes)
    file.write_text(json.dumps(about))
    built = mock.Mock()
    monkeypatch.setattr(type(network_family(section)), "build_empty", built)
    with pytest.raises(ValueError, match=says):
        read_network(tmp_path)
    built.assert_not_called()
