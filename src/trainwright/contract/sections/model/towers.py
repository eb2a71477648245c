"""Sections of models of several encoders, any of which may be a base of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.traits import BasePlace, ModelSection


class TowerSection(ModelSection):
    """A model of encoders whose embeddings are compared."""

    @property
    def bases(self) -> Mapping[str, Pretrained]:
        """Its encoders that are bases of transformers, by the key of each."""
        return {}

    @property
    def has_adapter(self) -> bool:
        """Is an adapter trained beside any of its bases?"""
        return any(one.has_adapter for one in self.bases.values())

    def without_adapter(self) -> Self:
        """The section of its bases alone."""
        alone = {name: one.without_adapter() for name, one in self.bases.items()}
        return self.model_copy(update=alone)

    @property
    def base_weights(self) -> str:
        """SHA-256 of the weights of its bases, in the order of its keys."""
        return "+".join(one.base_weights for one in self.bases.values())

    @property
    def base_places(self) -> Mapping[str, BasePlace]:
        """Those of the bases that have an adapter."""
        adapted = {name: one.base for name, one in self.bases.items() if one.has_adapter}
        return {name: base.place for name, base in adapted.items() if base != "auto"}
