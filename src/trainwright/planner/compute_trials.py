"""Precision, kernels, memory format and compilation, chosen by a benchmark on the machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple, Protocol, final

from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Training
from trainwright.core.files import Json
from trainwright.core.formatting import show_seconds
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.compute_choices import (
    COMPILE,
    FORMAT,
    LAYOUT,
    LONG_SECONDS,
    PRODUCTS,
    open_paths,
)
from trainwright.planner.resolve.training_choices import Choice

MARGINS: Mapping[str, float] = {"bf16": 1.15, "onednn": 1.1, "contiguous": 1.05}
"""How many times as fast as what it would replace a choice must be, so that no noise decides."""

SAME_LOSS, SAME_NORM = 0.01, 0.05
"""Most relative difference of the first loss, and of its gradient's norm."""

MOST_ERROR = 1e-5
"""Most relative error of a product in fp32: fp32 itself has about 3e-7, bf16 2e-3."""

_GAIN = 2.0


Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
Products = Literal["exact", "onednn"]
Layout = Literal["contiguous", "channels_last"]


@final
@dataclass(frozen=True, slots=True)
class ComputeSetting:
    """Execution variant of a step."""

    precision: Precision = "fp32"
    matrix_products: Products = "exact"
    memory_format: Layout = "contiguous"

    def __str__(self) -> str:
        return f"{self.precision}, {self.matrix_products}, {self.memory_format}"


class Timing(NamedTuple):
    """Best time of a forward and backward pass over a micro-batch, and its results at the initial
    weights without dropout. `seconds` are CPU time on a CPU, so that other load does not count;
    `wall_seconds` are wall time."""

    seconds: float
    wall_seconds: float
    loss: float
    norm: float


class CompiledTiming(NamedTuple):
    """Wall time of a compiled micro-batch, and of compilation."""

    wall_seconds: float
    compile_seconds: float


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """Variant that does not work on this machine."""

    reason: str


class ComputeTrial(Protocol):
    """Benchmarks execution variants with the model and the batches of a plan. It preserves random
    numbers and process settings."""

    def product_error(self) -> float:
        """Relative error of oneDNN's products on matrices like the model's, against fp64."""
        ...

    def time(self, settings: Sequence[ComputeSetting]) -> Mapping[ComputeSetting, Timing | Failed]:
        """Time each setting, interleaved."""
        ...

    def without_determinism(
        self, setting: ComputeSetting
    ) -> tuple[Timing | Failed, Timing | Failed]:
        """Time the setting with the plan's determinism and without any, interleaved."""
        ...

    def compile(self, setting: ComputeSetting) -> CompiledTiming | Failed:
        """Time the setting with compiled kernels."""
        ...


def measure_compute(plan: Plan, trial: ComputeTrial) -> Plan:
    """Resolve everything in the plan that `decide_compute` has left open."""
    training = plan.contract.training
    paths = open_paths(training)
    error = trial.product_error() if PRODUCTS in paths else math.inf
    settings = _settings(training, is_accurate=error <= MOST_ERROR)
    timings = trial.time(settings)
    best = _best(settings, timings)
    told = _Told(settings, timings, best, error)
    choices = [told.choice(path) for path in paths if path != COMPILE]
    if COMPILE in paths:
        choices.append(_compiling(plan, trial, best, timings[best]))
    return plan.with_training(take_choices(training, choices), choices)


def measure_determinism(plan: Plan, trial: ComputeTrial) -> Plan:
    """The plan with the measured cost of `resume.determinism`, if it is on and the run is long
    enough."""
    if plan.contract.resume.determinism == "off" or plan.too_short:
        return plan
    training = plan.contract.training
    precision: Precision = settled(training.mixed_precision)
    products: Products = settled(training.compute.matrix_products)
    layout: Layout = settled(training.compute.memory_format)
    one = ComputeSetting(precision, products, layout)
    mine, without = trial.without_determinism(one)
    if isinstance(mine, Failed) or isinstance(without, Failed):
        (why, *_) = [one.reason for one in (mine, without) if isinstance(one, Failed)]
        return replace(plan, determinism_cost={"not_measured": why})
    return replace(
        plan,
        determinism_cost={
            "seconds_of_a_micro_batch": mine.seconds,
            "without": without.seconds,
            "factor": mine.seconds / without.seconds,
        },
    )


def time_micro_batch(plan: Plan, trial: ComputeTrial) -> float:
    """Wall seconds of the passes of a micro-batch, in the first setting that the plan allows; 0 if
    they fail, as the training will then."""
    (setting, *_) = _settings(plan.contract.training, is_accurate=False)
    timing = trial.time([setting])[setting]
    return 0.0 if isinstance(timing, Failed) else timing.wall_seconds


def take_choices(training: Training, choices: Sequence[Choice]) -> Training:
    """The section with the chosen precision and kernels."""
    values = {choice.path: choice.value for choice in choices}
    names = {path: path.rpartition(".")[2] for path in (PRODUCTS, LAYOUT, COMPILE)}
    kernels = {name: values[path] for path, name in names.items() if path in values}
    update: dict[str, Json] = {"compute": training.compute.model_copy(update=kernels)}
    if FORMAT in values:
        update["mixed_precision"] = values[FORMAT]
    return training.model_copy(update=update)


