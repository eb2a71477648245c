"""An index of embeddings by the model of a run, and searches in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.document import Contract
from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.inputs import Floats, Inputs
from trainwright.data.base.pair_inputs import OneSide, WantedSide
from trainwright.data.columns.retrieval_targets import unit_rows
from trainwright.data.dispatch import modality_of
from trainwright.data.modalities.modality import kept_columns
from trainwright.predictor.bundle import bundle_hash
from trainwright.predictor.embedding_index import IndexFacts, read_index, write_index
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.request import refuse_script_run
from trainwright.tracking.run_folder import RunFolder

_ROWS = 4096
FOUND = ("query", "rank", "match", "cosine")
"""The columns of what is found, before those that the index keeps."""


def index_file(
    folder: RunFolder, data: str, output: Path, wanted: WantedSide, keep: Sequence[str]
) -> IndexFacts:
    """Write the embeddings of the images or texts of a file, with the columns to keep.

    Raises:
        Mistake: the model of the run gives no embeddings, or the file cannot be read.
            StorageFailed: the disk.
    """
    predictor, contract = _read_embedder(folder)
    found = _side_of(data, predictor, contract, wanted)
    if taken := sorted({*keep} & {"name", *FOUND}):
        raise Mistake(
            Problem(
                "a kept column would have the name of another one",
                path="--keep",
                found=", ".join(taken),
                fix="rename the column of the file",
            )
        )
    kept = kept_columns(found.frame, keep)
    rows = pl.DataFrame([found.names.alias("name"), *kept.get_columns()])
    facts = IndexFacts(
        bundle_hash(folder.bundle), found.side, len(rows), contract.model.embedding_width
    )
    write_index(output, facts, _blocks(predictor, found.inputs), rows)
    return facts


def search_rows(folder: RunFolder, queries: OneSide, index: Path, top: int) -> pl.DataFrame:
    """The `top` nearest rows of an index for each query: `query`, `rank` from 1, `match`, `cosine`,
    and the columns that the index keeps; a row for each match.

    Raises:
        Mistake: there is no such index, or it is one of another model.
    """
    predictor, _ = _read_embedder(folder)
    opened = read_index(index, bundle_hash(folder.bundle))
    blocks = list(_blocks(predictor, queries.inputs))
    asked = np.concatenate(blocks) if blocks else np.zeros((0, opened.facts.width))
    found = opened.nearest(asked, top)
    count = found.places.shape[1]
    rows = opened.rows[found.places.ravel()]
    ranks = np.tile(np.arange(1, count + 1), len(asked))
    names = queries.names.cast(pl.String).gather(np.repeat(np.arange(len(asked)), count))
    columns = [
        names.alias("query"),
        pl.Series("rank", ranks),
        rows["name"].alias("match"),
        pl.Series("cosine", found.cosines.ravel()),
    ]
    return pl.DataFrame([*columns, *rows.drop("name").get_columns()])


def read_queries(folder: RunFolder, file: str, text: str, wanted: WantedSide) -> OneSide:
    """A text as a query, or those of a file, if one is named.

    Raises:
        Mistake: the model of the run gives no embeddings, or the file cannot be read.
    """
    predictor, contract = _read_embedder(folder)
    if file:
        return _side_of(file, predictor, contract, wanted)
    modality = modality_of(contract.data.kind)
    inputs = modality.read_texts([text], predictor.features)
    return OneSide("texts", "texts", inputs, pl.Series("query", [text]), pl.DataFrame())


def _side_of(data: str, predictor: Predictor, contract: Contract, wanted: WantedSide) -> OneSide:
    modality = modality_of(contract.data.kind)
    return modality.read_side(data, predictor.features, contract.data, wanted)


def _read_embedder(folder: RunFolder) -> tuple[Predictor, Contract]:
    refuse_script_run(folder, "compute embeddings in the script")
    predictor = read_own_bundle(folder)
    if predictor.target.task != "retrieval":
        raise Mistake(
            Problem(
                f"the model of run {folder.name} gives no embeddings",
                found=f"a run with task: {predictor.target.task}",
                expected="a run with task: retrieval",
                fix="train one",
            )
        )
    return predictor, read_planned(folder)


def _blocks(predictor: Predictor, inputs: Inputs) -> Iterator[Floats]:
    """Embeddings of length 1, in blocks of rows."""
    for start in range(0, len(inputs), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(inputs)))
        yield unit_rows(np.asarray(predictor.score(inputs.take(rows)), np.float64))
