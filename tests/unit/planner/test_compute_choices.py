"""Number format, kernels, memory format and compiling: what a rule decides, and what is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.planner.data_rules import problems_with_device
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.planner.resolve.compute_choices import (
    COMPILE,
    FORMAT,
    LAYOUT,
    PRODUCTS,
    Work,
    decide_compute,
    open_paths,
)
from trainwright.planner.resolve.training_choices import Choice, Choosing

CPU = DeviceFacts(has_bf16=True, can_compile=True)
GPU = DeviceFacts("cuda", "GPU", has_bf16=True, has_fp8=True, can_compile=True)
LARGE = Work(products=10**7, rows=128, batches=5000)
HUGE = replace(LARGE, batches=10**6)
IMAGES = "data: {kind: images, path: d}\nmodel: {kind: resnet}\n"
TEXT = "data: {kind: tokens, path: d}\nmodel: {kind: gpt}\n"
TABLE = "data: {path: d, target: y}\nmodel: {kind: mlp}\n"


def contract(folder: Path, text: str, *overrides: str) -> Contract:
    path = folder / "c.yaml"
    path.write_text(text)
    return read_contract(path, overrides).contract


def decided(
    folder: Path, text: str, work: Work, device: DeviceFacts, *overrides: str
) -> tuple[dict[str, Choice], tuple[str, ...]]:
    """What was chosen by path, and what is left open."""
    choosing = Choosing()
    training = decide_compute(contract(folder, text, *overrides), work, device, choosing)
    return {choice.path: choice for choice in choosing.made}, open_paths(training)


@pytest.mark.parametrize(
    ("text", "work", "device", "values", "left"),
    [
        (TEXT, LARGE, CPU, {LAYOUT: "contiguous"}, (FORMAT, PRODUCTS, COMPILE)),
        (IMAGES, LARGE, CPU, {PRODUCTS: "exact"}, (FORMAT, LAYOUT, COMPILE)),
        (
            IMAGES,
            replace(LARGE, batches=300),
            CPU,
            {FORMAT: "fp32", PRODUCTS: "exact", LAYOUT: "channels_last", COMPILE: "off"},
            (),
        ),
        (
            TEXT,
            replace(LARGE, products=1000),
            CPU,
            {FORMAT: "fp32", PRODUCTS: "exact", LAYOUT: "contiguous", COMPILE: "off"},
            (),
        ),
        (
            TEXT,
            LARGE,
            replace(CPU, has_bf16=False, can_compile=False),
            {FORMAT: "fp32", LAYOUT: "contiguous", COMPILE: "off"},
            (PRODUCTS,),
        ),
        (
            IMAGES,
            LARGE,
            GPU,
            {FORMAT: "bf16", PRODUCTS: "exact", LAYOUT: "channels_last", COMPILE: "off"},
            (),
        ),
        (
            TEXT,
            HUGE,
            replace(GPU, has_bf16=False),
            {FORMAT: "fp32", PRODUCTS: "exact", LAYOUT: "contiguous"},
            (COMPILE,),
        ),
    ],
    ids=["text", "images", "few batches", "small batches", "old cpu", "gpu", "old gpu, long"],
)
def test_rules_decide_what_needs_no_measurement(
    tmp_path: Path,
    text: str,
    work: Work,
    device: DeviceFacts,
    values: dict[str, str],
    left: tuple[str, ...],
) -> None:
    made, still_open = decided(tmp_path, text, work, device)
    assert {path: choice.value for path, choice in made.items()} == values
    assert still_open == left
    assert all(choice.reason for choice in made.values())


def test_numbers_that_are_predicted_stay_fp32_on_a_cpu(tmp_path: Path) -> None:
    made, left = decided(tmp_path, TABLE, LARGE, CPU, "task=regression")
    assert made[FORMAT].value == "fp32"
    assert "three digits" in made[FORMAT].reason
    assert PRODUCTS in left
    made, left = decided(tmp_path, TABLE, LARGE, CPU, "task=classification")
    assert FORMAT in left


def test_what_is_written_is_not_chosen(tmp_path: Path) -> None:
    written = "training.compute={matrix_products: onednn, compile: on, memory_format: contiguous}"
    made, left = decided(tmp_path, TEXT, LARGE, CPU, written, "training.mixed_precision=bf16")
    assert (made, left) == ({}, ())


def test_queries_are_not_compiled(tmp_path: Path) -> None:
    made, _ = decided(tmp_path, TABLE, HUGE, CPU, "task=ranking", "data.query=q")
    assert made[COMPILE].value == "off"
    assert "each number of rows of queries" in made[COMPILE].reason


def test_fp8_is_compiled(tmp_path: Path) -> None:
    made, left = decided(tmp_path, TEXT, LARGE, GPU, "training.mixed_precision=fp8")
    assert made[COMPILE].value == "on"
    assert left == ()


@pytest.mark.parametrize(
    ("override", "device", "path", "fix"),
    [
        ("training.mixed_precision=fp8", CPU, FORMAT, "bf16"),
        ("training.mixed_precision=fp8", replace(GPU, has_fp8=False), FORMAT, "bf16"),
        ("training.compute.matrix_products=onednn", GPU, PRODUCTS, "exact"),
        ("training.compute.compile=on", DeviceFacts(), COMPILE, "off"),
    ],
)
def test_what_the_device_cannot_do_is_refused(
    tmp_path: Path, override: str, device: DeviceFacts, path: str, fix: str
) -> None:
    (problem,) = problems_with_device(contract(tmp_path, TEXT, override), device)
    assert problem.path == path
    assert fix in problem.fix
    able = GPU if "fp8" in override else CPU
    assert list(problems_with_device(contract(tmp_path, TEXT, override), able)) == []
