"""Adapters beside PEFT on models of transformers: the same losses and factors, step by step."""

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
from trainwright.model.input_shape import TokenShape

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = [
    pytest.mark.torch,
    # PEFT asks a model of transformers by an older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated"),
]

STEPS = 20
_GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 131}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", LLAMA),
    "qwen2": ("qwen2", LLAMA),
    "gpt2": ("gpt2", _GPT2),
}
QUERIES_AND_VALUES = ("q_proj", "v_proj")
CASES = [
    ("llama", "lora", "all"),
    ("llama", "lora", QUERIES_AND_VALUES),
    ("llama", "dora", "all"),
    ("qwen2", "rslora", "all"),
    ("qwen2", "dora", QUERIES_AND_VALUES),
    ("gpt2", "lora", "all"),
    ("gpt2", "dora", ("c_attn",)),
]
_NAMES = {
    "q_proj": "queries_keys_values.queries",
    "k_proj": "queries_keys_values.keys",
    "v_proj": "queries_keys_values.values",
    "o_proj": "attended",
    "gate_proj": "wide.gate",
    "up_proj": "wide.up",
    "down_proj": "narrow",
    "attn.c_attn": "queries_keys_values",
    "attn.c_proj": "attended",
    "mlp.c_fc": "wide",
    "mlp.c_proj": "narrow",
}


def ours_with(folder: Path, adapter: dict[str, Any]) -> tuple[Gpt, nn.Module]:
    """Section and network of a base with an adapter, whose B is not 0."""
    values = {"kind": "gpt", "architecture": str(folder), "context": 32, "adapter": adapter}
    section = Gpt.model_validate(values)
    family = network_family(section)
    section = family.read_files(section, folder.parent)
    torch.manual_seed(3)
    network = family.build(section, TokenShape(131))
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.05)
    return section, network


def ours_by_their_name(name: str) -> str:
    """`model.layers.0.self_attn.q_proj.lora_A.default.weight` as our decoder calls it."""
    parts = name.split(".")
    block = next(part for part in parts if part.isdigit())
    layer, factor = name.split(".lora_")
    ending = next(ours for theirs, ours in _NAMES.items() if layer.endswith(f".{theirs}"))
    return f"blocks.{block}.{ending}.lora_{factor}"


def tokens_of(rows: int = 3) -> Tensor:
    return torch.randint(0, 131, (rows, 32), generator=torch.Generator().manual_seed(1))


def trained(network: nn.Module, tokens: Tensor) -> list[float]:
    parameters = [one for one in network.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3)
    losses = []
    for _ in range(STEPS):
        out = network(tokens)
        logits = out if isinstance(out, Tensor) else out.logits
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize(("base", "kind", "targets"), CASES)
def test_each_step_equals_that_of_peft(
    base: str, kind: str, targets: str | tuple[str, ...], tmp_path: Path
) -> None:
    theirs = write_decoder(*BASES[base], tmp_path / "base")
    adapter = {"kind": kind, "rank": 4, "alpha": 6.0, "targets": targets}
    section, ours = ours_with(tmp_path / "base", adapter)
    config = peft.LoraConfig(
        r=4,
        lora_alpha=6.0,
        use_dora=kind == "dora",
        use_rslora=kind == "rslora",
        fan_in_fan_out=base == "gpt2",
        target_modules="all-linear" if targets == "all" else list(targets),
        task_type="CAUSAL_LM",
    )
    theirs = peft.get_peft_model(theirs, config)
    own = dict(ours.named_parameters())
    factors = {name: one for name, one in theirs.named_parameters() if one.requires_grad}
    paired = {ours_by_their_name(name): one for name, one in factors.items()}
    assert set(paired) == {name for name, one in own.items() if one.requires_grad}
    with torch.no_grad():
        for name, one in paired.items():
            if "magnitude" not in name:
                one.copy_(own[name])
    if kind == "dora":
        # The length of the rows of W as it is drawn, not with B A.
        for name, one in paired.items():
            assert "magnitude" not in name or torch.allclose(own[name], one, atol=1e-6)
    before = {name: one.clone() for name, one in own.items()}

    tokens = tokens_of()
    found, wanted = trained(ours, tokens), trained(theirs, tokens)
    assert found == pytest.approx(wanted, abs=2e-5)
    assert found[-1] < found[0]
    for name, one in paired.items():
        assert torch.allclose(own[name], one, atol=5e-4), name
    for name, one in own.items():
        assert torch.equal(one, before[name]) != one.requires_grad, name

    # Merged, it is their merged model, weight by weight.
    layout = network_family(section).hub_layout(section, ours)
    assert layout is not None
    whole = theirs.merge_and_unload().state_dict()
    for name, weight in layout.weights.items():
        assert torch.allclose(weight, whole[name], atol=5e-4), name
