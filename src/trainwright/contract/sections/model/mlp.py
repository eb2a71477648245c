"""`model` of kind `mlp`: a multi-layer perceptron for tables."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import EVERYTHING, ModelSection, Traits
from trainwright.contract.sections.section import Auto, Count, Fraction


class Mlp(ModelSection):
    """A multi-layer perceptron over scaled numbers and embedded categories."""

    traits: ClassVar[Traits] = Traits(
        reads=("table",), ranks=True, predicts=EVERYTHING, has_row_state=True
    )

    kind: Literal["mlp"]

    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (256, 128)
    """Units of each hidden layer."""

    activation: Literal["relu", "gelu", "silu"] = "relu"
    """The non-linearity after each hidden layer."""

    dropout: Fraction = 0.1
    """Share of hidden units dropped in training."""

    embedding_dim: Auto | Count = "auto"
    """Width of each category's embedding. `auto`: min(50, ceil(1.6 * categories ** 0.56))."""

    numeric_embedding: Literal["none", "periodic"] = "periodic"
    """Encoding of a number: unchanged, or by sines and cosines of learned frequencies, which
    lets a network see thresholds and narrow ranges as trees do (Gorishniy et al. 2022,
    arXiv:2203.05556, section 3.3)."""
