"""`training.loss` and `training.teacher`: what the training makes small."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.section import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    Section,
    tagged_by,
)


class AutoLoss(Section):
    """The usual loss of the task: `cross_entropy` for classes and tokens, `mse` for numbers,
    `poisson` for counts, which the metrics `poisson_deviance` and `rmsle` ask for, `quantile` for
    `metric.quantiles`, `ordinal` for classes with an order, `listnet` for a ranking, `dpo` for
    preferences, `binary_cross_entropy` for labels, and `contrastive` for a retrieval."""

    name: Literal["auto"] = "auto"


class CrossEntropy(Section):
    """-log softmax(logits)[target], of classes and of tokens."""

    name: Literal["cross_entropy"]

    label_smoothing: Fraction = 0.0
    """Share of the target that is spread evenly over all classes (Szegedy et al. 2016,
    arXiv:1512.00567, section 7)."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    z_loss: NonNegative = 0.0
    """Factor of the penalty log(sum(exp(logits)))^2, which keeps logits from drifting (Chowdhery
    et al. 2022, arXiv:2204.02311, section 5: 1e-4)."""


class BinaryCrossEntropy(Section):
    """-log sigmoid(logit) of a label that the row has, -log(1 - sigmoid(logit)) of one that it has
    not; the mean over the labels."""

    name: Literal["binary_cross_entropy"]

    class_weights: Literal["none", "balanced"] = "none"
    """How much a cell counts: `none`, all alike; `balanced`, for each label rows / (2 x rows that
    have it) where a row has it, rows / (2 x rows that have it not) elsewhere. Probabilities are
    then those of labels that half of the rows have."""


class Focal(Section):
    """Cross-entropy in which easy rows fade: times (1 - p)^gamma (Lin et al. 2017,
    arXiv:1708.02002, equation 4)."""

    name: Literal["focal"]

    gamma: NonNegative = 2.0
    """Focusing exponent: how fast easy rows are down-weighted; 0 is plain cross-entropy."""


class Ordinal(Section):
    """-log of the probability of the right side, summed over the boundaries between ordered classes
    (`data.order`), so that a class farther from the truth costs more: the loss of CORAL (Cao et al.
    2020, arXiv:1901.07884, equation 4) on the cumulative probabilities of a softmax, which agree
    with each other without its shared weight."""

    name: Literal["ordinal"]


class SquaredError(Section):
    """(output - target)^2 of the standardised target; its minimum is the mean."""

    name: Literal["mse"]


class AbsoluteError(Section):
    """|output - target| of the standardised target; its minimum is the median."""

    name: Literal["mae"]


class Huber(Section):
    """Squared near 0, linear far from it, so that outliers pull less (Huber 1964)."""

    name: Literal["huber"]

    delta: Positive = 1.0
    """Transition to linear, in standard deviations of the target."""


