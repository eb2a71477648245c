"""Rules on which rows an epoch visits, and who makes its batches."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.sampling import Balanced, Curriculum, Mixture, Uniform
from trainwright.core.errors import Problem

_PATH = "data.sampling"


def check_sampled(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The data and the model have what the sampling speaks of."""
    data, sampling = contract.data, contract.data.sampling
    if isinstance(sampling, Uniform):
        return
    remove = "remove data.sampling"
    if not contract.model.is_loop_trained:
        yield Problem(
            f"a model of kind {contract.model.kind} is fitted on all rows at once",
            path=_PATH,
            found=sampling.kind,
            expected="uniform, or a network",
            fix=remove,
        )
    elif sampling.kind not in data.samplings:
        *others, last = data.samplings
        yield Problem(
            data.sampling_limits,
            path=f"{_PATH}.kind",
            found=sampling.kind,
            expected=f"{', '.join(others)} or {last}" if others else last,
            fix=remove,
        )
    elif not data.shuffle:
        yield Problem(
            "rows that are drawn do not come as they lie",
            path="data.shuffle",
            found=f"false beside a sampling of kind {sampling.kind}",
            expected="one of the two",
            fix="remove shuffle",
        )


def check_balanced(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Only classes can be balanced."""
    if isinstance(contract.data.sampling, Balanced) and contract.task == "regression":
        yield Problem(
            "a target of numbers has no classes to balance",
            path=f"{_PATH}.kind",
            found="balanced",
            expected="another sampling for a regression",
            fix="choose weighted, with a column of weights",
        )


def no_source_column() -> Problem:
    """A mixture that does not name the column of its sources."""
    return Problem(
        "a mixture of rows needs the column that names their source",
        path=f"{_PATH}.column",
        fix="add for example column: source",
    )


def check_given_once(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Shares and the end of a curriculum are given once."""
    match contract.data.sampling:
        case Mixture(weights=weights) if weights:
            pair = ("weights", "temperature")
        case Curriculum(samples=samples) if samples:
            pair = ("samples", "ratio")
        case _:
            return
    # Beside weights that are not empty, only a temperature can be one too many.
    if f"{_PATH}.{pair[1]}" in written:
        yield Problem(
            f"{pair[0]} stand in the place of {pair[1]}",
            path=f"{_PATH}.{pair[0]}",
            found="both",
            expected="one of the two",
            fix="remove one",
        )


def check_workers(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Who makes batches, makes them for a network."""
    workers, model = contract.data.num_workers, contract.model
    if workers not in ("auto", 0) and not model.is_loop_trained:
        yield Problem(
            f"a model of kind {model.kind} is fitted on all rows at once: there are no batches",
            path="data.num_workers",
            found=str(workers),
            expected="0 or auto",
            fix="remove num_workers",
        )


SAMPLING_RULES = (check_sampled, check_balanced, check_given_once, check_workers)
"""All of them, for the list of rules."""
