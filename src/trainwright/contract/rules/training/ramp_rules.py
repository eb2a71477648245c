"""Rules on what grows, and on limits in rows and tokens."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.sampling import Curriculum
from trainwright.contract.sections.training.ramps import BatchRamp, SequenceRamp
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem

_RAMPS = "training.ramps"
_STOP = "training.stop"


def check_batch_ramp(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A ramp goes up."""
    ramp, full = contract.training.ramps.batch, contract.training.effective_batch_size
    if ramp == "off" or full == "auto" or ramp.start < full:
        return
    yield Problem(
        "a step would begin with all of its rows",
        path=f"{_RAMPS}.batch.start",
        found=str(ramp.start),
        expected=f"less than effective_batch_size, which is {full}",
        fix=f"change it to {full // 8}" if full >= 16 else "remove training.ramps.batch",
    )


def check_sequence_ramp(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Windows of a text are cut into equal ones."""
    ramp, context = contract.training.ramps.sequence, contract.model.context_length
    if ramp == "off":
        return
    path = f"{_RAMPS}.sequence"
    if not contract.data.has_tokens or not context:
        yield Problem(
            "only a text has windows that can be cut",
            path=path,
            found=f"data of kind {contract.data.kind}",
            expected="data of kind tokens",
            fix="remove training.ramps.sequence",
        )
    elif ramp.start >= context or context % ramp.start:
        fitting = [size for size in range(1, context) if context % size == 0]
        nearest = min(fitting, key=lambda size: abs(size - ramp.start))
        yield Problem(
            f"windows of {context} tokens cannot be cut into ones of {ramp.start}",
            path=f"{path}.start",
            found=str(ramp.start),
            expected=f"a divisor of model.context, less than {context}",
            fix=f"change it to {nearest}",
        )


def check_ramp_ends(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The end of a ramp is given once."""
    ramps = {"batch": contract.training.ramps.batch, "sequence": contract.training.ramps.sequence}
    for name, ramp in ramps.items():
        both = {f"{_RAMPS}.{name}.samples", f"{_RAMPS}.{name}.ratio"}
        if isinstance(ramp, BatchRamp | SequenceRamp) and both <= written and ramp.samples:
            yield Problem(
                "the end of the ramp is given twice",
                path=f"{_RAMPS}.{name}.samples",
                found="samples and ratio",
                expected="one of the two",
                fix="remove one",
            )


def check_limits(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Tokens are those of a text, and a schedule spans limits that are there."""
    stop = contract.training.stop
    if stop.max_tokens != "off" and not contract.data.has_tokens:
        yield Problem(
            "only a text has tokens",
            path=f"{_STOP}.max_tokens",
            found=f"data of kind {contract.data.kind}",
            expected="data of kind tokens",
            fix="rename it to max_samples, which counts training rows",
        )
    limits = (stop.max_steps, stop.max_samples, stop.max_tokens)
    if stop.schedule_spans == "limits" and all(limit == "off" for limit in limits):
        yield Problem(
            "there is no limit for the schedule to span",
            path=f"{_STOP}.schedule_spans",
            found="limits",
            expected="max_steps, max_samples or max_tokens beside it",
            fix="remove schedule_spans, or add a limit",
        )


def check_length(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The length of a training is given once, tokens are those of a text, and what is a share of
    the length knows it beforehand."""
    training = contract.training
    names = ("num_steps", "num_tokens", "stop.max_steps", "stop.max_samples", "stop.max_tokens")
    given = [f"training.{name}" for name in names if _value(training, name) != "off"]
    given += ["training.num_epochs"] * (training.num_epochs != "auto")
    length = [path for path in given if path in _LENGTHS]
    if not length:
        return
    if len(given) > 1:
        yield Problem(
            "the length of the training is given twice",
            path=length[0],
            found=" and ".join(sorted(given)),
            expected="one of them",
            fix="remove the others",
        )
    padded_mix = contract.data.is_padded and contract.data.sampling.kind == "mixture"
    if training.num_tokens != "off" and (not contract.data.has_tokens or padded_mix):
        yield Problem(
            "the tokens of an epoch are not known beforehand",
            path=_LENGTHS[1],
            found="a padded mixture" if padded_mix else f"data of kind {contract.data.kind}",
            expected="a text whose epochs have equally many tokens",
            fix="rename it to num_steps, which counts optimizer steps",
        )
    yield from _shares(contract, length[0])


_LENGTHS = ("training.num_steps", "training.num_tokens")


def _value(training: Training, name: str) -> object:
    section, _, key = name.rpartition(".")
    return getattr(training.stop if section else training, key)


def _shares(contract: Contract, length: str) -> Iterator[Problem]:
    """Ramps and curricula that end after a share of all rows, whose number is not given."""
    ramps = {f"{_RAMPS}.batch": contract.training.ramps.batch}
    parts: dict[str, object] = {**ramps, f"{_RAMPS}.sequence": contract.training.ramps.sequence}
    parts["data.sampling"] = contract.data.sampling
    for path, one in parts.items():
        if isinstance(one, BatchRamp | SequenceRamp | Curriculum) and not one.samples:
            yield Problem(
                "it ends after a share of the rows of all epochs, which are not given",
                path=f"{path}.ratio",
                found=f"{one.ratio:g}, and {length.rpartition('.')[2]}",
                expected="a number of rows",
                fix="write samples in place of ratio",
            )


def check_noise_scale(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The noise is seen between the micro-batches of a step."""
    windows, accumulation = contract.tracking.windows, contract.training.gradient_accumulation_steps
    if windows == "off" or windows.noise_scale == "off" or accumulation != 1:
        return
    yield Problem(
        "the gradient noise scale needs two micro-batches in a step",
        path="tracking.windows.noise_scale",
        found="one micro-batch a step",
        expected="training.gradient_accumulation_steps above 1",
        fix="halve training.batch_size and write gradient_accumulation_steps: 2, or remove it",
    )


RAMP_RULES = (
    check_batch_ramp,
    check_sequence_ramp,
    check_ramp_ends,
    check_limits,
    check_length,
    check_noise_scale,
)
"""All of them, for the list of rules."""
