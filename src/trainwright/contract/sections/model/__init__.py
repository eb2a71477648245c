"""`model`: what is trained. The table of families: their sections, one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

from pydantic import Discriminator, Tag

from trainwright.contract.sections.model.boosting import Boosting
from trainwright.contract.sections.model.catboost import CatBoost
from trainwright.contract.sections.model.dual_encoder import DualEncoder
from trainwright.contract.sections.model.forest import Forest
from trainwright.contract.sections.model.ft_transformer import FtTransformer
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.imported import Imported
from trainwright.contract.sections.model.linear import Linear
from trainwright.contract.sections.model.mlp import Mlp
from trainwright.contract.sections.model.neighbours import Neighbours
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.selection import ModelSelection
from trainwright.contract.sections.model.tabular_resnet import TabularResNet
from trainwright.contract.sections.model.traits import ModelSection, Traits
from trainwright.contract.sections.model.xgboost import XGBoost


def _kind_of(value: Any) -> str:
    """`kind` as written; a model that only names its `architecture` is a pretrained one."""
    if isinstance(value, dict):
        return str(value.get("kind", "pretrained" if "architecture" in value else "missing"))
    return str(getattr(value, "kind", "missing"))


Model = Annotated[
    Annotated[Boosting, Tag("boosting")]
    | Annotated[XGBoost, Tag("xgboost")]
    | Annotated[CatBoost, Tag("catboost")]
    | Annotated[Forest, Tag("forest")]
    | Annotated[Neighbours, Tag("neighbours")]
    | Annotated[Linear, Tag("linear")]
    | Annotated[Mlp, Tag("mlp")]
    | Annotated[FtTransformer, Tag("ft_transformer")]
    | Annotated[TabularResNet, Tag("tabular_resnet")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[Gpt, Tag("gpt")]
    | Annotated[DualEncoder, Tag("dual_encoder")]
    | Annotated[Pretrained, Tag("pretrained")]
    | Annotated[Imported, Tag("imported")]
    | Annotated[ModelSelection, Tag("auto")],
    Discriminator(_kind_of),
]


def sections() -> dict[str, type[ModelSection]]:
    """The section of each family by its kind, in the order of the table; a selection is none."""
    members = (get_args(member) for member in get_args(get_args(Model)[0]))
    return {tag.tag: section for section, tag in members if section is not ModelSelection}


def kinds_with(trait: Callable[[Traits], bool]) -> tuple[str, ...]:
    """Kinds of the families that have a trait; code of the user's own is not among them."""
    traits = {kind: section.traits for kind, section in sections().items()}
    return tuple(kind for kind, one in traits.items() if not one.runs_code and trait(one))
