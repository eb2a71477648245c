"""On a GPU: the moments lie in the host's memory, the bits stay, and nothing waits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.data.loading.feed import Batch, StepBatches  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.state_offload import OffloadedOptimizer  # noqa: E402

pytestmark = pytest.mark.gpu


def objective(model: nn.Module, batch: Batch) -> LossSum:
    return LossSum(model(batch[0]).square().sum(), len(batch[0]))


def trained(part_bytes: int, name: str) -> tuple[list[bytes], int]:
    """The bits after some steps, and the bytes that stay on the device; 0 parts keep it there."""
    torch.manual_seed(0)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).cuda()
    makers = {
        "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True),
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True),
    }
    inner = makers[name]()
    if name == "sgd":
        for parameter in model.parameters():
            inner.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    optimizer = OffloadedOptimizer(inner, part_bytes) if part_bytes else inner
    step = OptimizerStep(model, objective, optimizer, max_norm=1.0)
    draw = torch.Generator("cuda").manual_seed(1)
    works = [
        StepBatches(
            [(torch.randn(32, 512, device="cuda", generator=draw),)], 32, 32, 32 * n, 0, 0.0
        )
        for n in range(1, 12)
    ]
    step(works[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        for work in works[1:]:
            step(work)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    state = OptimizerState(optimizer, model.named_parameters()).snapshot().tensors
    if part_bytes:
        assert all(one.is_pinned() for one in state.values() if one.ndim)
    tensors = [*model.state_dict().values(), *(state[key] for key in sorted(state))]
    bits = [one.detach().cpu().numpy().tobytes() for one in tensors]
    for parameter in model.parameters():
        parameter.grad = None
    del state, tensors, works
    return bits, torch.cuda.memory_allocated() - before


@pytest.mark.parametrize("name", ["adamw", "sgd"])
@pytest.mark.parametrize("part_bytes", [1, 3 * 2**20, 2**26])
def test_the_bits_stay_and_the_moments_leave_the_device(name: str, part_bytes: int) -> None:
    there, memory = trained(0, name)
    away, less = trained(part_bytes, name)
    assert away == there
    weights = 8 * (512 * 512 + 512) * 4
    moments = weights * (2 if name == "adamw" else 1)
    assert memory - less > 0.9 * moments
