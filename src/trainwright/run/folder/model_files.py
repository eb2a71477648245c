"""Files of the model of a run: its bundle, its baselines, hashes of its training rows."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import Data
from trainwright.core.files import hash_value, read_json, storage_errors, write_atomic, write_json
from trainwright.data.base.counter_rng import Words
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.formats.parquet_sizes import read_parquet
from trainwright.data.types import Prepared
from trainwright.data.versions.snapshot import MOST_ROWS, hash_rows
from trainwright.evaluation.baselines.fit_baselines import Baselines, fit_baselines
from trainwright.evaluation.baselines.naive_forecasts import forecast_naively
from trainwright.evaluation.clause import BM25, COLOURS, DUMMY, LINEAR
from trainwright.predictor.bundle import read_bundle, write_bundle
from trainwright.predictor.bundle_files import describe_model
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import check_own, describe_owner
from trainwright.tracking.identity import Identity
from trainwright.tracking.run_folder import RunFolder

_ROWS, _ABOUT = "trained_rows.parquet", "trained_rows.json"
_TARGET = "\x00target"
_SURE_DEVIATIONS = 3.0
_LEAST_SHARE = 0.01
_FOLDER = "baselines"

_OF_SOME = (COLOURS, BM25)
"""Those that only some kinds of data have."""


def write_trained_rows(prepared: Prepared, folder: Path, *, on_both: bool = False) -> None:
    """Store a 64-bit hash of each training row (features and target, or its image), those of the
    validation rows apart, which choose among models, and the share of test rows that equal a
    training row: coarse rows repeat by chance. Nothing is stored for more than ten million rows.

    With folds the share is of the rows that a fold's model did not see (validation and test) and
    equal one of that fold's own training rows: the run's own model trains on those as well.
    `on_both`: a model of the run is trained on validation rows, too.

    Raises:
        StorageFailed: the disk.
    """
    features = prepared.features
    parts = [prepared.train, *([prepared.validation] if on_both else [])]
    count = sum(map(len, parts))
    if not _can_know(features) or count > MOST_ROWS:
        return
    trained = np.unique(np.concatenate([_hashes(part, features) for part in parts]))
    packed = io.BytesIO()
    validated = np.setdiff1d(_hashes(prepared.validation, features), trained)
    frame = pl.DataFrame({"row": np.concatenate([trained, validated])})
    frame = frame.with_columns(is_validation=np.arange(len(frame)) >= len(trained))
    frame.write_parquet(packed)
    write_atomic(folder / _ROWS, packed.getvalue())
    if folds := prepared.split.folds:
        held_out = sum(rows["validation"] + rows["test"] for rows in folds)
        repeats = prepared.split.duplicate_rows / max(1, held_out)
    else:
        of_test = _hashes(prepared.test, features)
        repeats = float(np.isin(of_test, trained).mean()) if len(of_test) else 0.0
    write_json(folder / _ABOUT, {"rows": count, "test_rows_repeated": repeats})


def find_trained_rows(part: Part, features: Encoding, folder: RunFolder) -> list[str]:
    """Warning if more of the rows equal training rows than of the run's own test rows do."""
    seen = trained_mask(part, features, folder)
    if seen is None or not len(part):
        return []
    by_chance = float(read_json(folder.data / _ABOUT)["test_rows_repeated"])
    count = int(seen.sum())
    share = count / len(part)
    spread = math.sqrt(max(by_chance * (1 - by_chance), 1e-9) / len(part))
    if share <= by_chance + _SURE_DEVIATIONS * spread + _LEAST_SHARE:
        return []
    return [
        f"{count:,} of the {len(part):,} rows ({share:.1%}) equal rows that run {folder.name} was "
        f"trained on ({by_chance:.1%} of its own test rows do): this is no score for new data"
    ]


def trained_mask(
    part: Part, features: Encoding, folder: RunFolder, *, or_validated: bool = False
) -> npt.NDArray[np.bool_] | None:
    """Which rows [N] equal training rows of a run, `or_validated` its validation rows; None if it
    does not know its own."""
    if not _can_know(features) or not (folder.data / _ROWS).is_file():
        return None
    known = read_parquet(folder.data / _ROWS)
    if not or_validated and "is_validation" in known.columns:
        known = known.filter(~known["is_validation"])
    return np.isin(_hashes(part, features), known["row"].to_numpy())


def _can_know(features: Encoding) -> bool:
    return features.knows_images or bool(features.hashed_columns)


def _hashes(part: Part, features: Encoding) -> Words:
    if features.knows_images:
        own = part.inputs.pictures().hashes()
        return np.array([int.from_bytes(one[:8], "little") for one in own], dtype=np.uint64)
    columns = [part.frame[name] for name in features.hashed_columns]
    # Codes of pairs are those of a file, and say nothing of another one.
    targets = [pl.Series(_TARGET, part.target)] if part.target.ndim == 1 else []
    return hash_rows(pl.DataFrame([*columns, *targets]))


def fit_beside(prepared: Prepared, data: Data, rows: Literal["all"] | int = "all") -> Baselines:
    """Baselines of a prepared contract, fitted on its training rows, or on a subset of them."""
    return fit_baselines(prepared, data, math.inf if rows == "all" else rows)


def score_beside(
    baselines: Baselines, prepared: Prepared, data: Data, *judged: Predictor
) -> dict[str, Floats]:
    """Scores of every baseline on the test rows, [N, C] or [N, 1]: the fitted ones, for a time
    split the forecasts that need no model, and what is `judged` without what it should use."""
    scores = {**baselines.scores(prepared.test), **forecast_naively(prepared, data)}
    for predictor in judged:
        scores |= predictor.score_counterfactuals(prepared.test.inputs)
    return scores


def write_baselines(baselines: Baselines, folder: RunFolder) -> None:
    """Store the fitted baselines, so that the run can be compared with them on any rows later."""
    root = folder.path / _FOLDER
    root.mkdir(exist_ok=True)
    for name, predictor in baselines.by_name.items():
        write_bundle(predictor, root / name, {"run": folder.name, "baseline": name})


def read_baselines(folder: RunFolder) -> dict[str, Predictor]:
    """Baselines of a run with a verdict."""
    check_own(folder, _FOLDER)
    places = {name: folder.path / _FOLDER / name for name in (DUMMY, LINEAR, *_OF_SOME)}
    return {
        name: read_bundle(place)
        for name, place in places.items()
        if name not in _OF_SOME or place.is_dir()
    }


def write_model(
    predictor: Predictor,
    prepared: Prepared,
    contract: Contract,
    folder: RunFolder,
    identity: Identity,
) -> None:
    """Write the bundle of the fitted model, which says what it was trained on. An explanation of an
    earlier one is removed.

    Raises:
        StorageFailed: the disk.
    """
    contract_hash = hash_value(contract.model_dump(mode="json"))
    described = describe_model(predictor, prepared, contract_hash, contract.split_seed)
    with storage_errors(f"removing {folder.explanation}"):
        folder.explanation.unlink(missing_ok=True)
    write_bundle(predictor, folder.bundle, describe_owner(folder, identity), described)
