"""`model` of kind `pretrained`: a published architecture with its weights."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import ModelSection, Traits
from trainwright.contract.sections.section import Auto


class Pretrained(ModelSection):
    """A published architecture with its weights."""

    traits: ClassVar[Traits] = Traits(
        reads=("table", "images", "tokens"),
        trained_by="none",
        named_by="architecture",
        noun="pretrained models",
    )

    kind: Literal["pretrained"] = "pretrained"

    architecture: str
    """Name of the published model, for example `bert-base-uncased`."""

    num_labels: Auto | Annotated[int, Field(ge=1)] = "auto"
    """Outputs of the head. `auto`: the number of classes in the data."""
