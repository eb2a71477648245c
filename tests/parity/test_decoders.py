"""The decoder beside those of transformers: logits, gradients, steps of AdamW, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from made_decoders import LLAMA, write_decoder
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.model.families import network_family
from trainwright.model.gpt.decoder_config import config_of
from trainwright.model.gpt.decoder_folder import foreign_weights
from trainwright.model.input_shape import TokenShape

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

_LLAMA = {**LLAMA, "num_key_value_heads": 4}
_GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 131}
_SCALED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", _LLAMA),
    "llama-1-kv": ("llama", {**_LLAMA, "num_key_value_heads": 1}),
    "llama-2-kv-tied": ("llama", {**_LLAMA, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    "llama-scaled": (
        "llama",
        {**_LLAMA, "rope_parameters": {**_SCALED, "rope_theta": 500_000.0}},
    ),
    "llama-linear": (
        "llama",
        {**_LLAMA, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    ),
    "llama-100003": ("llama", {**_LLAMA, "vocab_size": 100_003, "num_key_value_heads": 2}),
    "qwen2": ("qwen2", {**_LLAMA, "num_key_value_heads": 2}),
    "gpt2": ("gpt2", _GPT2),
    "gpt2-gelu-untied": (
        "gpt2",
        {**_GPT2, "activation_function": "gelu", "tie_word_embeddings": False, "n_inner": 100},
    ),
}


def ours_of(folder: Path, **fields: Any) -> tuple[Gpt, nn.Module]:
    """Section and network from a folder."""
    values = {"kind": "gpt", "architecture": str(folder), "context": 32, **fields}
    family = network_family(Gpt.model_validate(values))
    section = family.read_files(Gpt.model_validate(values), folder.parent)
    network = family.build(section, TokenShape(min(131, section.vocabulary)))
    return section, network


def tokens_of(rows: int = 3, length: int = 32) -> Tensor:
    return torch.randint(0, 131, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.extended
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_steps_equal_transformers(name: str, tmp_path: Path) -> None:
    kind, values = CONFIGS[name]
    theirs = write_decoder(kind, values, tmp_path / "base")
    section, ours = ours_of(tmp_path / "base")
    tokens = tokens_of()
    found, wanted = ours(tokens), theirs(tokens).logits
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() < 1e-5
    # A window in packed form: positions start anew, and documents do not see each other.
    positions = torch.arange(16).repeat(2).expand(len(tokens), -1)
    apart = torch.cat([theirs(half).logits for half in tokens.split(16, dim=1)], dim=1)
    assert (ours(tokens, positions) - apart).abs().max() < 1e-5

    losses: dict[str, Any] = {"ours": [], "theirs": []}
    models = {"ours": ours, "theirs": theirs}
    for who, model in models.items():
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(20):
            out = model(tokens)
            logits = out if who == "ours" else out.logits
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            if not losses[who]:
                losses[f"{who} gradients"] = {
                    k: p.grad.clone() for k, p in model.named_parameters()
                }
            optimizer.step()
            losses[who].append(float(loss.detach()))
    renamed = foreign_weights(section, kind, losses["ours gradients"])
    for key, gradient in losses["theirs gradients"].items():
        assert (renamed[key] - gradient).abs().max() < 1e-5, key
    assert losses["ours"] == pytest.approx(losses["theirs"], abs=2e-4)
    assert losses["ours"][-1] < losses["ours"][0]


@pytest.mark.extended
@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_comes_back(name: str, tmp_path: Path) -> None:
    kind, values = CONFIGS[name]
    theirs = write_decoder(kind, values, tmp_path / "base")
    section, ours = ours_of(tmp_path / "base")
    weights = foreign_weights(section, kind, ours.state_dict())
    expected = {k: v for k, v in theirs.state_dict().items() if k != "lm_head.weight"}
    if not section.tied:
        expected["lm_head.weight"] = theirs.lm_head.weight
    for key, value in weights.items():
        rows = len(value)
        assert torch.equal(value, expected[key][:rows]), key
    assert set(weights) == set(expected)
    config = config_of(section, section.vocabulary)
    again = transformers.AutoConfig.for_model(**config)
    network = transformers.AutoModelForCausalLM.from_config(again)
    missing, unexpected = network.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    tokens = tokens_of()
    network.tie_weights()
    assert (network.eval()(tokens).logits - ours(tokens)).abs().max() < 1e-5
