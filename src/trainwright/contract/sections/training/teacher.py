"""`training.teacher`: the model that the training learns from, beside the targets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Count, Positive, Section


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
