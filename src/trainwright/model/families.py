"""The table of families: kind of a section to its family. Imports without torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.model.boosting.boosting_family import BoostingFamily
from trainwright.model.catboost.catboost_family import CatBoostFamily
from trainwright.model.family import Family, NetworkFamily
from trainwright.model.forest.forest_family import ForestFamily
from trainwright.model.ft_transformer.ft_transformer_family import FtTransformerFamily
from trainwright.model.gpt.gpt_family import GptFamily
from trainwright.model.library_family import LibraryFamily
from trainwright.model.linear.linear_family import LinearFamily
from trainwright.model.mlp.mlp_family import MlpFamily
from trainwright.model.neighbours.neighbours_family import NeighboursFamily
from trainwright.model.pretrained.pretrained_family import PretrainedFamily
from trainwright.model.resnet.resnet_family import ResNetFamily
from trainwright.model.tabular_resnet.tabular_resnet_family import TabularResNetFamily
from trainwright.model.xgboost.xgboost_family import XGBoostFamily

FAMILIES: Mapping[str, Family[Any]] = MappingProxyType(
    {
        "boosting": BoostingFamily(),
        "xgboost": XGBoostFamily(),
        "catboost": CatBoostFamily(),
        "forest": ForestFamily(),
        "neighbours": NeighboursFamily(),
        "linear": LinearFamily(),
        "mlp": MlpFamily(),
        "ft_transformer": FtTransformerFamily(),
        "tabular_resnet": TabularResNetFamily(),
        "resnet": ResNetFamily(),
        "gpt": GptFamily(),
        "pretrained": PretrainedFamily(),
    }
)


LIBRARIES: Mapping[str, LibraryFamily[Any]] = MappingProxyType(
    {one.scorer_kind: one for one in FAMILIES.values() if isinstance(one, LibraryFamily)}
)
"""Families that a library fits, by the kind of their bundles."""


def family_of(section: ModelSection) -> Family[Any]:
    """The family of a section."""
    return FAMILIES[section.kind]


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