class Quantile(Section):
    """The pinball loss, whose minimum is a quantile (Koenker and Bassett 1978); its mean over
    `metric.quantiles` where they are asked for."""

    name: Literal["quantile"]

    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The quantile to predict, if it is one."""


class Poisson(Section):
    """exp(output) - count * output, the negative log-likelihood of a count whose rate is
    exp(output) (McCullagh and Nelder 1989, section 6.3). The target is a count, and the prediction
    its rate, which is above 0."""

    name: Literal["poisson"]


class ListNet(Section):
    """Of the rows of a query, the cross-entropy between softmax(relevance) and softmax(scores): the
    chance of each row to be the first (Cao et al. 2007, ICML, doi:10.1145/1273496.1273513, section
    4, the top-one probability)."""

    name: Literal["listnet"]


class RankNet(Section):
    """Of the pairs of rows of a query with different relevances, the mean of log(1 + exp(s_j -
    s_i)) where row i is the more relevant one (Burges et al. 2005, ICML,
    doi:10.1145/1102351.1102363, equation 3)."""

    name: Literal["ranknet"]


class Dpo(Section):
    """Direct preference optimisation, for `data.kind: preferences` (Rafailov et al. 2023,
    arXiv:2305.18290, equation 7). The reward of an answer is beta times the difference of its
    log-probabilities by the model and by the base; the margin is that of the chosen answer over the
    rejected one."""

    name: Literal["dpo"]

    beta: Positive = 0.1
    """How strongly the model is held to the base."""

    form: Literal["sigmoid", "ipo"] = "sigmoid"
    """`sigmoid`: -log sigmoid(margin). `ipo`: (margin / beta - 1 / (2 beta))^2, which does not ask
    for ever larger margins (Azar et al. 2023, arXiv:2310.12036, equation 17)."""

    length_normalised: bool = False
    """Whether the log-probability of an answer is its mean over its tokens, not their sum, so that
    long answers weigh no more (Meng et al. 2024, arXiv:2405.14734, section 2.2)."""


class Contrastive(Section):
    """Of the pairs of a step, the cross-entropy of the right caption among all captions for each
    image, and of the right image among all images for each caption, and the mean of both (InfoNCE:
    van den Oord et al. 2018, arXiv:1807.03748; both ways as in CLIP, Radford et al. 2021,
    arXiv:2103.00020, figure 3). Pairs that share an image or a caption are no negatives of each
    other."""

    name: Literal["contrastive"]


Loss = Annotated[
    Annotated[AutoLoss, Tag("auto")]
    | Annotated[CrossEntropy, Tag("cross_entropy")]
    | Annotated[BinaryCrossEntropy, Tag("binary_cross_entropy")]
    | Annotated[Focal, Tag("focal")]
    | Annotated[Ordinal, Tag("ordinal")]
    | Annotated[SquaredError, Tag("mse")]
    | Annotated[AbsoluteError, Tag("mae")]
    | Annotated[Huber, Tag("huber")]
    | Annotated[Quantile, Tag("quantile")]
    | Annotated[ListNet, Tag("listnet")]
    | Annotated[RankNet, Tag("ranknet")]
    | Annotated[Poisson, Tag("poisson")]
    | Annotated[Dpo, Tag("dpo")]
    | Annotated[Contrastive, Tag("contrastive")],
    tagged_by("name", default="auto"),
]

LOSSES_OF_CLASSES = CrossEntropy | Focal | Ordinal
LOSSES_OF_QUERIES = ListNet | RankNet


class TeacherStates(Section):
    """Hidden states of the teacher (Romero et al. 2015, arXiv:1412.6550): to the loss of a row is
    added weight x the distance between what the head of the model reads and what that of the
    teacher reads, one vector a row each. Where they have different widths, a matrix that is trained
    with the model and is no part of the bundle brings the model's to the teacher's (Jiao et al.
    2020, arXiv:1909.10351, equation 8)."""

    weight: Positive = 1.0
    """Factor of the distance; it is added to the loss of targets and teacher, which keep theirs."""

    distance: Literal["cosine", "mse"] = "cosine"
    """`cosine`: 1 - cosine, which knows no scale (Sanh et al. 2019, arXiv:1910.01108, section 3);
    `mse`: the mean of the squared differences."""


class Teacher(Section):
    """Knowledge distillation (Hinton et al. 2015, arXiv:1503.02531): the model learns the targets
    and what a trained model, the teacher, predicts of the training rows.

    Of classes and of the tokens of a text the loss is (1 - weight) x cross-entropy + weight x T^2 x
    KL(teacher || model), with both distributions at the temperature T (their section 2); of numbers
    it is the squared error to both. Models that a library fits get each row once for every class,
    weighted by that mixture, which has the same minimum at temperature 1."""

    bundle: str
    """The folder of a run or of a bundle, relative to the contract's folder. The teacher may read
    other columns than the model, and be of any kind. Of a decoder it is one with the same
    tokenizer, or a decoder's folder of Hugging Face."""

    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the teacher's part in the loss; 1 leaves the targets to validation and verdict."""

    temperature: Positive = 1.0
    """Logits are divided by it before the softmax: above 1 the small probabilities count more. For
    networks that predict classes or tokens."""

    top_k: Literal["all"] | Count = 32
    """Of a decoder: how many of the likeliest tokens of each position are kept, with their
    probabilities. The others are one class, which has the rest of the probability in the teacher
    and in the model: unlike probabilities that are divided by their sum, this teaches no tail away
    (Anshumann et al. 2025, arXiv:2503.16870, section 3), and says nothing of what is in it. A
    position takes 8 bytes for each."""

    hidden: Literal["none"] | TeacherStates = "none"
    """Hidden states of the teacher that the model learns too, computed once as its predictions are.
    For networks of tables (`mlp`, `tabular_resnet`, `ft_transformer`), of images and encoders of
    transformers, with a teacher among them that reads the same rows."""
