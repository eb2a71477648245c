"""Inputs of a library's fit, from a plan and its data."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.contract.document import Contract
from trainwright.data.types import Prepared
from trainwright.model.library_family import LibraryJob


def job_of(contract: Contract, prepared: Prepared) -> LibraryJob:
    """Training and validation rows with what a library must know of them."""
    return LibraryJob(
        train=prepared.train,
        validation=prepared.validation,
        outputs=prepared.target.outputs,
        cardinalities=prepared.features.cardinalities,
        seed=contract.seed,
        metric=contract.metric.name,
        quantile=contract.metric.quantile,
        monotone=_monotone(contract, prepared),
    )


def _monotone(contract: Contract, prepared: Prepared) -> Mapping[int, int]:
    """Signs of the constraints by the place of their column; turned round where the positive class
    is the first."""
    names, target = prepared.features.numeric_names, prepared.target
    turn = -1 if target.classes and target.positive_code == 0 else 1
    return {
        names.index(name): turn if way == "increasing" else -turn
        for name, way in contract.model.monotone_columns.items()
    }
