"""How much memory a training takes, by arithmetic and as torch keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.tiers import in_test
from trainwright.contract.document import Contract
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.table_networks import FtTransformer, Mlp, TabularResNet
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.training.memory import OFFLOADED_PART_BYTES
from trainwright.model.families import network_family
from trainwright.model.input_shape import ImageShape, Shape, TableShape, TokenShape
from trainwright.planner.micro_batch_memory import MemoryEstimate, estimate_memory, fit_micro_batch
from trainwright.planner.resolve.training_choices import Choice

TOLERANCE = 0.15

CASES: list[tuple[ModelSection, Shape]] = [
    (Gpt(kind="gpt", layers=3, width=64, heads=4, context=32), TokenShape(65)),
    (Gpt(kind="gpt", layers=2, width=64, heads=2, positions="learned"), TokenShape(30)),
    (Gpt(kind="gpt", layers=3, width=64, heads=2, context=32, dropout=0.1), TokenShape(65)),
    (
        Gpt(kind="gpt", layers=3, width=64, heads=4, positions="learned", dropout=0.1),
        TokenShape(30),
    ),
    (
        ResNet(kind="resnet", width=16, blocks=(2, 1)),
        ImageShape((1, 16, 16), (1.0,), (1.0,), 10),
    ),
    (
        ResNet(kind="resnet", width=8, blocks=(1, 2), stem="half", norm="batch"),
        ImageShape((1, 28, 28), (1.0,), (1.0,), 10),
    ),
    (
        ResNet(kind="resnet", width=8, blocks=(1, 1, 1), stem="half"),
        ImageShape((1, 33, 31), (1.0,), (1.0,), 10),
    ),
    (ResNet(kind="resnet", width=8, blocks=(1,)), ImageShape((16, 33, 31), (1.0,), (1.0,), 10)),
    (Mlp(kind="mlp"), TableShape(8, (5, 12), 2)),
    (Mlp(kind="mlp", activation="silu", dropout=0.0), TableShape(8, (5, 12), 2)),
    (Mlp(kind="mlp", dropout=0.0, hidden=(64, 64)), TableShape(8, (5, 12), 2)),
    (TabularResNet(kind="tabular_resnet"), TableShape(8, (5, 12), 2)),
    (FtTransformer(kind="ft_transformer"), TableShape(8, (5, 12), 2)),
    (
        FtTransformer(kind="ft_transformer", width=32, heads=4, activation="gelu", layers=1),
        TableShape(0, (5, 12), 3),
    ),
    (
        FtTransformer(
            kind="ft_transformer",
            width=64,
            attention_dropout=0.0,
            hidden_dropout=0.0,
            residual_dropout=0.1,
        ),
        TableShape(8, (), 1),
    ),
]


@pytest.mark.torch
@pytest.mark.parametrize(("section", "shape"), CASES)
def test_activations_are_those_that_torch_keeps(section: ModelSection, shape: Shape) -> None:
    pytest.importorskip("torch")
    slope = (kept_bytes(section, shape, 24) - kept_bytes(section, shape, 8)) / 16
    assert 4 * network_family(section).count_activations(section, shape) == pytest.approx(
        slope, rel=TOLERANCE
    )


def kept_bytes(section: ModelSection, shape: Shape, rows: int) -> int:
    """Bytes that a forward pass keeps for the backward pass beside weights and rows."""
    import torch
    from torch.autograd.graph import saved_tensors_hooks
    from torch.nn import functional

    from trainwright.model.build_network import build_network

    torch.manual_seed(0)
    model = build_network(section, shape)
    match section, shape:
        case Gpt(), _:
            tokens = torch.randint(0, shape.outputs, (rows, section.context + 1))
            inputs, target = (tokens[:, :-1],), tokens[:, 1:]
        case ResNet(), ImageShape():
            inputs = (torch.randint(0, 256, (rows, *shape.size), dtype=torch.uint8),)
            target = torch.randint(0, shape.outputs, (rows,))
        case _:
            assert isinstance(shape, TableShape)
            codes = torch.randint(0, 2, (rows, len(shape.cardinalities)))
            inputs = (torch.randn(rows, shape.numeric), codes)
            target = torch.randint(0, shape.outputs, (rows,))
    there = (*model.parameters(), *model.buffers(), *inputs, target)
    own = {one.untyped_storage().data_ptr() for one in there}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = model(*inputs).flatten(0, -2)
        functional.cross_entropy(outputs, target.flatten(), reduction="sum")
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def fitted(tmp_path: Path, device: int, *settings: str, rows: int = 512) -> tuple[int, int, str]:
    """Micro-batch, accumulation and reason for a step of `rows` whose rows take 1,000 bytes each,
    beside 10,000 that are there anyway."""
    from trainwright.contract.reading.read_contract import read_contract

    path = tmp_path / "c.yaml"
    path.write_text(
        "data: {path: a.csv, target: y}\nmodel: {kind: mlp}\n"
        f"training: {{effective_batch_size: {rows}, batch_size: 1, "
        "gradient_accumulation_steps: auto}\n"
    )
    overrides = [f"training.gradient_accumulation_steps={rows}", "distributed.num_gpus=1"]
    contract = read_contract(path, [*overrides, *settings]).contract
    names = ("training.batch_size", "training.gradient_accumulation_steps")
    choices = tuple(Choice(name, 1, "usual") for name in names)
    estimate = MemoryEstimate(2000, 2000, 4000, 1000, 2000, device)
    decided, made = fit_micro_batch(contract, choices, estimate)
    training = decided.training
    return training.batch_size, training.gradient_accumulation_steps, made[0].reason


def test_the_largest_micro_batch_that_fits_is_taken(tmp_path: Path) -> None:
    assert fitted(tmp_path, 10**9)[:2] == (512, 1)
    batch, accumulation, reason = fitted(tmp_path, 300_000)
    assert (batch, accumulation) == (128, 4)  # 230 fit, a fifth left free
    assert "the largest that fits" in reason
    assert fitted(tmp_path, 300_000, "training.memory.margin=0.05")[:2] == (256, 2)
    assert fitted(tmp_path, 300_000, rows=509)[:2] == (1, 509)
    assert fitted(tmp_path, 5_000)[:2] == (1, 512)


def test_a_limit_of_places_is_what_batches_need(tmp_path: Path) -> None:
    from trainwright.contract.reading.read_contract import read_contract

    path = tmp_path / "c.yaml"
    path.write_text(
        "data: {kind: tokens, path: a.txt, windows: padded}\nmodel: {kind: gpt, context: 64}\n"
        "training: {effective_batch_size: 128, batch_size: 128, gradient_accumulation_steps: 1,\n"
        "           optimizer: {learning_rate: 0.1}}\n"
    )

    def planned(device: int, *settings: str) -> tuple[int, object]:
        contract = read_contract(path, ["distributed.num_gpus=1", *settings]).contract
        made = tuple(
            Choice(f"training.{name}", 1, "usual")
            for name in ("batch_size", "gradient_accumulation_steps")
        )
        memory = estimate_memory(contract, contract.model, TokenShape(65), 1000, (0, device))
        decided, _ = fit_micro_batch(contract, made, memory)
        return memory.activations, decided.training.batch_size

    limit = "data.padding.max_tokens=1024"
    whole, batch = planned(10**12)
    assert batch == 128
    assert planned(10**12, limit) == (whole // 8, 128)
    # Memory for 64 of 128 documents: 16 of them fit, so the limit suffices.
    room = round(whole / 2 / 0.8) + 10**6
    assert planned(room)[1] == 64
    assert planned(room, limit)[1] == 128
    # And where not even that many fit, fewer are taken.
    assert planned(room // 16, limit)[1] == 4


def test_nothing_is_chosen_where_the_memory_is_not_known(tmp_path: Path) -> None:
    assert fitted(tmp_path, 0)[:2] == (1, 512)


@pytest.mark.torch
@pytest.mark.parametrize(("section", "shape"), in_test(2, CASES))
def test_arithmetic_gives_what_the_network_itself_shows(
    section: ModelSection, shape: Shape
) -> None:
    torch = pytest.importorskip("torch")
    from trainwright.model.count_network import count_network

    before = torch.random.get_rng_state()
    family = network_family(section)
    counts = count_network(family, section, shape)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert counts.parameters == family.count_parameters(section, shape)
    assert counts.largest == family.count_largest(section, shape)
    assert counts.products == family.count_products(section, shape)
    assert counts.activations == pytest.approx(family.count_activations(section, shape), rel=0.005)
    outputs = shape.outputs * (section.context_length or 1)
    slope = (kept_bytes(section, shape, 24) - kept_bytes(section, shape, 8)) / 64
    assert counts.activations == pytest.approx(slope + outputs, rel=0.005)


@pytest.mark.torch
def test_what_attention_keeps_grows_with_the_length_not_its_square() -> None:
    pytest.importorskip("torch")
    from trainwright.model.count_network import count_network

    section = Gpt(kind="gpt", layers=12, width=768, heads=12, context=1024)
    shape, family = TokenShape(50_000), network_family(section)
    counts = count_network(family, section, shape)
    assert counts.activations == pytest.approx(family.count_activations(section, shape), rel=0.001)
    assert counts.products == family.count_products(section, shape)


@pytest.mark.torch
@pytest.mark.parametrize(("section", "shape"), CASES)
def test_the_largest_tensor_is_the_network_s(section: ModelSection, shape: Shape) -> None:
    pytest.importorskip("torch")
    from trainwright.model.build_network import build_network

    sizes = [one.numel() for one in build_network(section, shape).parameters()]
    assert network_family(section).count_largest(section, shape) == max(sizes)


def test_one_part_of_an_offloaded_state_is_counted(tmp_path: Path) -> None:
    from trainwright.contract.reading.read_contract import read_contract

    path = tmp_path / "contract.yaml"
    path.write_text("data: {kind: tokens, path: t.txt}\nmodel: {kind: gpt, width: 64}\n")
    settings = ["training.batch_size=1", "training.optimizer={name: adamw}"]
    offload = "training.memory.offload_optimizer=true"
    there = read_contract(path, settings).contract
    away = read_contract(path, [*settings, offload]).contract
    large, small = Gpt(kind="gpt", layers=12, width=1024), Gpt(kind="gpt", layers=12, width=64)
    count, words, letters = 200_000_000, TokenShape(50_000), TokenShape(65)

    def optimizer(contract: Contract, section: Gpt, shape: Shape, count: int) -> int:
        return estimate_memory(contract, section, shape, count, (0, 0)).optimizer

    assert optimizer(there, large, words, count) == 8 * count
    # The embedding is larger than what is updated together else.
    assert optimizer(away, large, words, count) == 8 * 50_000 * 1024
    assert optimizer(away, small, letters, count) == 2 * OFFLOADED_PART_BYTES
    assert optimizer(away, small, letters, 100) == 800
