import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.contract.training import AdamW  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.optim.build import build_optimizer  # noqa: E402
from trainwright.optim.groups import parameter_groups  # noqa: E402
from trainwright.optim.knob import LearningRate  # noqa: E402


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Embedding(4, 3)  # a name that says nothing of its type
        self.bias_like = nn.Linear(3, 3)
        self.norm = nn.LayerNorm(3)
        self.batch = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 4, bias=False)
        self.again = self.bias_like
        self.frozen = nn.Linear(2, 2).requires_grad_(False)


def test_decay_is_decided_by_the_type_of_the_module() -> None:
    model = Tied()
    decayed, plain = parameter_groups(model, 0.1)
    assert {id(p) for p in decayed["params"]} == {
        id(model.bias_like.weight),
        id(model.head.weight),
    }
    assert decayed["weight_decay"] == 0.1
    assert plain["weight_decay"] == 0.0
    everything = [id(p) for p in (*decayed["params"], *plain["params"])]
    assert sorted(everything) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_the_learning_rate_follows_the_applied_steps() -> None:
    optimizer = build_optimizer(AdamW(learning_rate=0.5), Tied())
    knob = LearningRate(optimizer, lambda step: 1 / (1 + step))
    knob(Progress(step=3, attempted=9))
    assert {group["lr"] for group in optimizer.param_groups} == {0.125}
    knob(Progress(step=0))
    assert {group["lr"] for group in optimizer.param_groups} == {0.5}
