"""Maximal update parametrization: table 8 of Tensor Programs V, and what it is for."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor
from torch.nn import functional

from trainwright.contract.sections.model.gpt import Gpt, Mup
from trainwright.contract.sections.training.optimizer import AdamW
from trainwright.model.families import network_family
from trainwright.model.gpt.gpt_network import GptNetwork
from trainwright.model.input_shape import TokenShape
from trainwright.optim.build_optimizer import build_optimizer

pytestmark = pytest.mark.torch

SHAPE = TokenShape(31)
WIDTHS = (32, 64, 128, 256)
RATE, DECAY = 0.02, 0.1


def section(width: int, base: int = 0, heads: int = 2, base_heads: int = 0) -> Gpt:
    init = Mup(kind="mup", base_width=base, base_heads=base_heads) if base else "usual"
    shape = {"layers": 2, "heads": heads, "width": width, "context": 16, "tied": False}
    return Gpt(kind="gpt", init=init, norm="rms", feed_forward="swiglu", **shape)


def made(one: Gpt) -> GptNetwork:
    torch.manual_seed(3)
    network = network_family(one).build(one, SHAPE)
    assert isinstance(network, GptNetwork)
    return network


def optimizer_of(one: Gpt, network: GptNetwork) -> torch.optim.Optimizer:
    factors = network_family(one).width_factors(one, network)
    chosen = AdamW(learning_rate=RATE, weight_decay=DECAY)
    optimizer = build_optimizer(chosen, network, 8, width_factors=factors)
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer


def test_a_model_of_the_base_width_is_the_usual_one() -> None:
    usual, scaled = made(section(32)), made(section(32, base=32, base_heads=2))
    assert all(
        torch.equal(a, b) for a, b in zip(usual.parameters(), scaled.parameters(), strict=True)
    )
    tokens = torch.arange(16)[None] % 31
    assert torch.equal(usual(tokens), scaled(tokens))
    groups = optimizer_of(section(32, base=32), scaled).param_groups
    assert [(one["lr"], one["weight_decay"]) for one in groups] == [(RATE, DECAY), (RATE, 0.0)]


def test_the_table() -> None:
    """Deviation, learning rate and decay of each kind of weight at four times the base width."""
    one = section(256, base=64)
    network = made(one)
    by_parameter = {
        parameter: (group["lr"], group["weight_decay"])
        for group in optimizer_of(one, network).param_groups
        for parameter in group["params"]
    }
    end = 1 / math.sqrt(2 * one.layers)
    for name, parameter in network.named_parameters():
        hidden = name.startswith("blocks.") and parameter.ndim > 1
        rate, decay = by_parameter[parameter]
        assert rate == pytest.approx(RATE / 4 if hidden else RATE), name
        never = parameter.ndim < 2 or name == "embedding.weight"
        assert decay == pytest.approx(0 if never else DECAY * 4 if hidden else DECAY), name
        # A step decays each matrix by the same share.
        assert never or rate * decay == pytest.approx(RATE * DECAY), name
        if parameter.ndim > 1:
            ends = name.endswith(("attended.weight", "narrow.weight"))
            wanted = 0.02 * (0.5 if hidden else 1) * (end if ends else 1)
            assert float(parameter.detach().std()) == pytest.approx(wanted, rel=0.05), name
    tokens = torch.arange(16)[None] % 31
    network.output_factor = 1.0
    plain = network(tokens)
    network.output_factor = 0.25
    assert torch.allclose(network(tokens), plain / 4, atol=1e-7)


def test_attention_is_divided_by_the_width_of_a_head() -> None:
    """Of a head of 64, and 16 in the base: q k / 64 x sqrt(16), in place of q k / 8."""
    one = section(128, base=32, base_heads=2)
    assert one.head_width == 64
    assert one.attention_factor / math.sqrt(64) == pytest.approx(math.sqrt(16) / 64)
    network = made(one)
    other = made(one.model_copy(update={"init": Mup(kind="mup", base_width=32)}))
    projected = torch.randn(1, 4, 3 * 128)
    ours, keys, values = network.split("blocks.0", projected)
    theirs, other_keys, other_values = other.split("blocks.0", projected)
    assert torch.allclose(ours, theirs * 0.5)
    assert torch.equal(keys, other_keys)
    assert torch.equal(values, other_values)


def coordinates(one: Gpt, steps: int = 4) -> dict[str, float]:
    """Mean size of the change of activations after some steps, by their place."""
    network, seen = made(one), {}

    def watch(name: str) -> None:
        def hook(_module: object, _inputs: object, output: Tensor) -> None:
            seen[name] = output.detach()

        network.get_submodule(name).register_forward_hook(hook)

    for name in ("blocks.0", "blocks.1"):
        watch(name)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 31, (8, 17), generator=draw)
    optimizer, before = optimizer_of(one, network), {}
    for step in range(steps + 1):
        logits = network(tokens[:, :-1])
        seen["logits"] = logits.detach()
        if step == 0:
            before = dict(seen)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        if step < steps:
            optimizer.step()
    return {name: float((seen[name] - before[name]).abs().mean()) for name in seen}


@pytest.mark.extended
def test_coordinates_change_alike_at_every_width() -> None:
    """Coordinate check (Yang et al. 2022, appendix D.1): under mup the change of every activation
    after some steps of Adam does not grow with the width; under the usual scale it does."""
    growth: dict[str, dict[str, float]] = {}
    for name, base in (("mup", WIDTHS[0]), ("usual", 0)):
        sizes = [coordinates(section(width, base, heads=width // 16)) for width in WIDTHS]
        growth[name] = {
            place: math.log2(sizes[-1][place] / sizes[0][place]) / math.log2(WIDTHS[-1] / WIDTHS[0])
            for place in sizes[0]
        }
    assert all(abs(slope) < 0.25 for slope in growth["mup"].values()), growth
    assert growth["usual"]["logits"] > 0.5, growth
