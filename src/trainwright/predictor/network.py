"""A trained network as a scorer. Needs torch; imported only where a network is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, assert_never, final

import numpy as np
import torch
from pydantic import Field, TypeAdapter
from safetensors.torch import load_file, save_file
from torch import nn

from trainwright.contract.model import Network
from trainwright.core.files import read_json, write_json
from trainwright.data.table import Floats, Inputs
from trainwright.data.target import Classes, Numbers, Target, target_from_json
from trainwright.model.network import build_network
from trainwright.model.shape import TableShape

_WEIGHTS = "network.safetensors"
_ARCHITECTURE = "network.json"
_ROWS = 8192
_SECTION: TypeAdapter[Network] = TypeAdapter(Annotated[Network, Field(discriminator="kind")])


@final
class NetworkScorer:
    """A table network in evaluation mode."""

    kind = "network"

    def __init__(
        self, section: Network, shape: TableShape, target: Target, model: nn.Module
    ) -> None:
        self._section = section
        self._shape = shape
        self._target = target
        self._model = model

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], or values [N, 1] in the target's own unit."""
        parameter = next(self._model.parameters())
        was_training = self._model.training
        self._model.eval()
        blocks = []
        try:
            with torch.no_grad():
                for start in range(0, len(inputs), _ROWS):
                    numeric = torch.tensor(inputs.numeric[start : start + _ROWS])
                    categories = torch.tensor(inputs.categories[start : start + _ROWS])
                    out = self._model(
                        numeric.to(parameter.device, parameter.dtype),
                        categories.to(parameter.device),
                    )
                    blocks.append(out.double().cpu())
        finally:
            self._model.train(was_training)
        if not blocks:
            return np.zeros((0, self._shape.outputs))
        return self._finish(torch.cat(blocks))

    def write(self, folder: Path) -> None:
        """The weights as safetensors and the architecture as JSON."""
        tensors = {
            name: tensor.detach().cpu().contiguous()
            for name, tensor in self._model.state_dict().items()
        }
        save_file(tensors, folder / _WEIGHTS)
        write_json(
            folder / _ARCHITECTURE,
            {
                "model": self._section.model_dump(mode="json"),
                "numeric": self._shape.numeric,
                "cardinalities": list(self._shape.cardinalities),
                "outputs": self._shape.outputs,
                "target": self._target.to_json(),
            },
        )

    def _finish(self, out: torch.Tensor) -> Floats:
        match self._target:
            case Classes():
                return torch.softmax(out, dim=1).numpy()
            case Numbers():
                return (out * self._target.deviation + self._target.mean).numpy()
            case _:
                assert_never(self._target)


def read_network(folder: Path) -> NetworkScorer:
    """Read what `NetworkScorer.write` wrote; the caller has verified the files."""
    about = read_json(folder / _ARCHITECTURE)
    section = _SECTION.validate_json(json.dumps(about["model"]))
    shape = TableShape(about["numeric"], tuple(about["cardinalities"]), about["outputs"])
    model = build_network(section, shape)
    model.load_state_dict(load_file(folder / _WEIGHTS))
    return NetworkScorer(section, shape, target_from_json(about["target"]), model.eval())
