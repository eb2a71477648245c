"""Every stage with every adapter, killed at random steps: the same bits as without a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from canary import Killed
from contract_runs import bits, train
from made_stages import ADAPTERS, STEPS, stage_contract, write_stages

pytestmark = pytest.mark.torch

STAGES = ("texts", "chats", "preferences")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resumed")
    write_stages(folder)
    return folder


def resume_at_random(contract: Path, *settings: str) -> None:
    """Two kills at random steps, drawn anew for each contract and the same for each run of it."""
    name, draw = (
        f"{contract.stem}{''.join(settings)[-3:]}".replace("=", "-"),
        np.random.default_rng(len(contract.stem)),
    )
    whole = train(contract, f"{name}-whole", *settings)
    assert whole.ended.progress.step == STEPS
    for step in draw.integers(1, 3, 2).tolist():
        with pytest.raises(Killed):
            train(contract, f"{name}-cut", *settings, dies_at=step)
    again = train(contract, f"{name}-cut", *settings)
    assert bits(again) == bits(whole)
    assert again.signals["loss"] == whole.signals["loss"]


@pytest.mark.parametrize(
    ("stage", "adapter"),
    [
        ("chats", "lora"),
        ("preferences", "ia3"),
        *(
            pytest.param(stage, adapter, marks=pytest.mark.slow)
            for stage in STAGES
            for adapter in ADAPTERS
            if adapter != "none"
        ),
    ],
)
def test_a_stage_goes_on_to_the_same_bits(project: Path, stage: str, adapter: str) -> None:
    resume_at_random(stage_contract(project, stage, adapter))


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("quantization", ["nf4", "int8"])
def test_beside_a_quantised_base(project: Path, stage: str, quantization: str) -> None:
    pytest.importorskip("bitsandbytes")
    resume_at_random(stage_contract(project, stage, "lora"), f"model.quantization={quantization}")
