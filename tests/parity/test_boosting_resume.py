"""Trees that go on from kept ones against trees that were grown in one go: the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from trainwright.contract.sections.model.trees import Boosting
from trainwright.data.base.inputs import TableInputs, sparse_of
from trainwright.model.boosting.lightgbm_dataset import BoostingRows, read_grown
from trainwright.model.boosting.lightgbm_fit import Boosted, BoostingJob, fit_boosting
from trainwright.model.tree_growth import Grown, OtherTrees, Watching


def _rows(outputs: int, count: int, seed: int, *, terms: int = 0) -> BoostingRows:
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(count, 5)).astype(np.float32)
    numeric[generator.random((count, 5)) < 0.1] = np.nan
    # Rare categories too: LightGBM takes those together.
    categories = np.minimum(generator.geometric(0.15, (count, 2)), 60)
    signal = np.nan_to_num(numeric[:, 0]) + np.sin(categories[:, 0]) + generator.normal(size=count)
    inputs = TableInputs(numeric, categories)
    if terms:
        counts = generator.random((count, terms)) * (generator.random((count, terms)) < 0.2)
        inputs = TableInputs(numeric, categories, sparse_of(csr_matrix(counts)))
    if outputs == 1:
        return BoostingRows(inputs, np.exp(signal / 2))
    return BoostingRows(
        inputs, np.digitize(signal, np.linspace(-1, 1, outputs - 1)).astype(np.int64)
    )


def _job(outputs: int, *, terms: int = 0, **section: Any) -> BoostingJob:
    chosen = {"max_trees": 40, "num_leaves": 7, "learning_rate": 0.2, **section}
    train = _rows(outputs, 600, 1, terms=terms)
    held = _rows(outputs, 200, 2, terms=terms)
    boosting = Boosting.model_validate({"kind": "boosting", **chosen})
    return BoostingJob(boosting, train, held, outputs, seed=7, threads=1)


@final
class Every:
    """Keeps the state of every round, through JSON as a file does."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def is_due(self) -> bool:
        return True

    def keep(self, grow: Callable[[], Grown]) -> None:
        self.kept.append(json.dumps(grow().to_json(), allow_nan=False))


def _grown(job: BoostingJob, before: Grown | None = None) -> tuple[str, dict[int, Grown]]:
    """All bytes of the model with its curve, and what was kept after each number of rounds."""
    keeper = Every()
    watching = Watching(keeper=keeper)
    fitted = fit_boosting(job, watching, *([] if before is None else [before]))
    kept = [read_grown(json.loads(text), job.outputs) for text in keeper.kept]
    return _bytes(fitted), {one.rounds: one for one in kept}


def _again(job: BoostingJob, before: Grown) -> str:
    """The same of a model that goes on from kept trees, of which none is kept."""
    return _bytes(fit_boosting(job, Watching(), before))


def _bytes(fitted: Boosted) -> str:
    return fitted.booster.model_to_string() + repr(fitted.curve)


@pytest.mark.parametrize("fractions", [(1.0, 1.0), (0.8, 1.0), (1.0, 0.6), (0.8, 0.8), (0.4, 0.5)])
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_the_bytes_are_those_of_one_growing(outputs: int, fractions: tuple[float, float]) -> None:
    bagging, features = fractions
    job = _job(outputs, bagging_fraction=bagging, feature_fraction=features)
    whole, kept = _grown(job)
    for rounds in (2, 3, 11, 39, 40):
        again = _again(job, kept[rounds])
        assert again == whole, rounds


@pytest.mark.parametrize(
    ("outputs", "section"),
    [
        (1, {"objective": "absolute_error"}),
        (1, {"objective": "quantile"}),
        (1, {"objective": "poisson"}),
        (1, {"objective": "mape"}),
        (2, {"class_weights": "balanced"}),
        (3, {"class_weights": "balanced"}),
    ],
)
def test_objectives_and_weights_go_on_too(outputs: int, section: dict[str, Any]) -> None:
    job = _job(outputs, **section)
    whole, kept = _grown(job)
    again = _again(job, kept[17])
    assert again == whole


