"""What becomes of a measurement: a fake one says how long each way takes and what it gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.planner.compute_trials import (
    CompiledTiming,
    ComputeSetting,
    Failed,
    Timing,
    measure_compute,
    measure_determinism,
)
from trainwright.planner.estimate import Estimate
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.compute_choices import COMPILE, FORMAT, LAYOUT, PRODUCTS
from trainwright.planner.resolve.training_choices import Choice

TEXT = "data: {kind: tokens, path: d}\nmodel: {kind: gpt}\n"
IMAGES = "data: {kind: images, path: d}\nmodel: {kind: resnet}\n"
STEPS = 10_000

Speed = Callable[[ComputeSetting], Timing | Failed]


@dataclass
class Fake:
    """A machine of the given speeds; it remembers what it was asked."""

    speed: Speed
    error: float = 3e-7
    compiled: CompiledTiming | Failed = field(default_factory=lambda: CompiledTiming(0.5, 20.0))
    asked: list[ComputeSetting] = field(default_factory=list)
    compiles: list[ComputeSetting] = field(default_factory=list)

    def product_error(self) -> float:
        return self.error

    def time(self, settings: Sequence[ComputeSetting]) -> Mapping[ComputeSetting, Timing | Failed]:
        self.asked = list(settings)
        return {setting: self.speed(setting) for setting in settings}

    def without_determinism(
        self, setting: ComputeSetting
    ) -> tuple[Timing | Failed, Timing | Failed]:
        return self.speed(setting), speeds()(setting)

    def compile(self, setting: ComputeSetting) -> CompiledTiming | Failed:
        self.compiles.append(setting)
        return self.compiled


def speeds(
    bf16: float = 1.0, onednn: float = 1.0, contiguous: float = 1.0, scale: float = 0.01
) -> Speed:
    """Each change is so many times as fast."""

    def speed(setting: ComputeSetting) -> Timing:
        seconds = scale
        seconds /= bf16 if setting.precision == "bf16" else 1
        seconds /= onednn if setting.matrix_products == "onednn" else 1
        seconds /= contiguous if setting.memory_format == "contiguous" else 1
        return Timing(seconds, seconds, 2.3, 1.0)

    return speed


def plan(folder: Path, text: str, *overrides: str) -> Plan:
    path = folder / "c.yaml"
    path.write_text(text)
    sizes = [
        "num_epochs=1",
        "batch_size=8",
        "gradient_accumulation_steps=1",
        "effective_batch_size=8",
    ]
    written = read_contract(path, [*(f"training.{size}" for size in sizes), *overrides])
    return Plan(written.contract, (), Estimate(8 * STEPS, STEPS, STEPS, 0), ("0" * 64,))


def chosen(plan: Plan) -> tuple[str, str, str, str]:
    training = plan.contract.training
    compute = training.compute
    return (
        training.mixed_precision,
        compute.matrix_products,
        compute.memory_format,
        compute.compile,
    )


def reasons(plan: Plan) -> dict[str, Choice]:
    return {choice.path: choice for choice in plan.choices}


NO_IMAGES = "training.compute.memory_format=contiguous"


@pytest.mark.parametrize(
    ("speed", "error", "expected"),
    [
        (speeds(bf16=2.6, onednn=1.8), 1e-6, ("bf16", "exact")),
        (speeds(bf16=1.7, onednn=1.8), 1e-6, ("fp32", "onednn")),
        (speeds(bf16=1.9, onednn=1.8), 2e-3, ("bf16", "exact")),
        (speeds(bf16=1.1, onednn=1.05), 1e-6, ("fp32", "exact")),
        (speeds(bf16=0.5, onednn=0.5), 1e-6, ("fp32", "exact")),
    ],
)
def test_what_pays_clearly_is_chosen(
    tmp_path: Path, speed: Speed, error: float, expected: tuple[str, str]
) -> None:
    made = measure_compute(plan(tmp_path, TEXT, NO_IMAGES), Fake(speed, error))
    assert chosen(made) == (*expected, "contiguous", "off")
    assert {choice.path for choice in made.choices} == {FORMAT, PRODUCTS, COMPILE}


def test_the_layout_is_chosen_within_the_number_format(tmp_path: Path) -> None:
    exact = "training.compute.matrix_products=exact"

    def speed(setting: ComputeSetting) -> Timing:
        plain = speeds(bf16=2.0)(setting)
        slow = setting == ComputeSetting("bf16", "exact", "channels_last")
        return plain._replace(seconds=plain.seconds * (1.6 if slow else 1))

    made = measure_compute(plan(tmp_path, IMAGES, exact), Fake(speed))
    assert chosen(made)[:3] == ("bf16", "exact", "contiguous")
    made = measure_compute(plan(tmp_path, IMAGES, exact), Fake(speeds(2.0, contiguous=1.02)))
    assert chosen(made)[:3] == ("bf16", "exact", "channels_last")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loss": 2.33}, "another first loss, 2.33 instead of 2.3"),
        ({"norm": 0.9}, "another first gradient norm, 0.9 instead of 1"),
        ({"loss": float("nan")}, "another first loss, nan"),
        ({}, "fails: no kernel"),
    ],
)
def test_a_format_that_gives_other_numbers_is_not_chosen(
    tmp_path: Path, change: dict[str, float], said: str
) -> None:
    def speed(setting: ComputeSetting) -> Timing | Failed:
        timing = speeds(bf16=3.0)(setting)
        if setting.precision == "fp32":
            return timing
        return timing._replace(**change) if change else Failed("no kernel")

    made = measure_compute(plan(tmp_path, TEXT, NO_IMAGES), Fake(speed))
    assert chosen(made)[0] == "fp32"
    assert said in reasons(made)[FORMAT].reason


def test_products_that_round_are_not_even_measured(tmp_path: Path) -> None:
    fake = Fake(speeds(onednn=3.0), error=2e-3)
    made = measure_compute(plan(tmp_path, TEXT, NO_IMAGES), fake)
    assert {setting.matrix_products for setting in fake.asked} == {"exact"}
    assert "off by 0.002" in reasons(made)[PRODUCTS].reason


def test_only_what_is_open_is_measured(tmp_path: Path) -> None:
    fake = Fake(speeds(bf16=0.5))
    made = measure_compute(plan(tmp_path, IMAGES, "training.mixed_precision=bf16"), fake)
    assert {setting.precision for setting in fake.asked} == {"bf16"}
    assert chosen(made)[0] == "bf16"
    assert FORMAT not in reasons(made)


@pytest.mark.parametrize(
    ("scale", "compiled", "value", "said"),
    [
        (0.01, CompiledTiming(0.001, 20.0), "off", "the run takes about 1m40s"),
        (1.0, CompiledTiming(0.9, 20.0), "on", "1.11 times as fast, 16m40s less of a run of 2h46m"),
        (1.0, CompiledTiming(0.997, 20.0), "off", "1.00 times as fast, 30s less"),
        (1.0, CompiledTiming(1.2, 20.0), "off", "33m20s more"),
        (1.0, Failed("no compiler"), "off", "it fails: no compiler"),
    ],
)
def test_compiling_must_pay_within_the_run(
    tmp_path: Path, scale: float, compiled: CompiledTiming | Failed, value: str, said: str
) -> None:
    fake = Fake(speeds(scale=scale), compiled=compiled)
    made = measure_compute(plan(tmp_path, TEXT, NO_IMAGES), fake)
    assert chosen(made)[3] == value
    assert said in reasons(made)[COMPILE].reason
    assert len(fake.compiles) == (scale == 1.0)


def test_the_budget_bounds_the_run(tmp_path: Path) -> None:
    fake = Fake(speeds(scale=1.0), compiled=CompiledTiming(0.1, 20.0))
    measure_compute(plan(tmp_path, TEXT, NO_IMAGES, "budget.hours=0.1"), fake)
    assert fake.compiles == []


def test_the_numbers_stand_in_the_plan(tmp_path: Path) -> None:
    before = plan(tmp_path, TEXT, NO_IMAGES)
    made = measure_compute(before, Fake(speeds(bf16=2.0)))
    read = json.loads(json.dumps(made.to_json(), allow_nan=False))
    (format_,) = [one for one in read["choices"] if one["path"] == FORMAT]
    assert format_["measured"]["bf16, exact, contiguous"]["seconds"] == pytest.approx(0.005)
    assert "2.00 times as fast as fp32: 0.005 s a micro-batch" in format_["reason"]
    (products,) = [one for one in read["choices"] if one["path"] == PRODUCTS]
    assert products["measured"]["error_of_onednn"] == 3e-7
    assert made.hash != before.hash
    written = plan(
        tmp_path,
        TEXT,
        "training.mixed_precision=bf16",
        "training.compute={matrix_products: exact, memory_format: contiguous, compile: off}",
    )
    assert made.hash == written.hash, "spelling out what was chosen is the same experiment"


def test_nothing_is_chosen_where_nothing_can_be_measured(tmp_path: Path) -> None:
    made = measure_compute(plan(tmp_path, IMAGES), Fake(lambda _: Failed("out of memory")))
    assert chosen(made) == ("fp32", "exact", "channels_last", "off")
    assert "out of memory" in reasons(made)[COMPILE].reason
    json.dumps(made.to_json(), allow_nan=False)
    assert made.contract.training.compute.memory_format == reasons(made)[LAYOUT].value


SETTLED = "training.compute={matrix_products: exact, memory_format: contiguous, compile: off}"
BITWISE = ("resume.determinism=bitwise", "training.mixed_precision=fp32", SETTLED)


def test_the_cost_of_determinism_is_told_beside_both_times(tmp_path: Path) -> None:
    made = measure_determinism(plan(tmp_path, TEXT, *BITWISE), Fake(speeds(scale=0.012)))
    cost = made.to_json()["determinism_cost"]
    assert cost["factor"] == pytest.approx(1.2)
    assert (cost["seconds_of_a_micro_batch"], cost["without"]) == (0.012, 0.01)


def test_what_could_not_be_measured_says_why(tmp_path: Path) -> None:
    fake = Fake(lambda setting: Failed("no such kernel"))
    made = measure_determinism(plan(tmp_path, TEXT, *BITWISE), fake)
    assert made.determinism_cost == {"not_measured": "no such kernel"}


def test_the_cost_is_no_part_of_the_experiment(tmp_path: Path) -> None:
    before = plan(tmp_path, TEXT, *BITWISE)
    assert measure_determinism(before, Fake(speeds())).hash == before.hash
