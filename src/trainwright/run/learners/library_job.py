"""Inputs of a library's fit, from a plan and its data."""

from __future__ import annotations

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
    )
