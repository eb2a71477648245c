"""Rules on which rows an epoch visits, and who makes its batches."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data import TableData
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.model import Boosting, Linear
from trainwright.contract.sections.sampling import Balanced, Blocks, Curriculum, Mixture, Uniform
from trainwright.contract.sections.tokens import TokenData
from trainwright.core.errors import Problem

_PATH = "data.sampling"


def check_sampled(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The data and the model have what the sampling speaks of."""
    data, sampling = contract.data, contract.data.sampling
    if isinstance(sampling, Uniform):
        return
    remove = "remove data.sampling"
    if isinstance(contract.model, Boosting | Linear):
        yield Problem(
            f"a model of kind {contract.model.kind} is fitted on all rows at once",
            path=_PATH,
            found=sampling.kind,
            expected="uniform, or a network",
            fix=remove,
        )
    elif isinstance(data, TokenData) and not isinstance(sampling, Mixture):
        yield Problem(
            "windows of a text have no classes and no columns, and each is a block already",
            path=f"{_PATH}.kind",
            found=sampling.kind,
            expected="uniform or mixture",
            fix=remove,
        )
    elif isinstance(data, ImageData) and not isinstance(sampling, Balanced | Blocks):
        yield Problem(
            "images have no columns",
            path=f"{_PATH}.kind",
            found=sampling.kind,
            expected="uniform, balanced or blocks",
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


def check_sources(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A mixture says where the names of its sources are, and documents are drawn in one way."""
    data, sampling = contract.data, contract.data.sampling
    if not isinstance(sampling, Mixture) or isinstance(data, ImageData):
        return
    path = f"{_PATH}.column"
    if not sampling.column and (isinstance(data, TableData) or data.text):
        yield Problem(
            "a mixture of rows needs the column that names their source",
            path=path,
            fix="add for example column: source",
        )
    if isinstance(data, TableData):
        return
    if sampling.column and not data.text:
        yield Problem(
            "files of texts have no columns",
            path=path,
            found=sampling.column,
            expected="nothing: what lies directly in the folder of texts are its sources",
            fix="remove column, or name in data.text the column of a table of texts",
        )
    if data.windows == "padded" and data.padding.buckets not in ("auto", 1):
        yield Problem(
            "documents that are drawn by their source are not drawn from buckets",
            path="data.padding.buckets",
            found=f"{data.padding.buckets} beside a mixture",
            expected="1 or auto",
            fix="remove buckets",
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
    if workers not in ("auto", 0) and isinstance(model, Boosting | Linear):
        yield Problem(
            f"a model of kind {model.kind} is fitted on all rows at once: there are no batches",
            path="data.num_workers",
            found=str(workers),
            expected="0 or auto",
            fix="remove num_workers",
        )


SAMPLING_RULES = (check_sampled, check_sources, check_balanced, check_given_once, check_workers)
"""All of them, for the list of rules."""
