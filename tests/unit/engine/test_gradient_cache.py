"""A loss over all pairs of a step does not depend on its micro-batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from trainwright.contract.sections.model.dual_encoder import DualEncoder  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.distributed.rank_share import RankShare  # noqa: E402
from trainwright.distributed.strategy import Strategy  # noqa: E402
from trainwright.engine.update.gradient_cache import GradientCache  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.model.dual_encoder.dual_encoder_family import DualEncoderFamily  # noqa: E402
from trainwright.model.input_shape import PairShape  # noqa: E402
from trainwright.objective.contrastive import ContrastiveLoss  # noqa: E402
from trainwright.testing.fake_strategy import FakeRanks  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = 12
SHAPE = PairShape((3, 8, 8), (120.0,) * 3, (60.0,) * 3, vocabulary=11, length=5, outputs=32)
SECTION = DualEncoder.model_validate(
    {
        "kind": "dual_encoder",
        "width": 16,
        "image": {"kind": "resnet", "width": 8, "blocks": (1,), "dropout": 0.0},
        "text": {"kind": "transformer", "width": 16, "layers": 1, "heads": 2, "dropout": 0.0},
    }
)


def pairs(codes: Tensor | None = None) -> Batch:
    draw = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (ROWS, 3, 8, 8), generator=draw, dtype=torch.uint8)
    tokens = torch.randint(1, 11, (ROWS, 5), generator=draw)
    mask = torch.ones_like(tokens)
    mask[::2, 3:] = 0
    target = torch.arange(ROWS)[:, None].expand(-1, 2) if codes is None else codes
    names = {"pixels": pixels, "input_ids": tokens, "attention_mask": mask, "target": target}
    return Batch(names)


def network(section: DualEncoder = SECTION) -> nn.Module:
    torch.manual_seed(0)
    model = DualEncoderFamily().build(section, SHAPE)
    for module in model.modules():  # the last convolution of a block starts at zero
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=0.1)
    return model


def gradients(model: nn.Module, batch: Batch, sizes: list[int]) -> tuple[float, dict[str, Tensor]]:
    """Mean loss and gradients of a step in micro-batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    cache = GradientCache(ContrastiveLoss())
    step = OptimizerStep(model, cache, optimizer).looking_ahead(cache.look_ahead)
    outcome = step(StepBatches(batch.split(sizes), ROWS, ROWS, ROWS, 0, 0.0))
    found = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return float(outcome.loss), {name: one.clone() for name, one in found.items()}


def check_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor | None]) -> None:
    """Within 1e-6 of the gradient's norm."""
    norm = sum(float(one.square().sum()) for one in expected.values() if one is not None) ** 0.5
    for name, one in expected.items():
        assert one is not None, name
        assert float((found[name] - one).abs().max()) <= 1e-6 * norm, name


@pytest.mark.parametrize("sizes", [[6, 6], [5, 4, 3], [1] * 12])
@pytest.mark.parametrize("shares", [False, True])
def test_micro_batches_give_the_gradient_of_the_whole_step(sizes: list[int], shares: bool) -> None:
    codes = torch.stack([torch.arange(ROWS) // 2, torch.arange(ROWS) % 7], dim=1)
    batch = pairs(codes if shares else None)
    model = network()
    whole_loss, whole = gradients(copy.deepcopy(model), batch, [ROWS])
    loss, cut = gradients(copy.deepcopy(model), batch, sizes)
    assert loss == pytest.approx(whole_loss, abs=1e-6)
    assert whole.keys() == cut.keys() == dict(model.named_parameters()).keys()
    check_equal(cut, whole)


def test_a_plain_sum_over_micro_batches_is_another_loss() -> None:
    model, batch = network(), pairs()
    loss = ContrastiveLoss()
    with torch.no_grad():
        parts = [loss.total(model(*one.inputs), one.target).sum for one in batch.split([6, 6])]
        whole = loss.total(model(*batch.inputs), batch.target).sum
    assert abs(float(sum(parts) - whole)) > 1


def test_both_passes_draw_the_same_dropout() -> None:
    """Another draw in the second pass would give the gradient of another function: checked against
    a single graph whose micro-batches draw one after the other."""
    text = SECTION.text.model_copy(update={"dropout": 0.5})
    section = SECTION.model_copy(update={"text": text})
    model, batch, sizes = network(section), pairs(), [5, 4, 3]
    torch.manual_seed(7)
    _, cut = gradients(model, batch, sizes)
    after = torch.get_rng_state()
    torch.manual_seed(7)
    outputs = torch.cat([model(*one.inputs) for one in batch.split(sizes)])
    assert torch.equal(torch.get_rng_state(), after)
    model.zero_grad()
    (ContrastiveLoss().total(outputs, batch.target).sum / ROWS).backward()
    check_equal(cut, {name: one.grad for name, one in model.named_parameters()})


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("cut", [1, 2])
def test_ranks_give_the_gradient_of_one_process(ranks: int, cut: int) -> None:
    """Of a dual encoder in fp64, with pairs that share an image or a caption with those of other
    ranks."""
    codes = torch.stack([torch.arange(ROWS) // 2, torch.arange(ROWS) % 7], dim=1)
    batch, start = pairs(codes), network().double()
    _, whole = gradients(copy.deepcopy(start), batch, [ROWS])
    norm = sum(float(one.square().sum()) for one in whole.values()) ** 0.5

    def trained(strategy: Strategy) -> dict[str, Tensor]:
        model = strategy.wrap(copy.deepcopy(start))
        cache = GradientCache(ContrastiveLoss())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        step = OptimizerStep(model, cache, optimizer, strategy=strategy)
        share = RankShare(strategy.rank, strategy.world_size)
        own = batch.apply(lambda one: one[share.bounds(len(one))])
        sizes = [len(part) for part in np.array_split(np.arange(len(own.target)), cut)]
        step.looking_ahead(cache.look_ahead)(
            StepBatches(own.split(sizes), ROWS, ROWS, ROWS, 0, 0.0)
        )
        return {
            name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None
        }

    for found in FakeRanks(ranks).run(trained):
        assert found.keys() == whole.keys()
        for name, one in whole.items():
            assert float((found[name] - one).abs().max()) <= 1e-12 * norm, name


def test_the_temperature_stays_below_a_factor_of_100() -> None:
    model = network()
    with torch.no_grad():
        model.get_parameter("log_scale").fill_(9.0)
    model.train()
    outputs = model(*pairs().inputs)
    scale = float(outputs[0, :16].detach().square().sum())
    assert scale == pytest.approx(100, rel=1e-5)
    assert float(model.get_parameter("log_scale").detach()) == pytest.approx(np.log(100), abs=1e-6)
    (-outputs.sum()).backward()
    assert model.get_parameter("log_scale").grad is not None
    assert float(model.get_parameter("log_scale").grad) != 0  # type: ignore[arg-type]
