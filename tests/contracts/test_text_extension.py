"""An encoder of texts that is trained further: the same bits as one planned longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from command import command, inside  # noqa: E402
from made_texts import CONTRACT, write_text_project  # noqa: E402
from trainwright.contract.sections.model.pretrained import Base, Pretrained  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import hash_file  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import TextShape  # noqa: E402
from trainwright.tracking.signals import read_signals  # noqa: E402

pytestmark = pytest.mark.torch

CONSTANT = CONTRACT.replace("  batch_size", "  scheduler: {name: constant}\n  batch_size")


def bits(run: Path) -> list[str]:
    """Losses of all steps, and the weights of the bundle."""
    losses = read_signals(run / "signals.jsonl")["loss"]
    return [json.dumps(losses), hash_file(run / "bundle" / "model.safetensors")]


@pytest.mark.extended
@pytest.mark.parametrize("setting", ["model.weights=pretrained", "model.weights=none"])
def test_longer_is_as_if_planned_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_text_project(tmp_path, contract=CONSTANT)
    with inside(tmp_path):
        for name, epochs in (("short", 1), ("long", 2)):
            words = ("--set", setting, "--set", f"training.num_epochs={epochs}")
            assert command("train", "contract.yaml", "--run", name, *words).code in (0, 3)
        ran = command("resume", "short", "--for", "1 epoch")
        assert ran.code in (0, 3), ran.err
        assert bits(Path("runs/short")) == bits(Path("runs/long"))


def test_weights_of_a_base_are_never_drawn_instead(tmp_path: Path) -> None:
    write_text_project(tmp_path)
    config = (tmp_path / "base" / "config.json").read_text()
    base = Base(config=config, weights="a" * 64, tokenizer="b" * 64, longest=48)
    section = Pretrained(architecture="base", num_labels=2, max_length=48, base=base)
    family = network_family(section)
    with pytest.raises(Mistake, match="were not read"):
        family.build(section, TextShape(48, 2))
    assert family.build_empty(section, TextShape(48, 2))
