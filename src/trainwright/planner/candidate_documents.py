"""Contracts of the candidates of a selection: that of the run, with one kind of model."""

from __future__ import annotations

from dataclasses import replace

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import Document
from trainwright.contract.sections.model.selection import (
    CANDIDATES,
    DUMMY_CANDIDATE,
    ModelSelection,
)
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.run_settings import Budget
from trainwright.contract.sections.training.training import Training
from trainwright.core.lazy_imports import need_torch
from trainwright.model.families import library_family

_PATH = "model.candidates"


def candidate_documents(document: Document) -> dict[str, Document]:
    """Contract of each candidate that is a family, by name, from the simplest on; none of another
    model. The run divides its budget between them, and calibrates the one that it keeps."""
    selection = document.contract.model
    if not isinstance(selection, ModelSelection):
        return {}
    return {
        name: _of(document, CANDIDATES[name])
        for name in selection.chosen_names
        if name != DUMMY_CANDIDATE
    }


def need_installed(model: ModelSection) -> None:
    """Check that what trains a candidate is installed.

    Raises:
        MissingExtra: it is not.
    """
    if model.is_loop_trained:
        need_torch(_PATH, "a network")
    else:
        library_family(model).need_library(_PATH, f"a model of kind {model.kind}")


def needs_torch(contract: Contract) -> bool:
    """Is a network among the candidates?"""
    selection = contract.model
    if not isinstance(selection, ModelSelection):
        return False
    return any(
        name != DUMMY_CANDIDATE and CANDIDATES[name].is_loop_trained
        for name in selection.chosen_names
    )


def _of(document: Document, model: ModelSection) -> Document:
    contract = document.contract
    hidden: tuple[str, ...] = ("model",)
    training = contract.training
    if model.is_loop_trained:
        own = {"calibration": "none", "threshold": 0.5, "seeds": 1, "refit": False}
        training = training.model_copy(update=own)
    else:
        training = Training(checkpointing=training.checkpointing)
        hidden = ("model", "training")
    # The batches of tables are gathered, for which the training process is the fastest.
    data = contract.data.model_copy(update={"num_workers": 0})
    update = {"model": model, "training": training, "data": data, "budget": Budget()}
    written = {path for path in document.written if path.split(".")[0] not in hidden}
    return replace(
        document, contract=contract.model_copy(update=update), written=frozenset(written)
    )
