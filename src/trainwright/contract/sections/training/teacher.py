"""`training.teacher`: the model that the training learns from, beside the targets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainwright.contract.sections.section import Positive, Section


class Teacher(Section):
    """Knowledge distillation (Hinton et al. 2015, arXiv:1503.02531): the model learns the targets
    and what a trained model, the teacher, predicts of the training rows.

    Of classes the loss is (1 - weight) x cross-entropy + weight x T^2 x KL(teacher || model), with
    both distributions at the temperature T (their section 2); of numbers it is the squared error to
    both. Models that a library fits get each row once for every class, weighted by that mixture,
    which has the same minimum at temperature 1."""

    bundle: str
    """The folder of a run or of a bundle, relative to the contract's folder. The teacher may read
    other columns than the model, and be of any kind."""

    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the teacher's part in the loss; 1 leaves the targets to validation and verdict."""

    temperature: Positive = 1.0
    """Logits are divided by it before the softmax: above 1 the small probabilities count more. For
    networks that predict classes."""
