"""`model`: what is trained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from trainwright.contract.sections.section import (
    Auto,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Section,
)

Objective = Literal["log_loss", "squared_error", "absolute_error", "mape", "quantile", "poisson"]


class Boosting(Section):
    """Gradient-boosted trees (LightGBM). Stops adding trees when the validation value does not
    improve, and keeps the best number. The defaults are those of the benchmark of default models:
    columns and rows drawn for each tree, and a penalty on leaf values, against overfitting."""

    kind: Literal["boosting"]

    objective: Auto | Objective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae, `mape` for mape,
    `quantile` (the one of `metric.quantile`) for pinball, `squared_error` for other metrics of
    numbers, `log_loss` for classes. `poisson` is for counts, whose spread grows with their mean."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    max_trees: Count = 2000
    """Most trees (boosting rounds) to grow."""

    early_stopping_rounds: Count = 100
    """Trees without a better validation value after which growing ends. The value is the metric for
    numbers where LightGBM has it, else the loss: of few rows an AUC moves too little to tell."""

    learning_rate: Positive = 0.05
    """Shrinkage of each tree."""

    num_leaves: Annotated[int, Field(ge=2)] = 31
    """Most leaves of one tree."""

    min_data_in_leaf: Count = 20
    """Fewest training rows in a leaf."""

    feature_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the features that each tree may use."""

    bagging_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the rows that each tree sees."""

    lambda_l2: NonNegative = 1.0
    """L2 penalty on leaf values."""


class Linear(Section):
    """Logistic regression for classes, ridge regression for numbers (scikit-learn)."""

    kind: Literal["linear"]

    penalty: Auto | NonNegative = "auto"
    """L2 penalty: 1/C of the logistic regression, alpha of the ridge regression. `auto`: 1, and 0.1
    for classes where a column is a text."""

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
    """Encoding of a number: unchanged, or by sines and cosines of learned frequencies, which
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

    stochastic_depth: Fraction = 0.0
    """Chance that a row skips the last block in training; earlier blocks are skipped less, in
    proportion to their depth (Huang et al. 2016, arXiv:1603.09382, equation 4)."""

    embedding_dim: Auto | Count = "auto"
    """Width of each category's embedding. `auto`: min(50, ceil(1.6 * categories ** 0.56))."""

    numeric_embedding: Literal["none", "periodic"] = "periodic"
    """Encoding of a number: unchanged, or by sines and cosines of learned frequencies, which
    lets a network see thresholds and narrow ranges as trees do (Gorishniy et al. 2022,
    arXiv:2203.05556, section 3.3)."""


class ResNet(Section):
    """A residual convolutional network (He et al. 2016, arXiv:1603.05027, with the norm before each
    convolution): a stem, stages of blocks of two 3x3 convolutions, the mean over the places."""

    kind: Literal["resnet"]

    width: Count = 32
    """Channels of the first stage; each later stage has twice as many at half the size."""

    blocks: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 1, 1)
    """Residual blocks of each stage."""

    stem: Literal["full", "half"] = "full"
    """Resolution of the first stage: `full`, or `half`, which costs a quarter."""

    norm: Literal["group", "batch"] = "group"
    """`group` (Wu and He 2018, arXiv:1803.08494) treats each image alone, so that an update does
    not depend on how its batch is divided; `batch` often needs fewer epochs, and accumulation then
    changes the update."""

    dropout: Fraction = 0.0
    """Share of the features dropped before the last layer."""

    stochastic_depth: Fraction = 0.0
    """Chance that an image skips the last block in training; earlier blocks are skipped less, in
    proportion to their depth (Huang et al. 2016, arXiv:1603.09382, equation 4)."""


class Gpt(Section):
    """A transformer that predicts the next token from those before it (Radford et al. 2019), with
    the norm before each part and the head tied to the embedding."""

    kind: Literal["gpt"]

    layers: Count = 4
    """Blocks of attention and feed-forward."""

    heads: Count = 4
    """Attention heads of a block; a divisor of `width`."""

    width: Count = 128
    """Features of each position."""

    context: Annotated[int, Field(ge=2)] = 64
    """Tokens that the model sees at once. A training row is a window of so many tokens."""

    dropout: Fraction = 0.0
    """Share dropped of the embedding, of attention and at the end of each part of a block."""

    positions: Literal["rotary", "learned"] = "rotary"
    """How the model knows the order: `rotary` turns queries and keys by their position (Su et al.
    2021, arXiv:2104.09864), `learned` adds a vector for each position."""


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
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[Gpt, Tag("gpt")]
    | Annotated[Pretrained, Tag("pretrained")],
    Discriminator(_kind_of),
]

TableModel = Mlp | TabularResNet
"""The networks for rows of a table."""

Network = Mlp | TabularResNet | ResNet | Gpt
"""The models that the loop trains."""
