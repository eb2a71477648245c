"""Rules on `purpose`: what a contract must ask for, so that its run can hold what the purpose
demands."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import Problem


def check_purpose(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """What contradicts a stated purpose, as far as the contract alone says."""
    match contract.purpose:
        case "production":
            yield from _same_data(contract)
            yield from _limits(contract)
        case "research":
            yield from _same_data(contract)
        case "benchmark":
            yield from _same_data(contract)
            yield from _seeds(contract)
        case "adapter":
            yield from _adapter(contract)
        case "unstated":
            pass


def _same_data(contract: Contract) -> Iterator[Problem]:
    """The verdict is about the data of the record."""
    if contract.resume.data_changed == "record":
        yield Problem(
            f"a result for {contract.purpose} is that of the data in its record",
            path="resume.data_changed",
            found="record",
            expected="refuse",
            fix="remove resume.data_changed",
        )


def _limits(contract: Contract) -> Iterator[Problem]:
    """What a prediction may take is known before the model is in use."""
    serving = contract.serving
    if contract.data.has_row_latency and serving.latency_ms == "unlimited":
        yield Problem(
            "a model for production has a limit of the time of a prediction",
            path="serving.latency_ms",
            found="unlimited",
            expected="milliseconds",
            fix="write for example serving.latency_ms: 100",
        )
    if serving.megabytes == "unlimited":
        yield Problem(
            "a model for production has a limit of its size",
            path="serving.megabytes",
            found="unlimited",
            expected="millions of bytes",
            fix="write for example serving.megabytes: 500",
        )


def _seeds(contract: Contract) -> Iterator[Problem]:
    """How much of a score is due to the seed, where there is one. Folds have a spread of their
    own."""
    training, traits = contract.training, contract.model.traits
    has_seed = traits.trained_by != "library" or "training.seeds" in traits.training_keys
    if training.seeds > 1 or not has_seed or fold_count(contract.data):
        return
    if training.refit:
        yield Problem(
            "a benchmark shows the spread over seeds, which a second training does not have",
            path="training.refit",
            found="true",
            expected="training.seeds in its place",
            fix="remove training.refit",
        )
    yield Problem(
        "a benchmark shows how much of the score is due to the seed",
        path="training.seeds",
        found=str(training.seeds),
        expected="at least 2",
        fix="write training.seeds: 3",
    )


def _adapter(contract: Contract) -> Iterator[Problem]:
    """An adapter is trained."""
    model = contract.model
    if model.has_adapter:
        return
    fitting = kinds_with(lambda one: bool(one.adapters) and contract.data.form in one.reads)
    yield Problem(
        "the purpose is an adapter, and none is trained",
        path="purpose",
        found=f"a model of kind {model.kind} without model.adapter",
        expected=f"an adapter beside a base ({', '.join(fitting)})"
        if fitting
        else f"another purpose: no model of data of kind {contract.data.kind} has adapters",
        fix="write model.adapter: {kind: lora}, or remove purpose"
        if model.traits.adapters
        else "remove purpose",
    )
