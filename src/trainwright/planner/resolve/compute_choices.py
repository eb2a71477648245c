"""Compute settings for `auto`: precision, kernels, memory format, compilation, loader processes.

What needs a measurement on the machine stays `auto`: `planner/compute_trials.py` resolves it at the
start of the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import NUMERIC_TASKS
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Training
from trainwright.core.files import Json
from trainwright.core.formatting import show_seconds
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.planner.resolve.training_choices import Choice, Choosing, Chosen

FORMAT = "training.mixed_precision"
PRODUCTS = "training.compute.matrix_products"
LAYOUT = "training.compute.memory_format"
COMPILE = "training.compute.compile"

PLAIN = {FORMAT: "fp32", PRODUCTS: "exact", LAYOUT: "contiguous", COMPILE: "off"}
"""What a version computed with that could not choose."""

LONG_SECONDS = 600.0
"""A run that takes less is too short to pay for compiling."""

_SHORT_SECONDS, _FEW_BATCHES, _SMALL_BATCH = 10.0, 500, 0.5e9
_RATES = {"cpu": 50e9, "cuda": 50e12}
_SLOW = 10.0
_MICRO_BATCH_SECONDS = 1e-3
WORKERS = "data.num_workers"

MARGIN = 1.05
"""How many times as fast as without workers a run must be with them, so that no noise decides."""

_LEAST_SHARE, _LEAST_SECONDS = 0.05, 30.0


@final
@dataclass(frozen=True, slots=True)
class Work:
    """Compute of a run: `products` are the multiply-accumulates of a forward pass over one row,
    `rows` those of a micro-batch, `batches` the micro-batches of the run."""

    products: int
    rows: int
    batches: int

    def seconds(self, device: DeviceFacts) -> float:
        """Approximate time of the products in fp32, at a typical rate of the device: 50 GFLOP/s per
        core of a CPU, 50 TFLOP/s of a GPU."""
        rate = _RATES[device.kind] * (device.threads if device.kind == "cpu" else 1)
        return 6.0 * self.products * self.rows * self.batches / rate


def decide_compute(
    contract: Contract, work: Work, device: DeviceFacts, choosing: Choosing
) -> Training:
    """The training section with everything resolved that a rule can resolve."""
    training = choosing.take(contract.training, "training", _formats(contract, work, device))
    fp32 = training.mixed_precision in ("auto", "fp32")
    compute = choosing.take(
        training.compute,
        "training.compute",
        {
            **_products(contract, work, device, fp32=fp32),
            **_layouts(contract, work, device),
            **_compiling(contract, training, work, device),
        },
    )
    return training.model_copy(update={"compute": compute})


def _formats(contract: Contract, work: Work, device: DeviceFacts) -> Chosen:
    key = "mixed_precision"
    if device.kind == "cuda":
        if device.has_bf16:
            return {key: ("bf16", "the GPU computes in bf16")}
        return {key: ("fp32", "no GPU that computes in bf16")}
    if not device.has_bf16:
        return {key: ("fp32", "the CPU has no instructions for bf16")}
    if contract.task in (*NUMERIC_TASKS, "ranking"):
        return {key: ("fp32", "bf16 keeps three digits of a number that is predicted")}
    reason = why_not_measured(work, device)
    return {key: ("fp32", reason)} if reason else {}


def _products(contract: Contract, work: Work, device: DeviceFacts, *, fp32: bool) -> Chosen:
    if device.kind == "cuda":
        reason = "oneDNN is for CPUs"
    elif not fp32:
        reason = f"the products are in {contract.training.mixed_precision}"
    elif contract.model.traits.has_convolutions:
        reason = "convolutions are computed by oneDNN already"
    else:
        reason = why_not_measured(work, device)
    return {"matrix_products": ("exact", reason)} if reason else {}


def _layouts(contract: Contract, work: Work, device: DeviceFacts) -> Chosen:
    if not contract.model.traits.has_convolutions:
        return {"memory_format": ("contiguous", "the model has no convolutions")}
    if device.kind == "cuda":
        return {"memory_format": ("channels_last", "what convolutions of GPUs are fastest with")}
    reason = why_not_measured(work, device)
    return {"memory_format": ("channels_last", reason)} if reason else {}


def _compiling(contract: Contract, training: Training, work: Work, device: DeviceFacts) -> Chosen:
    if contract.data.is_padded or contract.model.traits.describes_images:
        return {"compile": ("off", "each width of a batch would be compiled by itself")}
    if contract.distributed.strategy == "fsdp":
        return {"compile": ("off", "weights are gathered inside the passes")}
    if contract.task == "ranking":
        return {"compile": ("off", "each number of rows of queries would be compiled by itself")}
    if contract.task == "retrieval":
        return {"compile": ("off", "the loss is over all micro-batches of a step")}
    if contract.training.memory.head_loss == "fused":
        return {"compile": ("off", "the fused loss is a kernel of its own")}
    if contract.distributed.model_ranks > 1:
        return {"compile": ("off", "processes exchange activations inside the passes")}
    if contract.model.is_quantized:
        return {"compile": ("off", "the bits of the base are turned back outside of a graph")}
    if training.learns_states:
        return {"compile": ("off", "hidden states are read outside of a graph")}
    if not device.can_compile:
        what = "Triton" if device.kind == "cuda" else "C++ compiler"
        return {"compile": ("off", f"there is no {what}")}
    if training.mixed_precision == "fp8":
        return {"compile": ("on", "fp8 gains only where the scaling around products is compiled")}
    most = _SLOW * work.seconds(device) + work.batches * _MICRO_BATCH_SECONDS
    if most < LONG_SECONDS:
        return {"compile": ("off", f"the run takes less than {show_seconds(most)}")}
    return {}


def why_not_measured(work: Work, device: DeviceFacts) -> str:
    """Why nothing is measured; empty if it is. A measurement takes the time of about 20
    micro-batches."""
    operations = 6 * work.products * work.rows
    if operations < _SMALL_BATCH:
        return f"a micro-batch of {operations / 1e6:.3g} million operations is too small to gain"
    if work.batches < _FEW_BATCHES:
        return f"a run of {work.batches:,} micro-batches is too short to measure"
    seconds = work.seconds(device)
    if seconds < _SHORT_SECONDS:
        return f"a run of about {show_seconds(seconds)} is too short to measure"
    return ""


def open_paths(training: Training) -> tuple[str, ...]:
    """Paths that only a measurement can resolve."""
    compute = training.compute
    values = {
        FORMAT: training.mixed_precision,
        PRODUCTS: compute.matrix_products,
        LAYOUT: compute.memory_format,
        COMPILE: compute.compile,
    }
    return tuple(path for path, value in values.items() if value == "auto")


def work_of(training: Training, products: int, steps: int) -> Work:
    """Compute of a run of `steps` optimizer steps."""
    batches = steps * settled(training.gradient_accumulation_steps)
    return Work(products, settled(training.batch_size), batches)


def workers_by_rule(contract: Contract, device: DeviceFacts) -> Chosen:
    """The choice if no measurement is needed; empty if one is."""
    reason = ""
    if not contract.model.is_loop_trained:
        reason = "the model is fitted on all rows at once"
    elif not contract.data.is_augmented:
        reason = "rows in memory are gathered, not made"
    elif device.kind == "cuda":
        reason = "images are changed on the GPU"
    elif device.cores < 2:
        reason = "there is one core"
    return {"num_workers": (0, reason)} if reason else {}


@final
@dataclass(frozen=True, slots=True)
class Making:
    """Seconds for loading a micro-batch, for the step that follows, and for loading all rows of the
    run."""

    batch_seconds: float
    step_seconds: float
    run_seconds: float

    @property
    def share(self) -> float:
        """Share of loading in both."""
        return self.batch_seconds / (self.batch_seconds + self.step_seconds)


class WorkerTrial(Protocol):
    """Measurements of loader processes on this machine."""

    def making(self) -> Making:
        """Loading time without workers."""
        ...

    def rows_per_second(self, counts: Sequence[int]) -> Mapping[int, float]:
        """Rows trained per second of wall time, with each number of workers; 0 is without."""
        ...


def choose_workers(
    trial: WorkerTrial, device: DeviceFacts, budget_seconds: float = math.inf
) -> Choice:
    """The fastest number, if the gain is worth additional processes; a budget ends the run before
    all its batches are loaded."""
    making = trial.making()
    making = replace(making, run_seconds=min(making.run_seconds, making.share * budget_seconds))
    share = f"making a batch takes {making.share:.1%} of a step"
    numbers: dict[str, Json] = {"share": making.share, "seconds_of_the_run": making.run_seconds}
    if making.share < _LEAST_SHARE:
        return Choice(WORKERS, 0, f"{share}: nothing to gain", numbers)
    if making.run_seconds < _LEAST_SECONDS:
        seconds = show_seconds(making.run_seconds)
        return Choice(WORKERS, 0, f"making all batches of the run takes {seconds}", numbers)
    rates = trial.rows_per_second((0, *_candidates(device.cores)))
    numbers["rows_per_second"] = {str(count): rate for count, rate in rates.items()}
    best = max(rates, key=lambda count: rates[count])
    gain = rates[best] / rates[0]
    if gain < MARGIN:
        why = f"no number of workers is {MARGIN:g} times as fast on {device.cores} cores"
        return Choice(WORKERS, 0, f"{share}, and {why}", numbers)
    return Choice(WORKERS, best, f"{share}; the training is {gain:.2f} times as fast", numbers)


def _candidates(cores: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, up to the number of cores."""
    return tuple(2**power for power in range(cores.bit_length()) if 2**power <= cores)
