"""Rows that are divided into folds, of every kind of data that has them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Section


class Folded(Section):
    """Hold-out split, or cross-validation in which every row is tested once."""

    folds: Literal["off"] | Annotated[int, Field(ge=2, le=100)] = "off"
    """`off` divides once. A number cuts the rows into so many folds by the same rule and trains a
    model for each, which is judged on the fold that it did not see; then one on all rows, which is
    the run's model. The verdict rests on the rows of all folds together."""
