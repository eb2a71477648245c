"""FT-Transformer beside equations 1 to 3 of its paper (Gorishniy et al. 2021, arXiv:2106.11959),
written out: every token in every block, one head after the other, categories as one-hot rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from trainwright.contract.sections.model.table_networks import FtTransformer  # noqa: E402
from trainwright.data.loading.feed import Batch, Feed  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import TableShape  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.parameter_groups import group_parameters  # noqa: E402

pytestmark = pytest.mark.torch

Weights = Mapping[str, Tensor]

SECTIONS = (
    FtTransformer(
        kind="ft_transformer", width=12, heads=3, attention_dropout=0.0, hidden_dropout=0.0
    ),
    FtTransformer(
        kind="ft_transformer",
        width=8,
        heads=2,
        layers=1,
        activation="gelu",
        attention_dropout=0.0,
        hidden_dropout=0.0,
    ),
)
SHAPES = (TableShape(3, (4, 2), 3), TableShape(2, (), 1), TableShape(0, (5,), 2))


def tokens_of(w: Weights, shape: TableShape, numeric: Tensor, codes: Tensor) -> Tensor:
    rows = []
    for x, row in zip(numeric, codes, strict=True):
        own = [w["tokenizer.cls"]]
        for j in range(shape.numeric):
            own.append(w["tokenizer.bias"][j] + x[j] * w["tokenizer.numbers.0.weight"][j])
        for j, size in enumerate(shape.cardinalities):
            one_hot = functional.one_hot(row[j], size).to(x.dtype)
            lookup = w[f"tokenizer.categories.{j}.weight"]
            own.append(w["tokenizer.bias"][shape.numeric + j] + one_hot @ lookup)
        rows.append(torch.stack(own))
    return torch.stack(rows)


def norm(x: Tensor, w: Weights, name: str) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def attention(x: Tensor, w: Weights, block: str, heads: int) -> Tensor:
    queries = linear(x, w, f"{block}.queries")
    keys, values = linear(x, w, f"{block}.keys_values").split(x.shape[-1], dim=-1)
    size = x.shape[-1] // heads
    found = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = queries[..., part] @ keys[..., part].transpose(1, 2) / math.sqrt(size)
        chances = scores.exp() / scores.exp().sum(-1, keepdim=True)
        found.append(chances @ values[..., part])
    return linear(torch.cat(found, -1), w, f"{block}.attended")


def forward(
    w: Weights, section: FtTransformer, shape: TableShape, numeric: Tensor, codes: Tensor
) -> Tensor:
    x = tokens_of(w, shape, numeric, codes)
    for number in range(section.layers):
        block = f"blocks.{number}"
        normed = norm(x, w, f"{block}.before_attention") if number else x
        x = x + attention(normed, w, block, section.heads)
        wide = linear(norm(x, w, f"{block}.before_forward"), w, f"{block}.wide")
        if section.activation == "reglu":
            half = wide.shape[-1] // 2
            inner = wide[..., :half] * wide[..., half:].clamp(min=0)
        else:
            inner = wide * (1 + torch.erf(wide / math.sqrt(2))) / 2
        x = x + linear(inner, w, f"{block}.narrow")
    return linear(norm(x, w, "norm")[:, 0].clamp(min=0), w, "head")


def rows_of(shape: TableShape) -> tuple[Tensor, Tensor]:
    columns = [torch.randint(size, (6,)) for size in shape.cardinalities]
    codes = torch.stack(columns, 1) if columns else torch.zeros(6, 0, dtype=torch.int64)
    return torch.randn(6, shape.numeric, dtype=torch.float64), codes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("section", SECTIONS)
def test_it_trains_as_the_equations_do(section: FtTransformer, shape: TableShape) -> None:
    torch.manual_seed(2)
    network = build_network(section, shape).double().train()
    ours = dict(network.named_parameters())
    theirs = {name: one.detach().clone().requires_grad_() for name, one in ours.items()}
    groups = [group.options(0.01, 0.01) for group in group_parameters(network)]
    free = ("tokenizer.", "norm.", "before_attention.", "before_forward.")
    decayed = {
        name
        for name in theirs
        if not any(part in name for part in free) and not name.endswith("bias")
    }
    by_hand = torch.optim.AdamW(
        [
            {"params": [theirs[name] for name in theirs if name in decayed]},
            {"params": [theirs[n] for n in theirs if n not in decayed], "weight_decay": 0.0},
        ],
        lr=0.01,
        weight_decay=0.01,
    )
    optimizer = torch.optim.AdamW(groups)
    for _ in range(4):
        numeric, codes = rows_of(shape)
        outputs, expected = network(numeric, codes), forward(theirs, section, shape, numeric, codes)
        assert torch.allclose(outputs, expected, rtol=0, atol=1e-10)
        for optimizing, made in ((optimizer, outputs), (by_hand, expected)):
            optimizing.zero_grad()
            made.square().sum().backward()
            optimizing.step()
    for name, one in ours.items():
        assert torch.allclose(one, theirs[name], rtol=0, atol=1e-8), name


@pytest.mark.parametrize("micro", [1, 2, 3, 6])
def test_micro_batches_make_the_step_of_the_equations(micro: int) -> None:
    torch.manual_seed(3)
    section, shape = SECTIONS[0], SHAPES[0]
    network = build_network(section, shape).double().train()
    theirs = {name: one.detach().clone() for name, one in network.named_parameters()}
    numeric, codes = rows_of(shape)
    arrays = [numeric, codes, torch.tensor([0, 2, 1, 1, 0, 2])]
    feed = Feed(arrays, micro, 6 // micro, seed=7)
    step = OptimizerStep(network, summed, torch.optim.SGD(network.parameters(), lr=0.5))
    for _ in range(3):
        before = feed.samples
        work = feed.next_step()
        x, c, y = (array[feed.rows_between(before, work.samples)] for array in arrays)
        parts = {name: one.requires_grad_() for name, one in theirs.items()}
        loss = functional.cross_entropy(forward(parts, section, shape, x, c), y)
        slopes = torch.autograd.grad(loss, list(parts.values()))
        theirs = {
            name: (one - 0.5 * slope).detach()
            for (name, one), slope in zip(parts.items(), slopes, strict=True)
        }
        assert float(step(work).loss) == pytest.approx(loss.item(), rel=1e-10)
    for name, one in network.named_parameters():
        assert torch.allclose(one, theirs[name], rtol=0, atol=1e-10), name


def summed(model: nn.Module, batch: Batch) -> LossSum:
    numeric, codes, target = batch
    loss = functional.cross_entropy(model(numeric, codes), target, reduction="sum")
    return LossSum(loss, len(target))


def test_the_first_values_are_those_of_the_authors() -> None:
    network = build_network(FtTransformer(kind="ft_transformer"), TableShape(40, (30, 20), 2))
    bound = 192**-0.5
    for name, one in network.named_parameters():
        if name.startswith("tokenizer."):
            assert 0.9 * bound < float(one.detach().abs().max()) <= bound, name
    shapes = {name: tuple(one.shape) for name, one in network.named_parameters()}
    assert shapes["blocks.1.wide.weight"] == (512, 192)
    assert shapes["blocks.1.narrow.weight"] == (192, 256)
    assert "blocks.0.before_attention.weight" not in shapes
    assert "blocks.1.before_attention.weight" in shapes
