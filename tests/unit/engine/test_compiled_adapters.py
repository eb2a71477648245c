"""Adapters and frozen weights under a compiler: one graph, and the numbers of the usual kernels.

The graph is run by torch's own kernels: what kernels of a compiler compute is not asked here.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")

import torch
from torch import Tensor, nn

from faults.tiers import in_test
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base
from trainwright.data.loading.batch import Batch, TargetMask
from trainwright.engine.execution.compile import compiling
from trainwright.model.adapters.inject_adapter import let_compiler_read_weights
from trainwright.model.families import network_family
from trainwright.model.input_shape import TokenShape
from trainwright.objective.classification_losses import CrossEntropyLoss
from trainwright.objective.losses import Supervised

pytestmark = pytest.mark.torch

TOKENS = 61
ADAPTERS: dict[str, dict[str, Any]] = {
    "lora": {"kind": "lora", "rank": 2},
    "dora": {"kind": "dora", "rank": 2},
    "ia3": {"kind": "ia3"},
    "prompt": {"kind": "prompt_tuning", "tokens": 3},
}


def network(adapter: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    section = Gpt(
        kind="gpt", architecture="base", layers=1, heads=2, width=16, context=12, norm="rms",
        feed_forward="swiglu", base=Base(config='{"model_type": "llama"}', weights="0"),
        adapter=adapter,
    )  # fmt: skip
    made = network_family(section).build_empty(section, TokenShape(TOKENS)).train()
    for name, parameter in made.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, 0.0, 0.1)
    return made


def packed() -> Batch:
    draw = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, TOKENS, (3, 13), generator=draw)
    starts = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]).expand(3, -1)
    counted = torch.rand(3, 12, generator=draw) < 0.6
    tensors = {"input": tokens[:, :-1], "input_1": starts, "target": tokens[:, 1:]}
    return Batch(tensors, target="target", mask=TargetMask(counted, counted))


def gradients(model: nn.Module, loss: Any) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    total, count = loss(model, packed())
    (total / count).backward()
    found = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return total.detach(), found


@pytest.mark.parametrize("kind", in_test(4, list(ADAPTERS), start=1))
def test_an_adapted_decoder_is_one_graph(kind: str) -> None:
    model, objective = network(ADAPTERS[kind]), Supervised(CrossEntropyLoss())

    def compute(model: nn.Module, batch: Batch) -> Any:
        return objective(model, batch)

    graphs = []

    def run_as_it_is(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    let_compiler_read_weights()
    traced = torch.compile(compute, dynamic=False, backend=run_as_it_is)
    with compiling("on"):
        usual, compiled = gradients(model, objective), gradients(model, traced)
    assert len(graphs) == 1
    assert torch.equal(usual[0], compiled[0])
    assert set(usual[1]) == set(compiled[1])
    assert usual[1], "something is trained"
    for name, gradient in usual[1].items():
        assert torch.allclose(compiled[1][name], gradient, rtol=1e-5, atol=1e-9), name
