"""Activations that are computed again or wait in the host's memory: the same bits, less memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.autograd.graph import saved_tensors_hooks  # noqa: E402
from torch.nn import functional  # noqa: E402

from faults.tiers import in_test  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.contract.sections.model.table_networks import (  # noqa: E402
    FtTransformer,
    Mlp,
    TabularResNet,
)
from trainwright.contract.sections.model.traits import ModelSection  # noqa: E402
from trainwright.contract.sections.training.memory import ActivationCheckpointing, ByOp, EveryNth  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Batch, StepBatches  # noqa: E402
from trainwright.engine.execution.activation_checkpointing import recompute  # noqa: E402
from trainwright.engine.execution.activation_offload import Offloading  # noqa: E402
from trainwright.engine.signals.attention_entropy import AttentionEntropy  # noqa: E402
from trainwright.engine.signals.network_inspection import Activations, SilentUnits  # noqa: E402
from trainwright.engine.signals.telemetry import Window  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import ImageShape, Shape, TableShape, TokenShape  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402

pytestmark = pytest.mark.torch

MODELS: dict[str, tuple[ModelSection, Shape]] = {
    "gpt": (Gpt(kind="gpt", layers=3, width=32, heads=2, context=16), TokenShape(19)),
    "gpt, dropout": (
        Gpt(kind="gpt", layers=3, width=32, heads=2, context=16, dropout=0.2),
        TokenShape(19),
    ),
    "resnet": (
        ResNet(kind="resnet", width=8, blocks=(1, 2), stochastic_depth=0.3),
        ImageShape((1, 12, 12), (120.0,), (60.0,), 5),
    ),
    "resnet, batch norm": (
        ResNet(kind="resnet", width=8, blocks=(1, 2), norm="batch"),
        ImageShape((1, 12, 12), (120.0,), (60.0,), 5),
    ),
    "tabular_resnet": (
        TabularResNet(kind="tabular_resnet", width=16, blocks=3, stochastic_depth=0.2),
        TableShape(4, (5,), 3),
    ),
    "ft_transformer": (
        FtTransformer(kind="ft_transformer", width=16, heads=2, layers=3, residual_dropout=0.1),
        TableShape(4, (5,), 3),
    ),
}
WAYS: dict[str, ActivationCheckpointing] = {
    "full": "full",
    "every": EveryNth(kind="every", n=2),
    "by_op": ByOp(kind="by_op"),
    "attention": ByOp(kind="by_op", keep=("attention",)),
}


def batch_of(section: ModelSection) -> Batch:
    draw = torch.Generator().manual_seed(4)
    match section:
        case Gpt():
            tokens = torch.randint(0, 19, (6, 17), generator=draw)
            return tokens[:, :-1], tokens[:, 1:]
        case ResNet():
            pixels = torch.randint(0, 256, (6, 1, 12, 12), generator=draw, dtype=torch.uint8)
            return pixels, torch.randint(0, 5, (6,), generator=draw)
        case _:
            return (
                torch.randn(6, 4, generator=draw),
                torch.randint(0, 5, (6, 1), generator=draw),
                torch.randint(0, 3, (6,), generator=draw),
            )


def objective(model: nn.Module, batch: Batch) -> LossSum:
    *inputs, target = batch
    outputs = model(*inputs).flatten(0, -2).float()
    return LossSum(functional.cross_entropy(outputs, target.flatten(), reduction="sum"), 1)


def built(name: str) -> tuple[nn.Module, Batch]:
    section, shape = MODELS[name]
    torch.manual_seed(1)
    model = build_network(section, shape)
    with torch.no_grad():
        for parameter in model.parameters():  # no branch may begin at 0 and hide what comes back
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model, batch_of(section)


def everything(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Loss, gradients, buffers and the next random number, behind a backward pass."""
    found = {"loss": loss.detach(), "next": torch.rand(1)}
    found |= {f"gradient {name}": one.grad for name, one in model.named_parameters()}
    return found | {f"buffer {name}": one.clone() for name, one in model.named_buffers()}


