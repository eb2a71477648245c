"""The comparison of our defaults with a plain loop: both train the same, and both are measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import defaults  # noqa: E402
import first_step  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import ImageShape, TokenShape  # noqa: E402

pytestmark = pytest.mark.torch


def small(work: defaults.Workload) -> defaults.Workload:
    """The same workload with a tiny network."""
    if isinstance(work.section, Gpt):
        section = Gpt(kind="gpt", layers=1, heads=2, width=16, context=16)
        tensors = tuple(tensor[:16, :16] % 50 for tensor in work.tensors)
        return replace(work, section=section, shape=TokenShape(50), tensors=tensors, batch=4)
    section = ResNet(kind="resnet", width=8, blocks=(1, 1), norm="batch")
    pixels, labels = work.tensors
    shape = ImageShape((3, 8, 8), (125.0,) * 3, (63.0,) * 3, 10)
    tensors = (pixels[:16, :, :8, :8], labels[:16])
    return replace(work, section=section, shape=shape, tensors=tensors, batch=4)


@pytest.mark.parametrize(("make", "millions"), [(defaults.gpt_14m, 14), (defaults.resnet18, 11)])
def test_the_networks_are_as_large_as_they_are_called(make: object, millions: int) -> None:
    work = make()
    with torch.device("meta"):
        network = build_network(work.section, work.shape)
    assert round(sum(p.numel() for p in network.parameters()) / 1e6) == millions


@pytest.mark.parametrize("make", [defaults.gpt_14m, defaults.resnet18])
def test_both_loops_make_the_same_updates(make: object) -> None:
    work = small(make())
    measured = defaults.measure(work, rounds=2, steps=2)
    assert measured.losses[1] == pytest.approx(measured.losses[0], rel=0.02)
    assert all(len(times) == 2 and min(times) > 0 for times in (measured.plain, measured.ours))
    updates = defaults.measure_updates(work, 1)
    assert set(updates) == {"fused", "loop", "foreach"}
    text = defaults.section([measured], updates, 2, 2)
    assert f"| {work.name} |" in text
    assert "the losses are those of step 6" in text


def test_the_first_step_stands_beside_the_import_of_torch() -> None:
    found = {"import torch": [1.0, 1.5], "table": [1.75, 2.0]}
    assert (
        "| first step, table | 1.75, 1.88 s | 0.75 s | at most 0.5 s, missed |"
        in first_step.table(found)
    )


@pytest.mark.slow
def test_a_run_is_measured_up_to_its_first_step() -> None:
    found = first_step.measure(1)
    assert set(found) == {"import torch", "table", "text"}
    assert all(0 < times[0] < 60 for times in found.values())
