"""Rows as LightGBM takes them: matrices, rows in files, queries; and trees grown so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import lightgbm
import numpy as np
import numpy.typing as npt

from trainwright.core.files import Json
from trainwright.data.base.inputs import (
    NO_WEIGHTS,
    Floats,
    Inputs,
    Integers,
    Part,
    TableInputs,
    as_columns,
)
from trainwright.data.base.row_storage import SLICE_ROWS, bounds
from trainwright.model.library_family import QueryRows, RankingJob
from trainwright.model.tree_growth import Grown, grown_from_json, weights_of_rows

USUAL_TRUNCATION, BEYOND = 30, 3
"""A pair of rows counts if one stands above this rank: LightGBM's default, and what it advises to
add to the k of a metric."""

OwnMetric = Callable[[Floats, lightgbm.Dataset], tuple[str, float, bool]]


def booster_of(grown: Grown) -> lightgbm.Booster:
    """Booster for predictions."""
    return lightgbm.Booster(model_str=grown.text)


def read_grown(values: Json, outputs: int) -> Grown:
    """Inverse of `Grown.to_json`, for a model of `outputs` classes, or regression (1).

    Raises:
        ValueError, TypeError, KeyError: invalid content. LightGBM has not read it yet.
    """
    from trainwright.model.boosting.lightgbm_text import check_model_text

    check_model_text(str(values["text"]), outputs)
    grown = grown_from_json(values)
    try:
        held = booster_of(grown).current_iteration()
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot read it: {error}") from error
    if held != grown.trees:
        raise ValueError(f"it does not hold the {grown.trees} trees that it names")
    return grown


def round_text(booster: Any, number: int) -> str:
    """Trees added by a round, in LightGBM's text format; rounds count from 0."""
    text = str(booster.model_to_string(start_iteration=number, num_iteration=1))
    return text[text.index("Tree=0") : text.index("end of trees")]


@dataclass(frozen=True, slots=True)
class BoostingRows:
    """Encoded rows with their target: int64 class codes [N] or float64 values [N]; of a ranking
    query by query, with the rows of each query `sizes` [Q]. `weights` [N] say how much each row
    counts; empty if all count alike."""

    inputs: Inputs
    target: npt.NDArray[Any]
    sizes: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: Floats = field(default_factory=lambda: NO_WEIGHTS)

    @classmethod
    def of(cls, part: Part, queries: QueryRows) -> BoostingRows:
        """Rows of a part."""
        if not len(queries.sizes):
            return cls(part.inputs, part.target, weights=part.weights)
        order = queries.order
        return cls(part.inputs.take(order), part.target[order], queries.sizes)


def matrix_of(inputs: Inputs) -> Any:
    """Numeric columns, text terms, then category codes: float32 [N, F + T + G], sparse if there are
    terms; codes below 2**24 stay exact."""
    columns = as_columns(inputs)
    if not columns.terms.width:
        return _matrix(columns, slice(None))
    from scipy.sparse import csr_matrix, hstack

    codes = columns.categories.astype(np.float32)
    blocks = [csr_matrix(columns.numeric), columns.terms.matrix(), csr_matrix(codes)]
    # Given an array, LightGBM would build a matrix itself, each time.
    return csr_matrix(hstack(blocks, format="csr"))


def _matrix(columns: TableInputs, rows: int | slice) -> npt.NDArray[np.float32]:
    numbers, codes = columns.numeric[rows], columns.categories[rows]
    return np.concatenate([numbers, codes.astype(np.float32)], axis=-1)


@final
class RowsInFiles(lightgbm.Sequence):
    """`matrix_of`, one slice at a time, in the float64 that LightGBM requires of sampled rows.
    LightGBM samples the rows for its bins, and fills them, as for a matrix: the trees are the
    same."""

    batch_size = SLICE_ROWS

    def __init__(self, columns: TableInputs) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, rows: int | slice | list[int]) -> Floats:
        assert not isinstance(rows, list), "only subsets of a data set ask for a list"
        return _matrix(self._columns, rows).astype(np.float64)


@final
class ContinuedDataset(lightgbm.Dataset):
    """Data set of rows that may be in files, where LightGBM cannot compute the scores of earlier
    trees, and gives rows without weights those of the data set that they refer to: zeros."""

    def construct(self) -> lightgbm.Dataset:
        """Make the data set in LightGBM's memory, once."""
        lacks_weights = (
            self._handle is None
            and isinstance(self.data, RowsInFiles)
            and self.weight is None
            and self.reference is not None
            and self.reference.weight is not None
        )
        made = super().construct()
        if lacks_weights:
            # Not by `set_weight`, which takes ones for none.
            self.set_field("weight", np.ones(self.num_data(), np.float32))
        return made

    def _set_init_score_by_predictor(
        self, predictor: Any, data: Any, used_indices: Any
    ) -> lightgbm.Dataset:
        if predictor is None or not isinstance(data, RowsInFiles):
            return super()._set_init_score_by_predictor(predictor, data, used_indices)
        parts = [data[slice(*ends)] for ends in bounds(len(data))]
        scores = [predictor.predict(part, raw_score=True) for part in parts]
        return self.set_init_score(np.concatenate(scores))


def build_dataset(
    rows: BoostingRows,
    weights: Floats | None,
    grades: Floats,
    reference: lightgbm.Dataset | None = None,
) -> lightgbm.Dataset:
    """Rows as LightGBM takes them: `weights` [C] are those of classes, `grades` [G] the relevances
    that its labels number."""
    columns = as_columns(rows.inputs)
    numbers = columns.numeric.shape[1] + columns.terms.width
    width = numbers + columns.categories.shape[1]
    return ContinuedDataset(
        RowsInFiles(columns) if columns.in_files else matrix_of(columns),
        label=np.searchsorted(grades, rows.target) if len(grades) else rows.target,
        group=rows.sizes if len(rows.sizes) else None,
        weight=weights_of_rows(weights, rows.target, rows.weights),
        reference=reference,
        categorical_feature=list(range(numbers, width)),
        params={"verbosity": -1},
    )


def ranking_objective(objective: str, ranking: RankingJob, grades: Floats) -> dict[str, Any]:
    """Parameters of a loss of queries. `grades` [G] are the relevances that the labels number, so
    that they need not be whole numbers; each is worth what the contract's metric says."""
    if objective != "lambdarank":
        return {"objective": objective}
    return {
        "objective": objective,
        "label_gain": ranking.gain(grades).tolist(),
        "lambdarank_truncation_level": truncation_of(ranking),
    }


def truncation_of(ranking: RankingJob) -> int:
    """The rank down to which pairs count."""
    return max(USUAL_TRUNCATION, 0 if ranking.k == "all" else ranking.k + BEYOND)


def ranking_metric(ranking: RankingJob, train: lightgbm.Dataset) -> OwnMetric:
    """1 - the contract's metric, on the training or the validation rows."""

    def loss(scores: Floats, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
        return ranking.watched, ranking.loss(scores, of_training=rows is train), False

    return loss


def ranking_losses(
    trees: lightgbm.Booster,
    matrix: Any,
    ranking: RankingJob,
    threads: int,
    between: Callable[[], None],
) -> Floats:
    """1 - the metric of the validation rows after each tree [trees]; `between` is called after each
    and may raise to end it."""
    raw, found = np.zeros(()), np.zeros(trees.current_iteration())
    for number in range(len(found)):
        between()
        added = trees.predict(
            matrix, raw_score=True, start_iteration=number, num_iteration=1, num_threads=threads
        )
        raw = raw + np.asarray(added, np.float64)
        found[number] = ranking.loss(raw, of_training=False)
    return found
