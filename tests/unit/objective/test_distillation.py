"""The loss of a student: the equations of Hinton et al. 2015, section 2."""

from __future__ import annotations

from typing import Literal

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional

from trainwright.data.loading.batch import Batch
from trainwright.model.row_state import PROJECTION, add_projection, remove_projection
from trainwright.objective.classification_losses import CrossEntropyLoss
from trainwright.objective.distillation import Distilled, DistilledStates
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


@pytest.mark.parametrize("distance", ["cosine", "mse"])
@pytest.mark.parametrize("width", [6, 9])
def test_states_and_their_gradients_are_those_of_a_loop_over_rows(
    distance: Literal["cosine", "mse"], width: int
) -> None:
    """Row by row in fp64: (1 - w) CE + w T^2 KL + factor x distance, times the weight of the row;
    a state of another width goes through the matrix first (TinyBERT, equation 8)."""
    torch.manual_seed(2)
    logits, states = torch.randn(5, 3).double(), torch.randn(5, width).double()
    numbers, codes, weights = torch.randn(5, 4).double(), torch.randint(0, 3, (5,)), torch.rand(5)
    tensors = {"numeric": numbers, "target": codes, "weight": weights.double()}
    batch = Batch({**tensors, "soft_target": logits.softmax(dim=1), "teacher_state": states})
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    head = model[2]
    assert isinstance(head, nn.Linear)
    add_projection(model, head, width)
    parameters = dict(model.named_parameters())
    assert (f"{PROJECTION}.weight" in parameters) == (width != 6)
    # `nn.Sequential` would call the matrix after the head; networks of families do not.
    body = _Body(model)
    base = Distilled(CrossEntropyLoss(), 0.4, 3.0, classes=True)
    loss = DistilledStates(base, lambda _: head, 0.7, distance)(body, batch)
    found = torch.autograd.grad(loss.sum, list(parameters.values()))

    total = torch.zeros((), dtype=torch.float64)
    for row in range(5):
        state = torch.tanh(model[0](numbers[row]))
        own = head(state)
        q, p = (own / 3).log_softmax(0), (logits[row] / 3).softmax(0)
        soft = 9 * sum(p[at] * (p[at].log() - q[at]) for at in range(3))
        if width != 6:
            state = parameters[f"{PROJECTION}.weight"] @ state
        if distance == "mse":
            apart = sum((state[at] - states[row, at]) ** 2 for at in range(width)) / width
        else:
            norms = (state @ state).sqrt() * (states[row] @ states[row]).sqrt()
            apart = 1 - state @ states[row] / norms
        hard = -own.log_softmax(0)[codes[row]]
        total = total + weights[row].double() * (0.6 * hard + 0.4 * soft + 0.7 * apart)
    assert loss.targets == 5
    torch.testing.assert_close(loss.sum, total)
    expected = torch.autograd.grad(total, list(parameters.values()))
    torch.testing.assert_close(found, expected)
    remove_projection(model)
    assert PROJECTION not in dict(model.named_children())


class _Body(nn.Module):
    """Layers of which only the first three are called."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers
        if PROJECTION in dict(layers.named_children()):
            self.add_module(PROJECTION, layers.get_submodule(PROJECTION))

    def forward(self, numeric: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers[:3](numeric)
        return found
