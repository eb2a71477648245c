"""Build the objective of a contract."""

from __future__ import annotations

from typing import assert_never

import torch

from trainwright.contract.sections.training.objective import (
    AbsoluteError,
    AutoLoss,
    BinaryCrossEntropy,
    Contrastive,
    CrossEntropy,
    Dpo,
    Focal,
    Huber,
    ListNet,
    Loss,
    Ordinal,
    Poisson,
    Quantile,
    RankNet,
    SquaredError,
)
from trainwright.data.base.inputs import Floats
from trainwright.objective.classification_losses import (
    BinaryCrossEntropyLoss,
    CrossEntropyLoss,
    FocalLoss,
    OrdinalLoss,
)
from trainwright.objective.contrastive import ContrastiveLoss, PassageLoss
from trainwright.objective.losses import TargetLoss
from trainwright.objective.preference_losses import DpoLoss
from trainwright.objective.ranking_losses import ListNetLoss, RankNetLoss
from trainwright.objective.regression_losses import (
    AbsoluteErrorLoss,
    HuberLoss,
    PoissonLoss,
    QuantileLoss,
    QuantilesLoss,
    SeveralTargetsLoss,
    SquaredErrorLoss,
)

_Plain = Ordinal | SquaredError | AbsoluteError | Poisson | ListNet | RankNet


def build_loss(
    section: Loss,
    class_rows: Floats,
    device: torch.device,
    quantiles: tuple[float, ...] = (),
    passage_width: int = 0,
    *,
    several: bool = False,
) -> TargetLoss:
    """Loss of a plan; of `several` targets the mean over those of a row.

    `class_rows` [C] are the training rows of each class, or the sums of their weights, for balanced
    weights, of labels [2, L] those without and with each; empty without classes. `quantiles` are
    those of `metric.quantiles`, if any.
    `passage_width` are the features of the embeddings of text pairs, 0 of other data.
    """
    if several:
        return SeveralTargetsLoss(build_loss(section, class_rows, device))
    match section:
        case AutoLoss():
            raise AssertionError("the plan resolves the loss")
        case CrossEntropy():
            return _cross_entropy(section, class_rows, device)
        case BinaryCrossEntropy():
            balanced = section.class_weights == "balanced"
            return BinaryCrossEntropyLoss(
                label_weights=balanced_weights(class_rows).to(device) if balanced else None
            )
        case Focal():
            return FocalLoss(section.gamma)
        case Huber():
            return HuberLoss(section.delta)
        case Quantile():
            return QuantilesLoss(quantiles) if quantiles else QuantileLoss(section.quantile)
        case Dpo():
            return DpoLoss(section.beta, section.form)
        case Contrastive():
            return PassageLoss(passage_width) if passage_width else ContrastiveLoss()
        case _:
            return _without_settings(section)


def _without_settings(section: _Plain) -> TargetLoss:
    match section:
        case Ordinal():
            return OrdinalLoss()
        case SquaredError():
            return SquaredErrorLoss()
        case AbsoluteError():
            return AbsoluteErrorLoss()
        case Poisson():
            return PoissonLoss()
        case ListNet():
            return ListNetLoss()
        case RankNet():
            return RankNetLoss()
        case _:
            assert_never(section)


def _cross_entropy(
    section: CrossEntropy, class_rows: Floats, device: torch.device
) -> CrossEntropyLoss:
    balanced = section.class_weights == "balanced"
    return CrossEntropyLoss(
        label_smoothing=section.label_smoothing,
        class_weights=balanced_weights(class_rows).to(device) if balanced else None,
        z_loss=section.z_loss,
    )


def balanced_weights(class_rows: Floats) -> torch.Tensor:
    """rows / (classes x rows of the class), float32 [C] or [2, L]: their mean over the rows is
    1."""
    assert len(class_rows)
    assert class_rows.min() > 0, "every class has a training row"
    weights = class_rows.sum(axis=0) / (len(class_rows) * class_rows)
    return torch.tensor(weights, dtype=torch.float32)
