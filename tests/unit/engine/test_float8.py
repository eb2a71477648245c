"""Products in float8. Torch computes them on a CPU too, slowly: their numbers are tested here;
their speed is of GPUs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.engine.execution.float8 import Float8Products, fits_float8, float8_linear  # noqa: E402
from trainwright.engine.execution.precision import Float8, build_precision  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


def off_by(found: Tensor, exact: Tensor) -> float:
    found, exact = found.detach().double(), exact.detach().double()
    return float((found - exact).norm() / exact.norm())


def test_all_three_products_are_those_of_fp64_but_for_the_rounding() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(4, 16, 96, generator=draw, requires_grad=True)
    weight = torch.randn(160, 96, generator=draw, requires_grad=True)
    back = torch.randn(4, 16, 160, generator=draw)
    out = float8_linear(x, weight)
    out.backward(back)
    flat, flat_back = x.detach().flatten(0, 1), back.flatten(0, 1)
    assert out.dtype == torch.bfloat16
    assert (x.grad.dtype, weight.grad.dtype) == (torch.float32, torch.float32)
    # e4m3 keeps 4 significant bits, e5m2 3: half a unit is 2^-4 and 2^-3 at most.
    assert 0.01 < off_by(out, functional.linear(x.detach(), weight.detach())) < 0.05
    assert 0.01 < off_by(x.grad.flatten(0, 1), flat_back @ weight.detach()) < 0.08
    assert 0.01 < off_by(weight.grad, flat_back.t() @ flat) < 0.08


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_matrices_of_any_size_use_the_range_of_the_format(size: float) -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight = size * torch.randn(16, 32, generator=draw), torch.randn(16, 32, generator=draw)
    assert off_by(float8_linear(x, weight), functional.linear(x, weight)) < 0.05


def test_a_matrix_of_zeros_has_a_product_and_what_is_not_finite_stays_so() -> None:
    weight = torch.randn(16, 32)
    assert torch.equal(float8_linear(torch.zeros(16, 32), weight).float(), torch.zeros(16, 16))
    for bad in (float("nan"), float("inf")):
        x = torch.randn(16, 32)
        x[3, 4] = bad
        assert not torch.isfinite(float8_linear(x, weight)).all()


def test_only_the_named_weights_are_multiplied_in_float8() -> None:
    torch.manual_seed(0)
    first, second, odd = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 20)
    x = torch.randn(16, 32)
    assert not fits_float8(odd.weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain = [layer(x) for layer in (first, second, odd)]
        with Float8Products([first.weight, odd.weight]):
            inside = [layer(x) for layer in (first, second, odd)]
            few_rows = first(x[:5])
        again = first(x)
    assert not torch.equal(inside[0], plain[0])
    assert off_by(inside[0], plain[0]) < 0.06
    assert torch.equal(inside[1], plain[1])
    assert torch.equal(inside[2], plain[2])
    assert off_by(few_rows, plain[0][:5]) < 1e-2
    assert torch.equal(again, plain[0])


@pytest.mark.extended
def test_a_gpt_learns_in_float8_and_its_weights_stay_fp32() -> None:
    torch.manual_seed(0)
    section = Gpt(kind="gpt", layers=2, heads=2, width=32, context=16)
    model = build_network(section, TokenShape(20))
    names = list(model.state_dict())
    tokens = torch.randint(0, 20, (8, 17))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)

    def losses(precision: object) -> list[float]:
        found = []
        for _ in range(30):
            optimizer.zero_grad()
            with precision.forward():
                logits = model(tokens[:, :-1])
                loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    precision = build_precision("fp8", model, CPU)
    assert isinstance(precision, Float8)
    found = losses(precision)
    assert found[-1] < 0.3 * found[0]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert list(model.state_dict()) == names
