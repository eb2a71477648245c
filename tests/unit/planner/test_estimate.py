from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.model.table_networks import Mlp, TabularResNet
from trainwright.model.families import network_family
from trainwright.model.input_shape import TableShape
from trainwright.planner.estimate import Estimate, most_steps, scheduled_steps
from trainwright.planner.plan_facts import DeviceFacts, read_device

SHAPES = (
    TableShape(numeric=5, cardinalities=(4, 12), outputs=2),
    TableShape(numeric=3, cardinalities=(), outputs=1),
    TableShape(numeric=0, cardinalities=(1003,), outputs=7),
)
NETWORKS = (
    Mlp(kind="mlp"),
    Mlp(kind="mlp", hidden=(7,), embedding_dim=3),
    Mlp(kind="mlp", hidden=(7,), numeric_embedding="none"),
    TabularResNet(kind="tabular_resnet"),
    TabularResNet(kind="tabular_resnet", width=10, blocks=1, hidden_factor=1.25),
)


def test_parameters_by_hand() -> None:
    section = Mlp(kind="mlp", hidden=(3,), embedding_dim=2, numeric_embedding="none")
    shape = TableShape(numeric=1, cardinalities=(4,), outputs=2)
    # 4 x 2 embeddings, (1 + 2 + 1) x 3, (3 + 1) x 2
    assert network_family(section).count_parameters(section, shape) == 8 + 12 + 8
    section = Mlp(kind="mlp", hidden=(3,), embedding_dim=2)
    # and 48 frequencies, (96 + 1) x 16 shared weights, 16 more inputs to 3 units
    assert (
        network_family(section).count_parameters(section, shape)
        == 8 + 12 + 8 + 48 + 97 * 16 + 16 * 3
    )


@pytest.mark.torch
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("section", NETWORKS)
def test_parameters_are_those_of_the_network(
    section: Mlp | TabularResNet, shape: TableShape
) -> None:
    pytest.importorskip("torch")
    from trainwright.model.build_network import build_network

    network = build_network(section, shape)
    counted = sum(weight.numel() for weight in network.parameters())
    assert network_family(section).count_parameters(section, shape) == counted


def test_an_estimate_learns_its_parameters() -> None:
    estimate = Estimate(100, 10, 100, 1000)
    assert estimate.to_json()["parameters"] == "unknown"
    assert estimate.with_parameters(NETWORKS[0], SHAPES[0]).parameters == network_family(
        NETWORKS[0]
    ).count_parameters(NETWORKS[0], SHAPES[0])


def test_without_a_network_the_device_is_the_cpu() -> None:
    device = read_device(for_network=False)
    assert device == DeviceFacts(cores=device.cores, threads=device.cores)
    assert device.cores >= 1


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ([], 1000),
        (["max_tokens=50000"], 50),  # 500 windows of 100 tokens
        (["max_tokens=50000", "max_samples=205"], 21),
        (["max_tokens=50000", "max_steps=20"], 20),
        (["max_tokens=1000000000000000000"], 1000),
    ],
)
def test_limits_of_samples_and_tokens_leave_fewer_steps(
    tmp_path: Path, limits: list[str], steps: int
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "data: {kind: tokens, path: a.txt}\nmodel: {kind: gpt, context: 100}\n"
        "training: {effective_batch_size: 10, num_epochs: 100}\n"
    )
    contract = read_contract(path, [f"training.stop.{limit}" for limit in limits]).contract
    assert most_steps(contract, 100) == steps


@pytest.mark.parametrize(("windows", "steps"), [("across", 50), ("padded", 1000)])
def test_a_schedule_over_short_documents_is_not_taken_for_a_shorter_one(
    tmp_path: Path, windows: str, steps: int
) -> None:
    path = tmp_path / "c.yaml"
    kept = "" if windows == "across" else ", separator: '-'"
    path.write_text(
        f"data: {{kind: tokens, path: a.txt, windows: {windows}{kept}}}\n"
        "model: {kind: gpt, context: 100}\n"
        "training: {effective_batch_size: 10, num_epochs: 100, average: off,\n"
        "           stop: {max_tokens: 50000, schedule_spans: limits}}\n"
    )
    assert scheduled_steps(read_contract(path).contract, 100) == steps