@pytest.mark.parametrize("watch", ["rmse", "mae", "mape", "pinball", "r2"])
@pytest.mark.parametrize("objective", ["auto", "poisson", "quantile"])
def test_every_watched_metric_is_computed_again(watch: str, objective: str) -> None:
    job = replace(_job(1, objective=objective, max_trees=25), watch=watch, quantile=0.7)
    whole, kept = _grown(job)
    again, _ = _grown(job, kept[12])
    assert again == whole


def test_terms_of_texts_go_on_too() -> None:
    job = _job(2, terms=30)
    whole, kept = _grown(job)
    again = _again(job, kept[17])
    assert again == whole


def test_rows_in_files_go_on_too(tmp_path: Path) -> None:
    job = _job(3)
    whole, kept = _grown(_in_files(job, tmp_path))
    again = _again(_in_files(job, tmp_path), kept[17])
    assert again == whole == _grown(job)[0]


def _in_files(job: BoostingJob, folder: Path) -> BoostingJob:
    def written(rows: BoostingRows, name: str) -> BoostingRows:
        columns = rows.inputs
        assert isinstance(columns, TableInputs)
        parts = []
        for kind, values in (("numeric", columns.numeric), ("codes", columns.categories)):
            np.save(folder / f"{name}-{kind}.npy", values)
            parts.append(np.load(folder / f"{name}-{kind}.npy", mmap_mode="r"))
        return BoostingRows(TableInputs(*parts, in_files=True), rows.target)

    return replace(job, train=written(job.train, "train"), validation=written(job.validation, "v"))


@pytest.mark.parametrize("has_validation", [True, False])
def test_the_end_is_the_same_wherever_it_was_cut(has_validation: bool) -> None:
    """Patience, best tree and curve go on as well; a growing that is done is not begun again."""
    job = _job(2, max_trees=200, early_stopping_rounds=6)
    if not has_validation:
        none = np.zeros(0, np.int64)
        job = replace(job, validation=BoostingRows(job.validation.inputs.take(none), none))
        job = replace(job, section=job.section.model_copy(update={"max_trees": 20}))
    whole, kept = _grown(job)
    last = max(kept)
    assert kept[last].is_done
    assert has_validation == (last < 200 and kept[last].best_trees == last - 6)
    for rounds in (2, last // 2, last - 1, last):
        again = _again(job, kept[rounds])
        assert again == whole, rounds


def test_cut_again_and_again_it_is_still_the_same() -> None:
    job = _job(2)
    whole, _ = _grown(job)
    before: Grown | None = None
    for rounds in (5, 6, 20, 33):
        before = _cut_at(job, rounds, before)
        assert before.rounds == rounds
    assert _grown(job, before)[0] == whole


def _cut_at(job: BoostingJob, rounds: int, before: Grown | None) -> Grown:
    """What is kept where a signal comes in this round."""
    keeper, told = Every(), [before.rounds if before else 0]

    def tell(_trees: int, _value: float) -> None:
        told[0] += 1

    quiet = Watching(tell, is_interrupted=lambda: told[0] >= rounds, keeper=keeper)
    fit_boosting(job, quiet, *([] if before is None else [before]))
    return read_grown(json.loads(keeper.kept[-1]), job.outputs)


def test_other_rows_or_another_seed_are_seen_before_a_tree_is_added() -> None:
    job = _job(2)
    _, kept = _grown(job)
    for other in (replace(job, seed=8), replace(job, train=_rows(2, 600, 3))):
        with pytest.raises(OtherTrees):
            _grown(other, kept[20])


def test_an_interruption_while_numbers_are_drawn_again_leaves_what_was_kept() -> None:
    job = _job(2)
    _, kept = _grown(job)
    keeper = Every()
    fit_boosting(job, Watching(is_interrupted=lambda: True, keeper=keeper), kept[20])
    assert keeper.kept == []


def test_rounds_without_a_split_are_counted_and_their_numbers_drawn() -> None:
    """With so few rows a round may find none, and the next one may."""
    job = _job(2, bagging_fraction=0.3, min_data_in_leaf=80, max_trees=60)
    whole, kept = _grown(job)
    assert any(one.rounds > one.trees for one in kept.values())
    for rounds in list(kept)[::7]:
        assert _again(job, kept[rounds]) == whole, rounds