def passed(
    name: str,
    how: ActivationCheckpointing,
    precision: str,
    wrap: Callable[[Any, nn.Module], Any] = lambda objective, _: objective,
) -> dict[str, Tensor]:
    model, batch = built(name)
    names = [parameter for parameter, _ in model.named_parameters()]
    recompute(model.blocks, how)
    assert [parameter for parameter, _ in model.named_parameters()] == names
    assert list(model.state_dict()) == list(built(name)[0].state_dict())
    torch.manual_seed(2)
    cast = torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
    for _ in range(2):
        with cast:
            loss = wrap(objective, model)(model, batch).sum
        loss.backward()
    return everything(model, loss)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_computed_again_has_the_same_bits(name: str, precision: str) -> None:
    kept = passed(name, "off", precision)
    assert all(one is not None and bool(one.any()) for k, one in kept.items() if "gradient" in k)
    for how in WAYS.values():
        again = passed(name, how, precision)
        assert [key for key in kept if not torch.equal(kept[key], again[key])] == [], how


def looked_into(
    name: str, how: ActivationCheckpointing, precision: str, probed: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is left behind two micro-batches, and what was seen in them: the second is added to what
    was seen of the first."""
    model, batch = built(name)
    recompute(model.blocks, how)
    torch.manual_seed(2)
    probes: list[Any] = [Activations(model), SilentUnits(model)] if probed else []
    if probed and isinstance(model, GptNetwork):
        probes.append(AttentionEntropy(model))
    cast = torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
    with ExitStack() as looking:
        for probe in probes:
            looking.enter_context(probe.measuring(StepBatches([], 0, 0, 0, 0, 0.0)))
        for _ in range(2):
            with cast:
                loss = objective(model, batch).sum
            loss.backward()
    window = Window(Progress(), 1.0, 0, 0, ())
    return everything(model, loss), {k: one for p in probes for k, one in p.read(window).items()}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", in_test(2, list(MODELS)))
def test_looking_into_it_sees_the_same_and_changes_nothing(name: str, precision: str) -> None:
    bits, _ = looked_into(name, "off", precision, probed=False)
    _, seen = looked_into(name, "off", precision, probed=True)
    assert seen
    for how in WAYS.values():
        same, also = looked_into(name, how, precision, probed=True)
        assert [key for key in bits if not torch.equal(bits[key], same[key])] == [], how
        assert also.keys() == seen.keys()
        assert [key for key in seen if not torch.equal(seen[key], also[key])] == [], how


def kept_bytes(name: str, how: ActivationCheckpointing) -> int:
    """Bytes of what a forward pass keeps for the backward pass, parameters left out."""
    model, batch = built(name)
    recompute(model.blocks, how)
    own = {one.untyped_storage().data_ptr() for one in (*model.parameters(), *model.buffers())}
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = objective(model, batch).sum
    total = sum(seen.values())
    assert loss.requires_grad
    return total


@pytest.mark.parametrize("name", ["gpt", "resnet", "tabular_resnet", "ft_transformer"])
def test_less_is_kept(name: str) -> None:
    off, full, every = (kept_bytes(name, how) for how in ("off", "full", WAYS["every"]))
    assert full < every < off


def test_the_operations_that_are_kept_are_not_made_again() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        matmuls = 0

        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None):
            self.matmuls += op is torch.ops.aten.mm.default
            return op(*args, **(kwargs or {}))

    counts = {}
    for way in ("off", "full", "by_op"):
        model, batch = built("gpt")
        recompute(model.blocks, WAYS.get(way, "off"))
        loss = objective(model, batch).sum
        with Counting() as counting:
            loss.backward()
        counts[way] = counting.matmuls
    assert counts["by_op"] == counts["off"] < counts["full"]


def test_without_gradients_nothing_is_different() -> None:
    model, batch = built("gpt, dropout")
    model.eval()
    with torch.no_grad():
        before = model(*batch[:-1])
        recompute(model.blocks, "full")
        assert torch.equal(model(*batch[:-1]), before)


def test_a_copy_of_the_model_is_its_own() -> None:
    model, batch = built("gpt")
    recompute(model.blocks, "full")
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    objective(copied, batch).sum.backward()
    assert all(one.grad is not None and bool(one.grad.any()) for one in copied.parameters())
    assert all(one.grad is None for one in model.parameters())


def test_an_mlp_has_no_blocks() -> None:
    assert list(build_network(Mlp(kind="mlp"), TableShape(4, (5,), 3)).blocks) == []


# Offloading. On a CPU the copies go from the host to the host; the contract refuses that.


@pytest.mark.parametrize("how", ["off", "full"])
@pytest.mark.parametrize("name", MODELS)
def test_what_was_away_has_the_same_bits(name: str, how: ActivationCheckpointing) -> None:
    kept = passed(name, "off", "fp32")
    away = passed(name, how, "fp32", lambda inner, model: Offloading(inner, model, fewest_bytes=1))
    assert [key for key in kept if not torch.equal(kept[key], away[key])] == []


def test_parameters_and_small_tensors_stay() -> None:
    model, batch = built("gpt")
    for fewest, expected in ((1, True), (2**30, False)):
        sent: list[Any] = []
        away = Offloading(objective, model, fewest_bytes=fewest)
        inner = away._send

        def send(tensor: Tensor, inner: Any = inner, sent: list[Any] = sent) -> Any:
            packed = inner(tensor)
            if not isinstance(packed, Tensor):
                sent.append(tensor.untyped_storage().data_ptr())
            return packed

        away._send = send
        away(model, batch).sum.backward()
        assert bool(sent) is expected
        assert not {one.untyped_storage().data_ptr() for one in model.parameters()} & set(sent)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_offloading_takes_less_memory_for_the_same_bits() -> None:
    peaks, gradients = [], []
    for wrap in (lambda inner, _: inner, Offloading):
        torch.manual_seed(0)
        section = Gpt(kind="gpt", layers=8, width=256, heads=4, context=256)
        model = build_network(section, TokenShape(65)).cuda()
        tokens = torch.randint(0, 65, (16, 257)).cuda()
        torch.cuda.reset_peak_memory_stats()
        wrap(objective, model)(model, (tokens[:, :-1], tokens[:, 1:])).sum.backward()
        peaks.append(torch.cuda.max_memory_allocated())
        gradients.append([one.grad.clone() for one in model.parameters()])
    assert peaks[1] < 0.6 * peaks[0]
    assert all(map(torch.equal, *gradients))


class Named(nn.Module):
    """Blocks that are called as those of transformers are: by name, also names that torch's own
    checkpointing has."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.dropout = nn.Dropout(0.5)

        def forward(
            self, hidden_states: Tensor, attention_mask: Tensor, *, debug: bool = False
        ) -> Tensor:
            assert debug
            return hidden_states + self.dropout(self.linear(hidden_states).tanh() * attention_mask)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.mask = nn.Parameter(torch.rand(4))
        self.blocks = nn.ModuleList(self.Block() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            x = (
                block(x, attention_mask=self.mask, debug=True)
                if number
                else block(hidden_states=x, attention_mask=self.mask, debug=True)
            )
        return x


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_blocks_may_be_called_by_keyword(how: ActivationCheckpointing) -> None:
    found = []
    for chosen in ("off", how):
        model = Named()
        recompute(model.blocks, chosen)
        torch.manual_seed(2)
        loss = model(torch.ones(5, 4)).square().sum()
        loss.backward()
        found.append(everything(model, loss))
        with torch.no_grad():
            model(torch.ones(5, 4))
    assert [key for key in found[0] if not torch.equal(found[0][key], found[1][key])] == []
