"""What a bundle says of its model: input signature, training profile, origin and versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Final, final

from trainwright.core.files import Json
from trainwright.data.base.row_distribution import FEWEST_ROWS
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.predictor.predictor import Predictor

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
