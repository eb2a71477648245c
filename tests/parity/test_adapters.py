"""Adapters beside PEFT on models of transformers: the same losses and factors, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adamw_steps import tokens_of, trained
from faults.tiers import in_test
from made_decoders import LLAMA, write_decoder
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.model.causal_attention import KeyValueCache
from trainwright.model.families import network_family
from trainwright.model.gpt.decoder_adapter import merge_decoder
from trainwright.model.input_shape import TokenShape

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = [
    pytest.mark.torch,
    # PEFT asks a model of transformers by an older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated"),
]

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
    ("llama", "ia3", "usual"),
    ("qwen2", "ia3", ("q_proj", "v_proj", "down_proj")),
    ("gpt2", "ia3", "usual"),
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


def ours_with(
    folder: Path, adapter: dict[str, Any], context: int = 32, quantization: str = "none"
) -> tuple[Gpt, nn.Module]:
    """Section and network of a base with an adapter, whose B is not 0."""
    values = {
        "kind": "gpt",
        "architecture": str(folder),
        "context": context,
        "adapter": adapter,
        "quantization": quantization,
    }
    section = Gpt.model_validate(values)
    family = network_family(section)
    section = family.read_files(section, folder.parent)
    torch.manual_seed(3)
    network = family.build(section, TokenShape(131))
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.05)
        if "ia3_l" in name:
            nn.init.normal_(parameter, mean=1.0, std=0.1)
    return section, network


def ours_by_their_name(name: str) -> str:
    """`model.layers.0.self_attn.q_proj.lora_A.default.weight` as our decoder calls it."""
    parts = name.split(".")
    block = next(part for part in parts if part.isdigit())
    kind = "lora_" if ".lora_" in name else "ia3_"
    layer, factor = name.split(f".{kind}")
    ending = next(ours for theirs, ours in _NAMES.items() if layer.endswith(f".{theirs}"))
    return f"blocks.{block}.{ending}.{kind}{factor}"


def peft_config(base: str, adapter: dict[str, Any]) -> Any:
    """The same adapter of PEFT."""
    kind, targets = adapter["kind"], adapter["targets"]
    turned = base == "gpt2"
    if kind == "ia3":
        second = "mlp.c_proj" if turned else "down_proj"
        usual = ["c_attn", second] if turned else ["k_proj", "v_proj", second]
        return peft.IA3Config(
            target_modules=usual if targets == "usual" else list(targets),
            feedforward_modules=[second],
            fan_in_fan_out=turned,
            task_type="CAUSAL_LM",
        )
    return peft.LoraConfig(
        r=4,
        lora_alpha=6.0,
        use_dora=kind == "dora",
        use_rslora=kind == "rslora",
        fan_in_fan_out=turned,
        target_modules="all-linear" if targets == "all" else list(targets),
        task_type="CAUSAL_LM",
    )


@pytest.mark.parametrize(("base", "kind", "targets"), in_test(3, CASES))
def test_each_step_equals_that_of_peft(
    base: str, kind: str, targets: str | tuple[str, ...], tmp_path: Path
) -> None:
    theirs = write_decoder(*BASES[base], tmp_path / "base")
    adapter: dict[str, Any] = {"kind": kind, "targets": targets}
    if kind != "ia3":
        adapter |= {"rank": 4, "alpha": 6.0}
    section, ours = ours_with(tmp_path / "base", adapter)
    theirs = peft.get_peft_model(theirs, peft_config(base, adapter))
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


@pytest.mark.parametrize("base", ["llama", "gpt2"])
def test_each_step_of_a_prompt_equals_that_of_peft(base: str, tmp_path: Path) -> None:
    theirs = write_decoder(*BASES[base], tmp_path / "base")
    _, ours = ours_with(tmp_path / "base", {"kind": "prompt_tuning", "tokens": 5}, context=27)
    config = peft.PromptTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM")
    prompted = peft.get_peft_model(theirs, config)
    (own,) = [one for one in ours.parameters() if one.requires_grad]
    (given,) = [one for one in prompted.parameters() if one.requires_grad]
    with torch.no_grad():
        # They start as rows of the embedding.
        table = dict(ours.named_parameters())["embedding.weight"]
        assert all(bool((table == row).all(dim=1).any()) for row in own)
        given.copy_(own)

    def theirs_alone(tokens: Tensor) -> Tensor:
        logits: Tensor = prompted(input_ids=tokens).logits[:, 5:]
        return logits

    class Prompted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.given = given

        def forward(self, tokens: Tensor) -> Tensor:
            return theirs_alone(tokens)

    tokens = tokens_of(length=27)
    found, wanted = trained(ours, tokens), trained(Prompted(), tokens)
    assert found == pytest.approx(wanted, abs=2e-5)
    assert found[-1] < found[0]
    assert torch.allclose(own, given, atol=5e-4)


def test_each_document_of_a_window_has_the_prompt_before_it(tmp_path: Path) -> None:
    write_decoder(*BASES["llama"], tmp_path / "base")
    _, network = ours_with(tmp_path / "base", {"kind": "prompt_tuning", "tokens": 4})
    tokens = tokens_of(1, 20)
    positions = torch.tensor([[*range(8), *range(12)]])
    with torch.no_grad():
        packed = network(tokens, positions)
        alone = torch.cat([network(tokens[:, :8]), network(tokens[:, 8:])], dim=1)
        assert torch.allclose(packed, alone, atol=1e-5)
        cache = KeyValueCache()
        network.extend(tokens[:, :3], cache)
        step = network.extend(tokens[:, 3:8], cache)
        assert torch.allclose(step, alone[:, 7], atol=1e-5)
        assert cache.length == 8


def quantize_theirs(network: Any, kind: str) -> None:
    """Every matrix of the blocks of a Llama of transformers, as bitsandbytes has it."""
    modules = pytest.importorskip("bitsandbytes.nn.modules")
    for path, layer in list(network.model.layers.named_modules()):
        if not isinstance(layer, nn.Linear):
            continue
        size = (layer.in_features, layer.out_features, False)
        if kind == "nf4":
            new = modules.Linear4bit(*size, compress_statistics=True, quant_type="nf4")
            new.weight = modules.Params4bit(
                layer.weight.data, False, quant_type="nf4", compress_statistics=True, module=new
            )
        else:
            new = modules.Linear8bitLt(*size, has_fp16_weights=False)
            new.weight = modules.Int8Params(layer.weight.data, False, has_fp16_weights=False)
        parent, _, name = path.rpartition(".")
        setattr(network.model.layers.get_submodule(parent), name, new.to("cpu"))
    setattr(network, "is_loaded_in_4bit" if kind == "nf4" else "is_loaded_in_8bit", True)


# Those of transformers round the inputs of 8 bits, ours do not.
@pytest.mark.extended
@pytest.mark.parametrize(
    ("quantization", "adapter", "close"),
    [
        ("nf4", {"kind": "lora", "rank": 4, "alpha": 6.0, "targets": "all"}, 2e-5),
        ("nf4", {"kind": "dora", "rank": 4, "alpha": 6.0, "targets": ("q_proj", "up_proj")}, 2e-5),
        ("nf4", {"kind": "ia3", "targets": "usual"}, 2e-5),
        ("int8", {"kind": "lora", "rank": 4, "alpha": 6.0, "targets": "all"}, 5e-3),
    ],
    ids=["nf4-lora", "nf4-dora", "nf4-ia3", "int8-lora"],
)
def test_each_step_beside_a_quantised_base_equals_that_of_peft(
    quantization: str, adapter: dict[str, Any], close: float, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    theirs = write_decoder(*BASES["llama"], tmp_path / "base")
    quantize_theirs(theirs, quantization)
    section, ours = ours_with(tmp_path / "base", adapter, quantization=quantization)
    theirs = peft.get_peft_model(theirs, peft_config("llama", adapter))
    own = dict(ours.named_parameters())
    factors = {name: one for name, one in theirs.named_parameters() if one.requires_grad}
    paired = {ours_by_their_name(name): one for name, one in factors.items()}
    assert set(paired) == {name for name, one in own.items() if one.requires_grad}
    with torch.no_grad():
        for name, one in paired.items():
            if "magnitude" not in name:
                one.copy_(own[name])
    tokens = tokens_of()
    # Their layers repack their bits at an evaluation, after which no gradient passes.
    found, wanted = trained(ours, tokens), trained(theirs.train(), tokens)
    assert found == pytest.approx(wanted, abs=close)
    assert found[-1] < found[0]

    # An evaluation between steps changes nothing of them.
    ours.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        ours(tokens)
    ours.train()
    _, again = ours_with(tmp_path / "base", adapter, quantization=quantization)
    again.load_state_dict(ours.state_dict(), strict=True)
    assert trained(ours, tokens)[:3] == trained(again, tokens)[:3]

    # Merged, it computes the same with numbers of 32 bits.
    merged = merge_decoder(ours, section)
    assert {one.dtype for one in merged.parameters()} == {torch.float32}
    with torch.no_grad():
        assert torch.allclose(merged(tokens), ours(tokens), atol=2e-5)


@pytest.mark.extended
@pytest.mark.parametrize("quantization", ["nf4", "int8"])
@pytest.mark.parametrize("base", ["llama", "gpt2"])
def test_a_quantised_base_takes_the_memory_that_is_planned(
    base: str, quantization: str, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    from trainwright.model.adapters.quantized_linear import Int8Linear, Nf4Linear

    shapes = {"gpt2": {"n_embd": 256, "n_layer": 1, "n_head": 4}}
    llama = {**LLAMA, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 1}
    values = {**BASES[base][1], **shapes.get(base, llama)}
    write_decoder(base, values, tmp_path / "base")
    section, network = ours_with(tmp_path / "base", {"kind": "lora"}, quantization=quantization)
    held = sum(one.nbytes for one in network.parameters() if not one.requires_grad)
    for layer in network.modules():
        if isinstance(layer, Nf4Linear):
            state = layer.weight.quant_state
            parts = (state.absmax, state.state2.absmax, state.state2.code, state.offset)
            held += sum(one.nbytes for one in parts)
        if isinstance(layer, Int8Linear):
            held += layer.scale.nbytes
    planned = network_family(section).frozen_bytes(section, TokenShape(131))
    assert planned == pytest.approx(held, rel=1e-3)
    whole = network_family(section).count_frozen(section, TokenShape(131)) * 4
    assert planned < (0.35 if quantization == "nf4" else 0.45) * whole
