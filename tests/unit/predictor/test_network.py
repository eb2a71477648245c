from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.contract.sections.model.table_networks import Mlp  # noqa: E402
from trainwright.data.base.inputs import TableInputs  # noqa: E402
from trainwright.data.columns.class_target import Classes  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import TableShape  # noqa: E402
from trainwright.predictor.network_scorer import NetworkScorer, read_network  # noqa: E402

pytestmark = pytest.mark.torch

SECTION = Mlp(kind="mlp", hidden=(8,), dropout=0.5)
SHAPE = TableShape(3, (), 2)
ROWS = TableInputs(np.ones((5, 3), np.float32), np.zeros((5, 0), np.int64))


def scorer() -> NetworkScorer:
    torch.manual_seed(0)
    model = build_network(SECTION, SHAPE).eval()
    return NetworkScorer(SECTION, SHAPE, Classes("y", ("a", "b"), 1), model)


def test_scores_change_no_mode_so_that_threads_can_share_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer().write(tmp_path)
    switched: list[nn.Module] = []
    read = read_network(tmp_path)
    train = nn.Module.train

    def seen(module: nn.Module, mode: bool = True) -> nn.Module:
        switched.append(module)
        return train(module, mode)

    monkeypatch.setattr(nn.Module, "train", seen)
    read.score(ROWS)
    assert not switched
    assert not any(parameter.requires_grad for parameter in read._model.parameters())
    monkeypatch.undo()
    np.testing.assert_array_equal(read.score(ROWS), scorer().score(ROWS))


def test_a_model_in_training_mode_is_not_scored() -> None:
    live = scorer()
    live._model.train()
    with pytest.raises(AssertionError, match="evaluation mode"):
        live.score(ROWS)
