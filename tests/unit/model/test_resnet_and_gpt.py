from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from faults.tiers import in_test  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.data.base.inputs import ImageInputs  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.columns.class_target import Classes, NextToken  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import ImageShape, TokenShape, shape_from_json  # noqa: E402
from trainwright.model.residual import Residual, skip_chances  # noqa: E402
from trainwright.predictor.network_scorer import NetworkScorer, read_network  # noqa: E402

IMAGES = ImageShape((1, 12, 10), (30.0,), (50.0,), 3)
RESNETS = [
    ResNet(kind="resnet", width=8),
    ResNet(kind="resnet", width=12, blocks=(2,), stem="half", norm="batch", dropout=0.2),
    ResNet(kind="resnet", width=5, blocks=(1, 2), stochastic_depth=0.3),
    ResNet(kind="resnet", width=5, blocks=(1, 2), pool_grid=3),
]
GPTS = [
    Gpt(kind="gpt", layers=2, heads=2, width=16, context=8),
    Gpt(kind="gpt", layers=1, heads=4, width=16, context=8, positions="learned"),
]


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("section", RESNETS)
def test_a_resnet_gives_logits_and_has_the_counted_parameters(section: ResNet) -> None:
    model = build_network(section, IMAGES)
    pixels = torch.randint(0, 256, (6, 1, 12, 10), dtype=torch.uint8)
    assert model(pixels).shape == (6, 3)
    assert parameters(model) == network_family(section).count_parameters(section, IMAGES)
    assert torch.equal(model.eval()(pixels), model(pixels.float()))
    weight = next(p for p in model.parameters() if p.ndim == 4 and p.shape[1] > 1)
    assert weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("grid", [1, 2, 3, 5])
def test_a_grid_of_means_keeps_where_something_is(grid: int) -> None:
    """As torch pools adaptively where the cells divide the places, and sums of cells anywhere."""
    model = build_network(ResNet(kind="resnet", width=8, blocks=(1,), pool_grid=grid), IMAGES)
    pool = list(model.get_submodule("body").children())[-3]
    x = torch.randn(2, 8, 10, 10, dtype=torch.float64)
    cells = pool(x).unflatten(1, (grid, grid, 8)).permute(0, 3, 1, 2) if grid > 1 else pool(x)
    if 10 % grid == 0:
        expected = torch.nn.functional.adaptive_avg_pool2d(x, grid)
        torch.testing.assert_close(cells.reshape(2, 8, grid, grid), expected)
    else:
        torch.testing.assert_close(cells[:, :, 0, 0], x[:, :, :4, :4].mean(dim=(2, 3)))
        torch.testing.assert_close(cells[:, :, 2, 1], x[:, :, 7:, 4:7].mean(dim=(2, 3)))


@pytest.mark.parametrize(
    ("width", "size"),
    in_test(2, [(3, 12), (4, 12), (7, 12), (8, 12), (9, 12), (8, 64), (12, 64), (15, 64)]),
)
def test_gradients_are_those_of_doubles_with_few_channels_too(width: int, size: int) -> None:
    """A strided convolution over fewer channels than a register has floats spoils its memory."""
    torch.manual_seed(0)
    model = build_network(ResNet(kind="resnet", width=width, blocks=(1, 1)), IMAGES)
    exact = copy.deepcopy(model).double()
    for seed in range(20 if size < 64 else 4):
        torch.manual_seed(seed)
        pixels = torch.randint(0, 256, (4, 1, size, size - 2), dtype=torch.uint8)
        towards = torch.randn(4, 3)
        for one in (model, exact):
            one.zero_grad()
            one(pixels).backward(towards.to(next(one.parameters()).dtype))
        for ours, theirs in zip(model.parameters(), exact.parameters(), strict=True):
            torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-3, atol=1e-4)


