"""A run that compiles nothing does not wait for the compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

STEPPED = """
import sys
from torch import nn
from trainwright.contract.sections.training.training import Training
from trainwright.engine.update.step import OptimizerStep
from trainwright.optim.build_optimizer import build_optimizer
from trainwright.optim.fused_adam import stepping_of

model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
for section in ({"name": "adamw"}, {"name": "sgd"}, {"name": "muon", "adamw_learning_rate": 0.01}):
    training = Training.model_validate({"optimizer": {"learning_rate": 0.01, **section}})
    step = stepping_of(build_optimizer(training.optimizer, model, 8))
    if section["name"] == "sgd":
        continue  # torch's own step of SGD imports the compiler
    for parameter in model.parameters():
        parameter.grad = parameter.detach().clone()
    step()
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.extended
def test_making_and_stepping_an_optimizer_leaves_the_compiler_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPPED], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
