"""Files of a bundle, and what it says of its model: names, sizes, hashes, signature.

Hashes show only that files are those that were written; whether the parts of a predictor fit
together is checked too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Final, final

import numpy as np

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, check_name, hash_file
from trainwright.data.base.categories import FEWEST_ROWS
from trainwright.data.base.typed_fields import check_annotated
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.predictor.predictor import Predictor

_MOST_FILES = 1000
_FIX = "copy the bundle again, or train again"
_SHOWN: Final = 12
_LIBRARIES: Final = (
    "trainwright",
    "numpy",
    "polars",
    "scikit-learn",
    "lightgbm",
    "xgboost",
    "xgboost-cpu",
    "catboost",
    "torch",
    "safetensors",
    "transformers",
    "tokenizers",
)


def changes_of_files(folder: Path, listed: Mapping[str, Json]) -> Iterator[Problem]:
    """Listed files that are missing, or are other ones."""
    for name, written in listed.items():
        path = folder / name
        if _is_link(path, folder) or not path.is_file():
            yield Problem(f"{name} is missing", expected="a file", fix=_FIX)
        elif problem := _changed(path, written):
            yield problem


def _is_link(path: Path, folder: Path) -> bool:
    return path != folder and (path.is_symlink() or _is_link(path.parent, folder))


def names_of_files(folder: Path) -> set[str]:
    """Paths of all files in the folder, and of what is neither file nor folder; links are not
    followed."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


def are_safe_names(names: Collection[str]) -> bool:
    """Are these few, and none of them leaves the folder?"""
    try:
        return len(names) <= _MOST_FILES and all(
            check_name(one, "a file") for name in names for one in name.split("/")
        )
    except Mistake:
        return False


def sync_file(path: Path) -> None:
    """Wait until the disk has a file."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _changed(path: Path, written: Json) -> Problem | None:
    """What is wrong with a file; one of another size is not read."""
    size = path.stat().st_size
    if isinstance(written, dict) and written.get("size_bytes") != size:
        found = f"{size} bytes"
    elif (described := describe_file(path)) != written:
        found = _show(described)
    else:
        return None
    said = f"{path.name} is not the file that was written"
    return Problem(said, found=found, expected=_show(written), fix=_FIX)


def describe_file(path: Path) -> dict[str, Json]:
    """SHA-256 and size."""
    return {"sha256": hash_file(path), "size_bytes": path.stat().st_size}


def _show(file: Json) -> str:
    if not isinstance(file, dict):
        return repr(file)[:80]
    return f"{file.get('size_bytes')} bytes, sha256 {str(file.get('sha256'))[:16]}"


def check_predictor(predictor: Predictor) -> None:
    """Check the fields of features and target, and score rows without content and rows of the last
    categories.

    Raises:
        ValueError: a field of another type, scores of another shape, or not finite. Any exception
            of a scorer that does not fit the features.
    """
    features, target = predictor.features, predictor.target
    check_annotated(features, "features.json")
    check_annotated(target, "target.json")
    target.check()
    if features.tokens != target.tokens:
        raise ValueError("features.json and target.json are of different tokens")
    for inputs in features.trial_inputs():
        scores = predictor.score(inputs)
        if scores.shape != (len(inputs), target.score_columns):
            raise ValueError(f"the scores of the model have the shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ValueError("the scores of the model are not finite")


@final
@dataclass(frozen=True, slots=True)
class Description:
    """Description of a model: hash of its contract, version of its data, the columns it reads with
    type, example and whether training rows lacked it, its training profile, library versions, and
    its metrics with intervals once it is judged. Empty for a bundle of an earlier version."""

    contract_hash: str = ""
    data_version: str = ""
    signature: tuple[Mapping[str, Json], ...] = ()
    profile: Json = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    metrics: Json = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.libraries)

    def to_json(self) -> Json:
        """All of it, the profile included."""
        return {
            "contract_hash": self.contract_hash,
            "data_version": self.data_version,
            "signature": list(map(dict, self.signature)),
            "profile": self.profile,
            "libraries": dict(self.libraries),
            "metrics": self.metrics,
        }


def describe_model(
    predictor: Predictor, prepared: Prepared, contract_hash: str, seed: int
) -> Description:
    """Description of a model that was fitted on these rows. Of many rows a sample is profiled,
    which is drawn with the seed."""
    features, part = prepared.features, prepared.train
    some = sampled(part, features.profiled_rows, seed)
    profile = features.profile(some)
    training = {"rows": len(part), "sampled": len(some), **profile}
    return Description(
        contract_hash=contract_hash,
        data_version=prepared.version,
        signature=tuple(one.to_json() for one in features.signature(profile)),
        profile={
            "training": training,
            "predictions": _profile_predictions(predictor, prepared, seed),
        },
        libraries=_installed(),
    )


def show_signature(signature: Sequence[Mapping[str, Json]]) -> str:
    """Columns that a model reads, with their types, on one line."""
    shown = [f"{one['name']} ({one['type']})" for one in signature[:_SHOWN]]
    more = len(signature) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _profile_predictions(predictor: Predictor, prepared: Prepared, seed: int) -> Json:
    target = prepared.target
    part = sampled(prepared.validation, target.profiled_rows, seed)
    if len(part) < FEWEST_ROWS:
        return {"rows": 0}
    scores = predictor.score_part(part)
    decided = predictor.decide(scores)
    return {"rows": len(part), **target.profile(scores, part.target, decided)}


def _installed() -> dict[str, str]:
    found = {"python": python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
