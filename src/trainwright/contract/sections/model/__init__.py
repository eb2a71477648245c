"""`model`: what is trained. The table of families: their sections, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Discriminator

from trainwright.contract.sections.model.traits import ModelSection, Traits
from trainwright.contract.sections.section import SectionUnion
from trainwright.core.lazy_imports import LazyTable

_HERE = "trainwright.contract.sections.model"
MODEL_SECTIONS: Mapping[str, type[ModelSection]] = LazyTable(
    {
        "boosting": f"{_HERE}.trees:Boosting",
        "xgboost": f"{_HERE}.trees:XGBoost",
        "catboost": f"{_HERE}.trees:CatBoost",
        "forest": f"{_HERE}.trees:Forest",
        "neighbours": f"{_HERE}.neighbours:Neighbours",
        "linear": f"{_HERE}.linear:Linear",
        "mlp": f"{_HERE}.table_networks:Mlp",
        "ft_transformer": f"{_HERE}.table_networks:FtTransformer",
        "tabular_resnet": f"{_HERE}.table_networks:TabularResNet",
        "resnet": f"{_HERE}.resnet:ResNet",
        "gpt": f"{_HERE}.gpt:Gpt",
        "causal_lm": f"{_HERE}.causal_lm:CausalLm",
        "dual_encoder": f"{_HERE}.dual_encoder:DualEncoder",
        "bi_encoder": f"{_HERE}.bi_encoder:BiEncoder",
        "vision_language": f"{_HERE}.vision_language:VisionLanguage",
        "pretrained": f"{_HERE}.pretrained:Pretrained",
        "imported": f"{_HERE}.imported:Imported",
        "auto": f"{_HERE}.selection:ModelSelection",
    }
)


def _kind_of(value: Any) -> str:
    """`kind` as written; a model that only names its `architecture` is a pretrained one."""
    if isinstance(value, dict):
        return str(value.get("kind", "pretrained" if "architecture" in value else "missing"))
    return str(getattr(value, "kind", "missing"))


Model = Annotated[ModelSection, SectionUnion(MODEL_SECTIONS, Discriminator(_kind_of))]


def sections() -> dict[str, type[ModelSection]]:
    """The section of each family by its kind, in the order of the table; a selection is none."""
    return {kind: section for kind, section in MODEL_SECTIONS.items() if kind != "auto"}


def kinds_with(trait: Callable[[Traits], bool]) -> tuple[str, ...]:
    """Kinds of the families that have a trait; code of the user's own is not among them."""
    traits = {kind: section.traits for kind, section in sections().items()}
    return tuple(kind for kind, one in traits.items() if not one.runs_code and trait(one))
