from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.model.model_call import call_model  # noqa: E402

pytestmark = pytest.mark.torch

A, B, C = (torch.full((2,), float(value)) for value in (1, 10, 100))


class Named(nn.Module):
    def forward(self, b: Tensor, a: Tensor, scale: float = 1.0) -> Tensor:
        return (b - a) * scale


class KeywordOnly(nn.Module):
    def forward(self, *, a: Tensor, b: Tensor) -> Tensor:
        return b - a


class Cached(nn.Module):
    def forward(self, input_ids: Tensor, use_cache: bool = True) -> dict[str, Tensor]:
        return {"logits": input_ids * (0 if use_cache else 1)}


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class AnyKeywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, Tensor] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        self.given = kwargs
        return A


@pytest.mark.parametrize("wrap", [lambda x: x, Wrapper, lambda x: Wrapper(Wrapper(x))])
@pytest.mark.parametrize("model", [Named(), KeywordOnly()])
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("more", [{}, {"row": C}])
def test_arguments_are_found_by_name(wrap: Any, model: nn.Module, order: str, more: Any) -> None:
    tensors = {**{name: {"a": A, "b": B}[name] for name in order}, **more}
    found = call_model(wrap(model), tuple(tensors), tuple(tensors.values()))
    assert torch.equal(found, B - A)


def test_inputs_without_names_are_passed_in_order() -> None:
    assert torch.equal(call_model(Named(), ("input", "input_1"), (A, B)), A - B)
    assert torch.equal(call_model(nn.Flatten(0), ("pixels",), (A,)), A)


def test_a_module_that_takes_anything_gets_all_names() -> None:
    model = AnyKeywords()
    call_model(model, ("a", "b"), (A, B))
    assert model.given == {"a": A, "b": B}


def test_a_function_is_called_in_order() -> None:
    assert torch.equal(call_model(lambda a, b: a - b, ("input", "input_1"), (A, B)), A - B)


def test_the_cache_for_generation_is_switched_off() -> None:
    assert torch.equal(call_model(Cached(), ("input_ids",), (B,)), B)
    assert torch.equal(call_model(Wrapper(Cached()), ("input",), (B,)), B)


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(Mistake, match="needs an argument") as refused:
        call_model(Named(), ("a", "row"), (A, C))
    assert "Named.forward needs b" in str(refused.value)


def test_the_target_is_never_an_argument() -> None:
    class TakesLabels(nn.Module):
        def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
            assert labels is None
            return x

    loss = tw.Supervised(tw.HuberLoss())(TakesLabels(), tw.Batch({"labels": B, "x": A}))
    assert loss.targets == 2


@pytest.mark.parametrize("masked", [False, True])
def test_compiled_and_eager_losses_agree(masked: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5))
    target = torch.tensor([0, 4, 2, 1])
    mask = torch.tensor([True, False, True, True]) if masked else "all"
    batch = tw.Batch({"x": torch.randn(4, 3), "target": target}, mask=mask)  # type: ignore[arg-type]
    objective = tw.Supervised(tw.CrossEntropyLoss())
    compiled = torch.compile(lambda m, b: objective(m, b), backend="eager", fullgraph=True)
    torch._dynamo.utils.counters.clear()
    traced, eager = compiled(model, batch), objective(model, batch)
    assert traced.targets == eager.targets
    assert torch.equal(traced.sum, eager.sum)
    compiled(model, batch)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