def _settings(training: Training, *, is_accurate: bool) -> list[ComputeSetting]:
    """Settings to benchmark; the first is the reference."""
    written, compute = training.mixed_precision, training.compute
    formats: tuple[Precision, ...] = ("fp32", "bf16") if written == "auto" else (written,)
    products: tuple[Products, ...] = ("exact", "onednn") if is_accurate else ("exact",)
    if compute.matrix_products != "auto":
        products = (compute.matrix_products,)
    layouts: tuple[Layout, ...] = ("channels_last", "contiguous")
    if compute.memory_format != "auto":
        layouts = (compute.memory_format,)
    return [
        ComputeSetting(one, kernels, layout)
        for one, kernels, layout in product(formats, products, layouts)
        # With bf16 no relevant product is computed in fp32.
        if one == "fp32" or kernels == products[0]
    ]


def _best(
    settings: Sequence[ComputeSetting], timings: Mapping[ComputeSetting, Timing | Failed]
) -> ComputeSetting:
    """The fastest by its margins, among those with equal results."""
    usable = [one for one in settings if _complaint(timings[settings[0]], timings[one]) == ""]
    return min(usable or settings[:1], key=lambda one: _cost(one, settings[0], timings[one]))


def _cost(setting: ComputeSetting, first: ComputeSetting, timing: Timing | Failed) -> float:
    if isinstance(timing, Failed):
        return math.inf
    pairs = (
        (setting.precision, first.precision),
        (setting.matrix_products, first.matrix_products),
        (setting.memory_format, first.memory_format),
    )
    margins = (MARGINS[value] for value, usual in pairs if value != usual)
    return timing.seconds * math.prod(margins)


def _complaint(first: Timing | Failed, other: Timing | Failed) -> str:
    """Why a setting cannot be chosen; empty if it can."""
    if isinstance(other, Failed):
        return f"fails: {other.reason}"
    if isinstance(first, Failed):
        return ""
    pairs = ((first.loss, other.loss, SAME_LOSS), (first.norm, other.norm, SAME_NORM))
    for what, (one, two, most) in zip(("loss", "gradient norm"), pairs, strict=True):
        if not abs(two - one) <= most * abs(one):
            return f"gives another first {what}, {two:.4g} instead of {one:.4g}"
    return ""


@final
@dataclass(frozen=True, slots=True)
class _Told:
    """Measurements in words and numbers."""

    settings: Sequence[ComputeSetting]
    timings: Mapping[ComputeSetting, Timing | Failed]
    best: ComputeSetting
    error: float

    def choice(self, path: str) -> Choice:
        """Choice at a path, and its reason."""
        return Choice(path, _at(path, self.best), self._reason(path), self._numbers(path))

    def _reason(self, path: str) -> str:
        if path == PRODUCTS and self.best.precision != "fp32":
            return f"the products are in {self.best.precision}"
        values = dict.fromkeys(_at(path, one) for one in self.settings)
        if path == PRODUCTS and len(values) == 1:
            return f"oneDNN's products are off by {self.error:.1g}: it rounds them here"
        return "; ".join(self._rival(path, v) for v in values if v != _at(path, self.best))

    def _rival(self, path: str, value: str) -> str:
        """Comparison of the best with the best that has another value at the path."""
        first, mine = self.timings[self.settings[0]], self.timings[self.best]
        others = {one: self.timings[one] for one in self.settings if _at(path, one) == value}
        complaints = [_complaint(first, timing) for timing in others.values()]
        if isinstance(mine, Failed) or "" not in complaints:
            return f"{value} {complaints[0]}"
        seconds = min(
            timing.seconds
            for timing in others.values()
            if isinstance(timing, Timing) and _complaint(first, timing) == ""
        )
        numbers = f"{mine.seconds:.3g} s a micro-batch, with {value} {seconds:.3g} s"
        if seconds >= mine.seconds:
            return f"{seconds / mine.seconds:.2f} times as fast as {value}: {numbers}"
        return (
            f"{value} is only {mine.seconds / seconds:.2f} times as fast, "
            f"and must be {MARGINS[value]:g}: {numbers}"
        )

    def _numbers(self, path: str) -> dict[str, Json]:
        numbers: dict[str, Json] = {
            str(setting): timing.reason if isinstance(timing, Failed) else timing._asdict()
            for setting, timing in self.timings.items()
        }
        return numbers | ({"error_of_onednn": self.error} if path == PRODUCTS else {})


def _at(path: str, setting: ComputeSetting) -> str:
    match path:
        case "training.mixed_precision":
            return setting.precision
        case "training.compute.matrix_products":
            return setting.matrix_products
        case _:
            return setting.memory_format


def _compiling(
    plan: Plan, trial: ComputeTrial, setting: ComputeSetting, timing: Timing | Failed
) -> Choice:
    """Try compilation if the run is long enough, and keep it if it pays off."""
    if isinstance(timing, Failed):
        return Choice(COMPILE, "off", f"nothing could be measured: {timing.reason}")
    planned = plan.steps * settled(plan.contract.training.gradient_accumulation_steps)
    batches = min(float(planned), plan.contract.budget.seconds() / timing.wall_seconds)
    run = batches * timing.wall_seconds
    if run < LONG_SECONDS:
        return Choice(COMPILE, "off", f"the run takes about {show_seconds(run)}")
    compiled = trial.compile(setting)
    if isinstance(compiled, Failed):
        return Choice(COMPILE, "off", f"it fails: {compiled.reason}")
    gained = batches * (timing.wall_seconds - compiled.wall_seconds)
    numbers = {"eager_seconds": timing.wall_seconds, "batches": batches, **compiled._asdict()}
    reason = (
        f"{timing.wall_seconds / compiled.wall_seconds:.2f} times as fast, "
        f"{show_seconds(abs(gained))} {'less' if gained >= 0 else 'more'} of a run of "
        f"{show_seconds(run)}, and {show_seconds(compiled.compile_seconds)} before it"
    )
    pays = gained >= _GAIN * compiled.compile_seconds
    return Choice(COMPILE, "on" if pays else "off", reason, numbers)
