"""Cross-entropy in pieces against torch's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from trainwright.objective import classification_losses as chunked_loss  # noqa: E402
from trainwright.objective.classification_losses import (  # noqa: E402
    CrossEntropyLoss,
    chunked_cross_entropy,
    takes_chunks,
)

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_loss, "_PIECE", 100)


def made(dtype: torch.dtype, rows: int = 23, classes: int = 40) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(rows, classes, generator=draw)).to(dtype).requires_grad_()
    return logits, torch.randint(0, classes, (rows,), generator=draw)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_loss_and_gradient_are_those_of_fp64(dtype: torch.dtype) -> None:
    logits, target = made(dtype)
    loss = chunked_cross_entropy(logits, target)
    loss.backward(torch.tensor(0.125))
    exact = logits.detach().double().requires_grad_()
    expected = functional.cross_entropy(exact, target, reduction="sum")
    (expected / 8).backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert logits.grad.dtype == dtype
    torch.testing.assert_close(
        logits.grad.double(), exact.grad, rtol=2 * torch.finfo(dtype).eps, atol=1e-6
    )


def test_the_loss_of_classes_uses_it_where_that_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logits, target = made(torch.bfloat16)
    calls: list[int] = []
    chunks = chunked_cross_entropy

    def counted(logits: Tensor, target: Tensor) -> Tensor:
        calls.append(1)
        return chunks(logits, target)

    monkeypatch.setattr(
        "trainwright.objective.classification_losses.chunked_cross_entropy", counted
    )
    cases = [
        (CrossEntropyLoss(), logits, 1),
        (CrossEntropyLoss(z_loss=0.1), logits, 1),
        (CrossEntropyLoss(0.1), logits, 0),
        (CrossEntropyLoss(class_weights=torch.ones(40, dtype=torch.float32)), logits, 0),
        (CrossEntropyLoss(ignore_index=3), logits, 0),
        (CrossEntropyLoss(), logits.float(), 0),
        (CrossEntropyLoss(), logits[:2], 0),
    ]
    for loss, given, expected in cases:
        calls.clear()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            total = loss.total(given, target[: len(given)]).sum
            rows = loss.rows(given, target[: len(given)])
        assert len(calls) == expected
        assert total.item() == pytest.approx(rows.sum().item(), rel=1e-5)


def test_it_can_be_differentiated_twice() -> None:
    logits, target = made(torch.float32, rows=3, classes=5)
    found = []
    for loss in (
        chunked_cross_entropy(logits, target),
        functional.cross_entropy(logits, target, reduction="sum"),
    ):
        (slope,) = torch.autograd.grad(loss, logits, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), logits)[0])
    torch.testing.assert_close(found[0], found[1])


def test_what_is_not_finite_stays_so() -> None:
    logits, target = made(torch.bfloat16)
    with torch.no_grad():
        logits[4, 5] = float("nan")
    loss = chunked_cross_entropy(logits, target)
    loss.backward()
    assert not torch.isfinite(loss.detach())
    assert not torch.isfinite(logits.grad[4]).any()


def test_small_logits_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_loss, "_PIECE", 2**19)
    assert not takes_chunks(torch.zeros(256, 10, dtype=torch.bfloat16))
    assert takes_chunks(torch.zeros(2048, 8192, dtype=torch.bfloat16))
    assert not takes_chunks(torch.zeros(2048, 8192))
