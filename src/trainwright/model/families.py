"""The table of families: kind of a section to its family. Imports without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.lazy_imports import LazyTable
from trainwright.model.family import Family, NetworkFamily, UndecidedFamily
from trainwright.model.library_family import LibraryFamily

_HERE = "trainwright.model"

FAMILIES: Mapping[str, Family[Any]] = LazyTable(
    {
        "boosting": f"{_HERE}.boosting.boosting_family:BoostingFamily",
        "xgboost": f"{_HERE}.xgboost.xgboost_family:XGBoostFamily",
        "catboost": f"{_HERE}.catboost.catboost_family:CatBoostFamily",
        "forest": f"{_HERE}.forest.forest_family:ForestFamily",
        "neighbours": f"{_HERE}.neighbours.neighbours_family:NeighboursFamily",
        "linear": f"{_HERE}.linear.linear_family:LinearFamily",
        "mlp": f"{_HERE}.mlp.mlp_family:MlpFamily",
        "ft_transformer": f"{_HERE}.ft_transformer.ft_transformer_family:FtTransformerFamily",
        "tabular_resnet": f"{_HERE}.tabular_resnet.tabular_resnet_family:TabularResNetFamily",
        "resnet": f"{_HERE}.resnet.resnet_family:ResNetFamily",
        "gpt": f"{_HERE}.gpt.gpt_family:GptFamily",
        "causal_lm": f"{_HERE}.causal_lm.causal_lm_family:CausalLmFamily",
        "dual_encoder": f"{_HERE}.dual_encoder.dual_encoder_family:DualEncoderFamily",
        "bi_encoder": f"{_HERE}.bi_encoder.bi_encoder_family:BiEncoderFamily",
        "vision_language": (f"{_HERE}.vision_language.vision_language_family:VisionLanguageFamily"),
        "pretrained": f"{_HERE}.pretrained.pretrained_family:PretrainedFamily",
        "imported": f"{_HERE}.imported.imported_family:ImportedFamily",
    },
    build=lambda family: family(),
)


UNDECIDED: Family[Any] = UndecidedFamily()
"""Of a section that stands for several: each candidate has its own."""


def family_of(section: ModelSection) -> Family[Any]:
    """The family of a section; of a selection one that decides nothing."""
    return FAMILIES.get(section.kind, UNDECIDED)


def network_family(section: ModelSection) -> NetworkFamily[Any]:
    """The family of a network."""
    family = FAMILIES[section.kind]
    assert isinstance(family, NetworkFamily), f"{section.kind} is not trained by the loop"
    return family


def library_family(section: ModelSection) -> LibraryFamily[Any]:
    """The family of a model that a library fits."""
    family = FAMILIES[section.kind]
    assert isinstance(family, LibraryFamily), f"{section.kind} is not fitted by a library"
    return family


def library_of_bundle(kind: str) -> LibraryFamily[Any]:
    """The family whose bundles are of a kind. One of that name is looked at first, so that the
    others need not be imported.

    Raises:
        KeyError: there is none.
    """
    named = [kind] if kind in FAMILIES else []
    for family in map(FAMILIES.__getitem__, (*named, *FAMILIES)):
        if isinstance(family, LibraryFamily) and family.scorer_kind == kind:
            return family
    raise KeyError(kind)


def library_bundles() -> tuple[str, ...]:
    """The kinds of bundles of all families that a library fits."""
    kinds = kinds_with(lambda traits: traits.trained_by == "library")
    families = (FAMILIES[kind] for kind in kinds)
    return tuple(one.scorer_kind for one in families if isinstance(one, LibraryFamily))