def test_group_norm_keeps_images_apart() -> None:
    model = build_network(RESNETS[0], IMAGES).train()
    pixels = torch.randint(0, 256, (6, 1, 12, 10), dtype=torch.uint8)
    torch.testing.assert_close(model(pixels)[:2], model(pixels[:2]))


@pytest.mark.parametrize("section", GPTS)
def test_a_gpt_never_looks_ahead(section: Gpt) -> None:
    model = build_network(section, TokenShape(11)).eval()
    tokens = torch.randint(0, 11, (3, 8))
    out = model(tokens)
    assert out.shape == (3, 8, 11)
    assert parameters(model) == network_family(section).count_parameters(section, TokenShape(11))
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    again = model(changed)
    torch.testing.assert_close(out[:, :5], again[:, :5])
    assert not torch.allclose(out[:, 5:], again[:, 5:])


@pytest.mark.parametrize("section", GPTS)
def test_a_gpt_knows_the_order_of_what_it_sees(section: Gpt) -> None:
    torch.manual_seed(0)
    model = build_network(section, TokenShape(11)).eval()
    tokens = torch.tensor([[1, 2, 3, 4], [2, 1, 3, 4]])
    out = model(tokens)[:, -1]
    assert float((out[0] - out[1]).detach().abs().max()) > 1e-7


def test_stochastic_depth_skips_rows_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    block = Residual(torch.nn.Identity(), 0.25).train()
    out = block(torch.ones(40_000, 2))
    assert sorted(out.unique().tolist()) == pytest.approx([1.0, 1 + 4 / 3])
    assert float(out.mean()) == pytest.approx(2, abs=0.01)
    assert torch.equal(block.eval()(torch.ones(3, 2)), torch.full((3, 2), 2.0))
    assert skip_chances(4, 0.2) == pytest.approx([0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize("shape", [IMAGES, TokenShape(7)])
def test_a_shape_comes_back(shape: ImageShape | TokenShape) -> None:
    assert shape_from_json(shape.to_json()) == shape


@pytest.mark.parametrize("context", [4, 16, 300])
def test_the_surprise_of_a_text_is_that_of_its_tokens(context: int) -> None:
    torch.manual_seed(0)
    section = Gpt(kind="gpt", layers=1, heads=2, width=16, context=context)
    model = build_network(section, TokenShape(9)).eval().requires_grad_(False)
    tokens = np.random.default_rng(0).integers(0, 9, 200).astype(np.uint16)
    inputs = TokenInputs(tokens, np.array([1, 21]), np.array([20, 13]))
    scorer = NetworkScorer(section, TokenShape(9), NextToken(9), model)
    expected = []
    for start, length in ((1, 20), (21, 13)):
        total = 0.0
        for first in range(start, start + length, context):
            end = min(first + context, start + length)
            opened = max(0, end - 1 - context)
            window = torch.from_numpy(tokens[opened:end].astype(np.int64))
            log_p = torch.log_softmax(model(window[None, :-1]), -1)[0]
            chosen = log_p[torch.arange(len(window) - 1), window[1:]]
            total -= float(chosen[-(end - first) :].sum())
        expected.append([total])
    np.testing.assert_allclose(scorer.score(inputs), expected, rtol=1e-5)


def test_networks_come_back_from_their_files(tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    images = ImageInputs.of(np.random.default_rng(0).integers(0, 256, (5, 1, 12, 10), np.uint8))
    text = TokenInputs(np.arange(50, dtype=np.uint16) % 9, np.array([1, 9]), np.array([8, 8]))
    cases = [
        (RESNETS[1], IMAGES, Classes("label", ("a", "b", "c"), -1), images),
        (GPTS[0], TokenShape(9), NextToken(9), text),
    ]
    for number, (section, shape, target, inputs) in enumerate(cases):
        scorer = NetworkScorer(section, shape, target, build_network(section, shape).eval())
        folder = tmp_path / str(number)
        folder.mkdir()
        scorer.write(folder)
        np.testing.assert_array_equal(read_network(folder).score(inputs), scorer.score(inputs))
