"""Contract problems that only its data or its device can show."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.compatibility_rules import loss_fits_task
from trainwright.contract.rules.data.source_rules import check_balanced
from trainwright.contract.rules.target.metric_rules import (
    check_floors,
    check_metric,
    check_target,
    check_watched,
)
from trainwright.contract.rules.training.step_rules import check_batch_ramp, check_noise_scale
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.scheduler import CyclicRate, Swa
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.read_table import DataFacts
from trainwright.model.families import family_of
from trainwright.planner.estimate import epoch_ends, scheduled_steps, train_rows_of
from trainwright.planner.kinds.data_planner import planner_of
from trainwright.planner.plan_facts import DeviceFacts, learning_task
from trainwright.planner.resolve.compute_choices import COMPILE, FORMAT, PRODUCTS


def problems_with_data(
    contract: Contract, facts: DataFacts, written: frozenset[str]
) -> list[Problem]:
    """Problems of a resolved contract with these `facts`; without places."""
    planner = planner_of(contract, facts)
    if wrong := list(planner.decisive_problems()):
        # With the wrong task every metric would be wrong as well, and without rows every length.
        return [*wrong, *planner.column_problems()]
    return [
        *planner.column_problems(),
        *planner.problems(written),
        *loss_fits_task(contract, written),
        *check_metric(contract, written),
        *check_target(contract, written),
        *check_watched(contract, written),
        *check_floors(contract, written),
        *check_batch_ramp(contract, written),
        *check_noise_scale(contract, written),
        *_ramps(contract, facts),
        *_mean(contract, facts),
        *_warmup(contract, facts),
        *_two_classes(contract, facts),
        *check_balanced(contract, written),
        *_divided_loss(contract),
        *family_of(contract.model).problems(contract.model, learning_task(contract, facts)),
    ]


def _divided_loss(contract: Contract) -> Iterator[Problem]:
    """XGBoost takes the mean of the medians of each process for the median of all rows."""
    strategy, model = contract.distributed.strategy, contract.model
    objective = getattr(model, "objective", "")
    if not model.traits.divides_rows or strategy == "single":
        return
    if objective in ("absolute_error", "quantile"):
        yield Problem(
            "XGBoost would take medians and quantiles of the rows of each process, and their mean",
            path="distributed.strategy",
            found=f"{strategy}, and the objective {objective}",
            expected="single with this objective",
            fix="write model.objective: squared_error, or change it to single",
        )


def _two_classes(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """Metrics that need a positive class need two classes."""
    count = len(facts.target.classes)
    if contract.task != "classification" or count == 2:
        return
    for path, name in contract.named_metrics:
        if name in METRICS and METRICS[name].classes == "two":
            prefix = "val_" if path.startswith("training.") else ""
            several = f"{name}_macro" if f"{name}_macro" in METRICS else "f1_macro"
            yield Problem(
                f"{name} needs two classes, but the target has {count}",
                path=path,
                found=name,
                expected="a metric for several classes",
                fix=f"change it to {prefix}{several}",
            )


def _ramps(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """Ramps must reach their full size within the run."""
    if not contract.model.is_loop_trained:
        return
    rows = train_rows_of(contract, facts) * settled(contract.training.num_epochs)
    ramps = contract.training.ramps
    for name, ramp in (("batch", ramps.batch), ("sequence", ramps.sequence)):
        if ramp != "off" and ramp.samples > rows:
            yield Problem(
                "the ramp is longer than the run",
                path=f"training.ramps.{name}.samples",
                found=f"{ramp.samples:,}",
                expected=f"at most {rows:,}, which all epochs have",
                fix=f"change it to {max(1, rows // 10)}",
            )


def _warmup(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """The learning rate must reach its peak within its schedule."""
    if not contract.model.is_loop_trained:
        return
    steps = scheduled_steps(contract, train_rows_of(contract, facts))
    warmup = contract.training.scheduler.warmup_steps
    if warmup > steps:
        yield Problem(
            "the warmup is longer than the run",
            path="training.scheduler.warmup_steps",
            found=f"{warmup:,}",
            expected=f"at most {steps:,}, the steps of the schedule",
            fix=f"change it to {max(1, steps // 20)}",
        )


def _mean(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """A weight average needs at least two sets of weights."""
    average = contract.training.average
    if not contract.model.is_loop_trained or not isinstance(average, Swa):
        return
    from trainwright.optim.swa_schedule import taking_of

    rows = train_rows_of(contract, facts)
    ends, steps = epoch_ends(contract, rows), scheduled_steps(contract, rows)
    taken = len(taking_of(average, ends, steps).steps)
    if taken < 2:
        every = max(2 if isinstance(average.learning_rate, CyclicRate) else 1, steps // 50)
        oftener = average.model_copy(update={"every_n_steps": every})
        joined = "or" if len(taking_of(oftener, ends, steps).steps) >= 2 else "and"
        yield Problem(
            "there is nothing to take a mean of",
            path="training.average.every_n_steps",
            found=f"weights taken {many(taken, 'time')} in {many(steps, 'step')} of "
            f"{many(len(ends), 'epoch')}",
            expected="at least 2 times behind the start",
            fix=f"write every_n_steps: {every}, {joined} an earlier start",
        )


def problems_with_device(contract: Contract, device: DeviceFacts) -> Iterator[Problem]:
    """All such problems with their paths, without places."""
    if not contract.model.is_loop_trained:
        return
    training = contract.training
    if training.mixed_precision == "fp8" and not device.has_fp8:
        yield Problem(
            f"{device.name} does not compute in fp8",
            path=FORMAT,
            found="fp8",
            expected="a GPU of compute capability 8.9 or above",
            fix="write bf16, or train on such a GPU",
        )
    if training.compute.matrix_products == "onednn" and device.kind != "cpu":
        yield Problem(
            f"oneDNN does not compute on {device.name}",
            path=PRODUCTS,
            found="onednn",
            expected="a CPU",
            fix="write exact, or mixed_precision: tf32 for faster products on a GPU",
        )
    if training.compute.compile == "on" and not device.can_compile:
        needed = "Triton" if device.kind == "cuda" else "a C++ compiler, g++ or clang++"
        yield Problem(
            "what torch.compile needs is not installed",
            path=COMPILE,
            found="on",
            expected=needed,
            fix=f"install {needed}, or write off",
        )
