"""Adapters of causal models of transformers beside PEFT on the same models, step by step, and the
loss that is computed from what the head reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from adamw_steps import tokens_of, trained
from faults.tiers import in_test
from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.data.loading.batch import Batch
from trainwright.model.families import network_family
from trainwright.model.input_shape import TokenShape
from trainwright.objective.fused_head_loss import FusedHeadLoss

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = [
    pytest.mark.torch,
    # PEFT asks a model of transformers by an older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated"),
]

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "vocab_size": 131,
}
KINDS: dict[str, dict[str, Any]] = {
    "gpt_neox": {**SMALL, "hidden_dropout": 0.0},
    "phi": SMALL,
    "mistral": {**SMALL, "num_key_value_heads": 2, "sliding_window": None},
    "opt": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0},
}
CASES = [
    ("gpt_neox", "lora", "all"),
    ("gpt_neox", "ia3", "usual"),
    ("phi", "rslora", "all"),
    ("mistral", "dora", ("q_proj", "down_proj")),
    ("mistral", "ia3", "usual"),
    ("opt", "lora", ("q_proj", "v_proj")),
]


def written(kind: str, folder: Path, **changes: Any) -> Any:
    """A model of transformers with random weights, in a folder."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**KINDS.get(kind, SMALL), **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    return model.eval()


def ours_with(folder: Path, adapter: Any = "none") -> tuple[CausalLm, nn.Module]:
    """Section and network of a base with an adapter, whose B is not 0."""
    values = {"kind": "causal_lm", "architecture": str(folder), "context": 24, "adapter": adapter}
    section = CausalLm.model_validate(values)
    family = network_family(section)
    section = family.read_files(section, folder.parent)
    torch.manual_seed(3)
    network = family.build(section, TokenShape(131)).eval()
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.05)
        if "ia3_l" in name:
            nn.init.normal_(parameter, mean=1.0, std=0.1)
    return section, network


def peft_config(base: str, kind: str, targets: str | tuple[str, ...]) -> Any:
    """The same adapter of PEFT, by its own defaults where ours says all or usual."""
    if kind == "ia3":
        # None takes those that PEFT knows of the architecture.
        return peft.IA3Config(task_type="CAUSAL_LM")
    return peft.LoraConfig(
        r=4,
        lora_alpha=6.0,
        use_dora=kind == "dora",
        use_rslora=kind == "rslora",
        target_modules="all-linear" if targets == "all" else list(targets),
        task_type="CAUSAL_LM",
    )


@pytest.mark.parametrize(("base", "kind", "targets"), in_test(2, CASES, start=1))
def test_each_step_equals_that_of_peft(
    base: str, kind: str, targets: str | tuple[str, ...], tmp_path: Path
) -> None:
    theirs = written(base, tmp_path / "base")
    adapter: dict[str, Any] = {"kind": kind, "targets": targets}
    if kind != "ia3":
        adapter |= {"rank": 4, "alpha": 6.0}
    section, ours = ours_with(tmp_path / "base", adapter)
    theirs = peft.get_peft_model(theirs, peft_config(base, kind, targets)).eval()
    own = dict(ours.named_parameters())
    factors = {name: one for name, one in theirs.named_parameters() if one.requires_grad}
    paired = {name.removeprefix("base_model."): one for name, one in factors.items()}
    assert set(paired) == {name for name, one in own.items() if one.requires_grad}
    with torch.no_grad():
        for name, one in paired.items():
            if "magnitude" in name:
                assert torch.allclose(own[name], one, atol=1e-6)
            else:
                one.copy_(own[name])
    before = {name: one.clone() for name, one in own.items()}

    tokens = tokens_of(length=24)
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


@pytest.mark.parametrize("kind", ["gpt_neox", "mistral", "opt", "gemma", "bloom"])
def test_the_fused_head_has_the_loss_and_gradients_of_the_whole_logits(
    kind: str, tmp_path: Path
) -> None:
    changes: dict[str, dict[str, Any]] = {
        "gemma": {"num_key_value_heads": 1, "head_dim": 8},
        "bloom": {"n_head": 4, "n_layer": 2},
    }
    written(kind, tmp_path / "base", **changes.get(kind, {}))
    _, network = ours_with(tmp_path / "base")
    tokens = tokens_of(length=24)
    batch = Batch({"tokens": tokens[:, :-1], "target": tokens[:, 1:]}, target="target", mask="all")
    loss, count = FusedHeadLoss(piece=300)(network, batch)
    assert count == 3 * 23
    loss.backward()
    found = {name: one.grad for name, one in network.named_parameters()}
    network.zero_grad(set_to_none=True)
    logits = network(tokens[:, :-1]).flatten(0, 1)
    wanted = functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum")
    wanted.backward()
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-6)
    for name, one in network.named_parameters():
        own = found[name]
        assert own is not None, name
        assert one.grad is not None, name
        assert torch.allclose(own, one.grad, atol=2e-5), name
