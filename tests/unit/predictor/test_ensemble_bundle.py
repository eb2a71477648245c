"""An ensemble is one bundle, whose members are bundles, and is read as it was written."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

from command import write_rows
from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json, write_json
from trainwright.data.encoders.rows_encoder import RowsEncoder
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.predictor.bundle import MANIFEST, read_bundle, write_bundle
from trainwright.predictor.ensemble_scorer import EnsembleScorer, Member, SecondLevel
from trainwright.predictor.predictor import Predictor


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder / "rows.csv", 200)
    section = TableData(
        path="rows.csv",
        target="bought",
        positive="yes",
        split=StratifiedSplit(kind="stratified"),
        features=Features(numeric="none", impute="none", categorical="codes"),
    )
    return prepare_table(read_table(section, folder), section, "classification", 0)


@pytest.fixture(scope="module")
def ensemble(rows: Prepared) -> Predictor:
    both = fit_baselines(rows)
    members = [
        Member("linear-01", "linear", 0.5, both.linear),
        Member("linear-02", "linear", 0.25, both.linear),
        Member("dummy-01", "dummy", 0.25, both.dummy),
    ]
    features = RowsEncoder(TableEncoder.of_kind(rows.features))
    return Predictor(features, rows.target, EnsembleScorer(members))


def test_scores_are_the_weighted_mean_and_survive_the_bundle(
    rows: Prepared, ensemble: Predictor, tmp_path: Path
) -> None:
    both = fit_baselines(rows)
    wanted = 0.75 * both.linear.score_part(rows.test) + 0.25 * both.dummy.score_part(rows.test)
    found = ensemble.score(ensemble.inputs_of(rows.test, rows.features))
    np.testing.assert_allclose(found, wanted, atol=1e-15)
    write_bundle(ensemble, tmp_path / "bundle", {})
    assert not [path for path in (tmp_path / "bundle").rglob("*") if path.suffix == ".pkl"]
    again = read_bundle(tmp_path / "bundle")
    new = pl.DataFrame({"age": [20, None], "city": ["Oslo", "Nowhere"], "visits": [1.5, 2.0]})
    assert again.predict(new).equals(ensemble.predict(new))
    scorer = again.scorer
    assert isinstance(scorer, EnsembleScorer)
    assert dict(scorer.weights) == {"linear": 0.75, "dummy": 0.25}
    assert again.count_unseen(new) == {"age": 1, "city": 1}


def test_a_second_level_over_the_means_of_candidates_survives_the_bundle(
    rows: Prepared, ensemble: Predictor, tmp_path: Path
) -> None:
    assert isinstance(ensemble.scorer, EnsembleScorer)
    both, members = fit_baselines(rows), ensemble.scorer.members
    level = SecondLevel("softmax", (0.1, -0.1), {"linear": 1.5, "dummy": 0.5})
    stack = Predictor(ensemble.features, ensemble.target, EnsembleScorer(members, (level,)))
    inputs = stack.inputs_of(rows.test, rows.features)
    linear, dummy = (np.log(one.score_part(rows.test)) for one in (both.linear, both.dummy))
    odds = np.exp(np.array([0.1, -0.1]) + 1.5 * linear + 0.5 * dummy)
    wanted = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(stack.score(inputs), wanted, atol=1e-12)
    folder = tmp_path / "bundle"
    write_bundle(stack, folder, {})
    again = read_bundle(folder)
    np.testing.assert_array_equal(again.score(inputs), stack.score(inputs))
    content = read_json(folder / "ensemble.json")
    assert content["format"] == 2
    for change in (
        {"weights": {"linear": 1.5}},
        {"intercept": [0.0]},
        {"link": "probit"},
        {"weights": {"linear": -1.0, "dummy": 1.0}},
    ):
        changed = {**content, "second_level": {**content["second_level"], **change}}
        _replace(folder, "ensemble.json", changed)
        with pytest.raises(Mistake):
            read_bundle(folder)


def test_members_of_one_encoding_share_the_encoded_rows(
    rows: Prepared, ensemble: Predictor
) -> None:
    inputs = ensemble.inputs_of(rows.test, rows.features)
    with mock.patch.object(
        TableEncoder, "transform", autospec=True, side_effect=TableEncoder.transform
    ) as encode:
        ensemble.score(inputs)
    # The dummy has the features of the linear baseline.
    assert encode.call_count == 1


@pytest.mark.parametrize("weights", [[0.5, 0.5, 0.5], [1.5, -0.25, -0.25], [float("nan")] * 3])
def test_impossible_weights_are_refused(
    ensemble: Predictor, tmp_path: Path, weights: list[float]
) -> None:
    folder = tmp_path / "bundle"
    write_bundle(ensemble, folder, {})
    content = read_json(folder / "ensemble.json")
    for member, weight in zip(content["members"], weights, strict=True):
        member["weight"] = str(weight)
    _replace(folder, "ensemble.json", content)
    with pytest.raises(Mistake, match="weights"):
        read_bundle(folder)


def test_an_ensemble_of_ensembles_and_a_name_that_leads_out_are_refused(
    ensemble: Predictor, tmp_path: Path
) -> None:
    inner = Member("inner", "inner", 1.0, ensemble)
    nested = Predictor(ensemble.features, ensemble.target, EnsembleScorer([inner]))
    write_bundle(nested, tmp_path / "nested", {})
    with pytest.raises(Mistake, match="ensemble of ensembles"):
        read_bundle(tmp_path / "nested")
    folder = tmp_path / "bundle"
    write_bundle(ensemble, folder, {})
    content = read_json(folder / "ensemble.json")
    content["members"][0]["name"] = "../../bundle"
    _replace(folder, "ensemble.json", content)
    with pytest.raises(Mistake, match="member"):
        read_bundle(folder)


def test_a_changed_file_of_a_member_is_named(ensemble: Predictor, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    write_bundle(ensemble, folder, {})
    target = folder / "members" / "dummy-01" / "target.json"
    target.write_text(target.read_text() + " ")
    with pytest.raises(Mistake, match=r"target\.json"):
        read_bundle(folder)


def _replace(folder: Path, name: str, content: object) -> None:
    """Another content with a hash that fits."""
    from trainwright.core.files import hash_file

    write_json(folder / name, content)
    manifest = read_json(folder / MANIFEST)
    size = (folder / name).stat().st_size
    manifest["files"][name] = {"sha256": hash_file(folder / name), "size_bytes": size}
    write_json(folder / MANIFEST, manifest)
