"""`model`: what is trained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from trainwright.contract.section import Auto, Count, Fraction, NonNegative, Positive, Section


class Boosting(Section):
    """Gradient-boosted trees (LightGBM). Stops adding trees when the validation metric does not
    improve, and keeps the best number."""

    kind: Literal["boosting"]

    max_trees: Count = 2000
    """Most trees (boosting rounds) to grow."""

    early_stopping_rounds: Count = 100
    """Trees without a better validation loss after which growing ends."""

    learning_rate: Positive = 0.05
    """Shrinkage of each tree."""

    num_leaves: Annotated[int, Field(ge=2)] = 31
    """Most leaves of one tree."""

    min_data_in_leaf: Count = 20
    """Fewest training rows in a leaf."""

    feature_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the features that each tree may use."""

    bagging_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the rows that each tree sees."""

    lambda_l2: NonNegative = 0.0
    """L2 penalty on leaf values."""


class Linear(Section):
    """Logistic regression for classes, ridge regression for numbers (scikit-learn)."""

    kind: Literal["linear"]

    penalty: NonNegative = 1.0
    """L2 penalty: 1/C of the logistic regression, alpha of the ridge regression."""

    max_iterations: Count = 1000
    """Most iterations of the solver."""


class Mlp(Section):
    """A multi-layer perceptron over scaled numbers and embedded categories."""

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
    """How a number enters: as it is, or through sines and cosines of learned frequencies, which
    lets a network see thresholds and narrow ranges as trees do (Gorishniy et al. 2022,
    arXiv:2203.05556, section 3.3)."""


class TabularResNet(Section):
    """A residual network for tables (Gorishniy et al. 2021, arXiv:2106.11959, section 3.2): blocks
    of norm, Linear, ReLU, Dropout, Linear, Dropout around a skip connection. The norm is LayerNorm,
    not the paper's BatchNorm, so that an update does not depend on how its batch is divided."""

    kind: Literal["tabular_resnet"]

    width: Count = 192
    """Features that flow along the skip connections (d in the paper)."""

    blocks: Count = 3
    """Residual blocks."""

    hidden_factor: Positive = 2.0
    """Hidden units of a block over `width`."""

    hidden_dropout: Fraction = 0.25
    """Dropout inside a block."""

    residual_dropout: Fraction = 0.1
    """Dropout at the end of a block."""

    embedding_dim: Auto | Count = "auto"
    """Width of each category's embedding. `auto`: min(50, ceil(1.6 * categories ** 0.56))."""

    numeric_embedding: Literal["none", "periodic"] = "periodic"
    """How a number enters: as it is, or through sines and cosines of learned frequencies, which
    lets a network see thresholds and narrow ranges as trees do (Gorishniy et al. 2022,
    arXiv:2203.05556, section 3.3)."""


class Pretrained(Section):
    """A published architecture with its weights."""

    kind: Literal["pretrained"] = "pretrained"

    architecture: str
    """Name of the published model, for example `bert-base-uncased`."""

    num_labels: Auto | Annotated[int, Field(ge=1)] = "auto"
    """Outputs of the head. `auto`: the number of classes in the data."""


def _kind_of(value: Any) -> str:
    """`kind` as written; a model that only names its `architecture` is a pretrained one."""
    if isinstance(value, dict):
        return str(value.get("kind", "pretrained" if "architecture" in value else "missing"))
    return str(getattr(value, "kind", "missing"))


Model = Annotated[
    Annotated[Boosting, Tag("boosting")]
    | Annotated[Linear, Tag("linear")]
    | Annotated[Mlp, Tag("mlp")]
    | Annotated[TabularResNet, Tag("tabular_resnet")]
    | Annotated[Pretrained, Tag("pretrained")],
    Discriminator(_kind_of),
]

Network = Mlp | TabularResNet
"""The models that the loop trains."""

MODEL_KINDS = ("boosting", "linear", "mlp", "tabular_resnet", "pretrained")
