"""The loss of a student: the equations of Hinton et al. 2015, section 2."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional

from trainwright.data.loading.batch import Batch
from trainwright.objective.classification_losses import CrossEntropyLoss
from trainwright.objective.distillation import Distilled
from trainwright.objective.regression_losses import SquaredErrorLoss


def _classes() -> tuple[nn.Linear, Batch, torch.Tensor]:
    torch.manual_seed(0)
    logits = torch.randn(7, 4) * 3
    batch = Batch(
        {
            "numeric": torch.randn(7, 5),
            "target": torch.randint(0, 4, (7,)),
            "soft_target": logits.softmax(dim=1),
        }
    )
    return nn.Linear(5, 4), batch, logits


@pytest.mark.parametrize(("weight", "temperature"), [(0.3, 1.0), (0.7, 4.0), (1.0, 2.0)])
def test_it_is_the_mixture_of_both_cross_entropies(weight: float, temperature: float) -> None:
    model, batch, logits = _classes()
    loss = Distilled(CrossEntropyLoss(), weight, temperature, classes=True)(model, batch)
    student = model(batch["numeric"])
    p = (logits / temperature).softmax(dim=1)
    q = (student / temperature).log_softmax(dim=1)
    soft = temperature**2 * (p * (p.log() - q)).sum()
    hard = functional.cross_entropy(student, batch["target"], reduction="sum")
    assert loss.targets == 7
    torch.testing.assert_close(loss.sum, weight * soft + (1 - weight) * hard)


def test_its_gradient_at_a_high_temperature_is_that_of_matched_logits() -> None:
    """At a high temperature and for logits of mean 0 the gradient is (z - v) / C (their equation
    4), with logits z of the student and v of the teacher."""
    _, batch, logits = _classes()
    centred = logits - logits.mean(dim=1, keepdim=True)
    student = torch.randn(7, 4)
    student = (student - student.mean(dim=1, keepdim=True)).requires_grad_()
    whole = Batch({"z": student, "target": batch["target"], "soft_target": centred.softmax(dim=1)})
    Distilled(CrossEntropyLoss(), 1.0, 500.0, classes=True)(nn.Identity(), whole).sum.backward()
    assert student.grad is not None
    torch.testing.assert_close(student.grad, (student.detach() - centred) / 4, rtol=0.05, atol=0.02)


def test_numbers_are_drawn_to_target_and_teacher_and_rows_are_weighed() -> None:
    torch.manual_seed(1)
    outputs, target, teacher, weight = torch.randn(6, 1), *torch.rand(3, 6).unbind()
    batch = Batch({"z": outputs, "target": target, "soft_target": teacher, "weight": weight})
    loss = Distilled(SquaredErrorLoss(), 0.25, 1.0, classes=False)(nn.Identity(), batch)
    apart = 0.25 * (outputs[:, 0] - teacher) ** 2 + 0.75 * (outputs[:, 0] - target) ** 2
    torch.testing.assert_close(loss.sum, (weight * apart).sum())
