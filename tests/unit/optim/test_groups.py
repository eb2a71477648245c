import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.contract.sections.training.optimizer import AdamW, Muon, Sgd  # noqa: E402
from trainwright.core.errors import ContractMistake, MissingExtra, Mistake  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.optim import dependencies  # noqa: E402
from trainwright.optim.build_optimizer import (  # noqa: E402
    MultiOptimizer,
    batch_scale,
    build_optimizer,
)
from trainwright.optim.freezing import Unfreezing, freeze  # noqa: E402
from trainwright.optim.layerwise_lr import block_depths, rate_factors  # noqa: E402
from trainwright.optim.muon import hidden_matrices  # noqa: E402
from trainwright.optim.optimizer_protocol import drops_on_device  # noqa: E402
from trainwright.optim.parameter_groups import group_parameters  # noqa: E402
from trainwright.optim.schedule import LearningRate  # noqa: E402


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


class Blocks(nn.Module):
    """Embedding and position, two blocks in a list, one more behind it, a norm, an output."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(2, 4))
        self.tables = nn.ModuleList([nn.Embedding(3, 4), nn.Embedding(5, 4)])
        self.body = nn.ModuleList([self.block(), self.block()])
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 3)

    @staticmethod
    def block() -> nn.Module:
        return nn.TransformerEncoderLayer(4, 1, 4)


def test_decay_is_decided_by_the_type_of_the_module() -> None:
    model = Tied()
    decayed, plain = group_parameters(model)
    assert {id(p) for p in decayed.parameters} == {
        id(model.bias_like.weight),
        id(model.head.weight),
    }
    assert decayed.options(0.1, 1.0)["weight_decay"] == 0.1
    assert plain.options(0.1, 1.0)["weight_decay"] == 0.0
    everything = [id(p) for p in (*decayed.parameters, *plain.parameters)]
    assert sorted(everything) == sorted(id(p) for p in model.parameters() if p.requires_grad)


class RootMeanSquareNorm(nn.Module):
    """A norm as models of the Llama family bring it along: torch knows nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RootMeanSquareNorm()
        self.attention = nn.MultiheadAttention(4, 1)  # its bias is called `in_proj_bias`
        self.temperature = nn.Parameter(torch.ones(()))


def test_parameters_of_fewer_than_two_dimensions_are_never_decayed() -> None:
    model = Llama()
    decayed, plain = group_parameters(model)
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {named[id(one)] for one in decayed.parameters} == {
        "attention.in_proj_weight",
        "attention.out_proj.weight",
    }
    assert {named[id(one)] for one in plain.parameters} == {
        "norm.weight",
        "attention.in_proj_bias",
        "attention.out_proj.bias",
        "temperature",
    }


def test_a_checkpoint_whose_norms_were_decayed_is_refused_by_name() -> None:
    model = Llama()
    by_type = {True: [], False: [model.attention.out_proj.bias]}
    for name, parameter in model.named_parameters():
        if name != "attention.out_proj.bias":
            by_type[True].append(parameter)
    before = torch.optim.AdamW(
        [{"params": by_type[True], "weight_decay": 0.01}, {"params": by_type[False]}]
    )
    snapshot = OptimizerState(before, model.named_parameters()).snapshot()
    now = build_optimizer(AdamW(learning_rate=0.1), model, rows_per_step=1)
    with pytest.raises(Mistake, match=r"has beside .*norm\.weight in group 0"):
        OptimizerState(now, model.named_parameters()).restore(snapshot)


def test_the_learning_rate_follows_the_applied_steps() -> None:
    optimizer = build_optimizer(AdamW(learning_rate=0.5), Tied(), rows_per_step=1)
    knob = LearningRate(optimizer, lambda step: 1 / (1 + step))
    knob(Progress(step=3, attempted=9))
    assert {group["lr"] for group in optimizer.param_groups} == {0.125}
    knob(Progress(step=0))
    assert {group["lr"] for group in optimizer.param_groups} == {0.5}


def test_depth_follows_the_order_of_the_blocks() -> None:
    model = Blocks()
    depths = block_depths(model)
    assert depths.keys() == set(model.parameters())
    assert depths[model.position] == 0
    assert {depths[p] for p in model.tables.parameters()} == {0}
    assert [{depths[p] for p in block.parameters()} for block in model.body] == [{1}, {2}]
    assert {depths[p] for p in (*model.norm.parameters(), *model.head.parameters())} == {3}


def test_the_last_of_a_sequence_is_its_output() -> None:
    model = nn.Sequential(
        nn.Linear(2, 2), nn.LayerNorm(2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    )
    depths = block_depths(model)
    assert [depths[p] for p in model.parameters()] == [1, 1, 1, 1, 2, 2, 3, 3]


def test_both_factors_reach_the_groups_and_the_knob() -> None:
    model = Blocks()
    section = Sgd(
        name="sgd",
        learning_rate=0.1,
        layer_decay=0.5,
        learning_rate_factors={"body": 3.0, "body.1.linear2": 4.0},
    )
    optimizer = build_optimizer(section, model, rows_per_step=1)
    LearningRate(optimizer, lambda _step: 0.5)(Progress())
    rates = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert rates.keys() == set(model.parameters())
    assert rates[model.head.bias] == pytest.approx(0.05)
    assert rates[model.position] == pytest.approx(0.05 / 8)
    assert rates[model.body[0].linear1.weight] == pytest.approx(0.05 / 4 * 3)
    assert rates[model.body[1].linear1.weight] == pytest.approx(0.05 / 2 * 3)
    assert rates[model.body[1].linear2.weight] == pytest.approx(0.05 / 2 * 4)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_a_layer_decay_without_blocks_is_refused() -> None:
    with pytest.raises(ContractMistake, match="no blocks"):
        rate_factors(nn.Linear(2, 2), 0.5, {})


def test_every_unknown_module_is_named() -> None:
    with pytest.raises(ContractMistake) as caught:
        rate_factors(Blocks(), 1.0, {"body": 2.0, "haed": 2.0, "": 2.0})
    assert [problem.path for problem in caught.value.problems] == [
        "training.optimizer.learning_rate_factors.haed",
        "training.optimizer.learning_rate_factors.",
    ]
    assert "head" in caught.value.problems[0].expected


def test_the_rate_changes_with_the_batch_by_rule() -> None:
    assert [batch_scale(rule, 4.0) for rule in ("none", "linear", "sqrt")] == [1.0, 4.0, 2.0]
    section = AdamW(learning_rate=0.1, batch_scaling="sqrt", base_batch_size=100)
    optimizer = build_optimizer(section, nn.Linear(2, 2), rows_per_step=50)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * math.sqrt(0.5))


def test_muon_has_the_hidden_matrices_and_adamw_the_rest() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(5, 4)
            self.shared = nn.Linear(4, 5, bias=False)
            self.shared.weight = self.words.weight
            self.conv = nn.Conv1d(1, 2, 3)
            self.hidden = nn.Linear(4, 4)
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.output = nn.Linear(4, 2)

    model = Model()
    assert hidden_matrices(model) == {model.hidden.weight}
    section = Muon(name="muon", learning_rate=0.02, adamw_learning_rate=0.001)
    optimizer = build_optimizer(section, model, rows_per_step=1)
    assert isinstance(optimizer, MultiOptimizer)
    assert [(len(g["params"]), g["lr"]) for g in optimizer.param_groups] == [
        (1, 0.02),
        (2, 0.001),
        (4, 0.001),
    ]
    assert not drops_on_device(optimizer)


def test_the_last_matrix_of_a_block_is_no_output() -> None:
    model = Blocks()
    without = Blocks()
    del without.head
    matrices = [p for p in model.body.parameters() if p.ndim == 2]
    linear = [p for p in matrices if p.shape != (12, 4)]  # attention's packed weight is no Linear
    assert hidden_matrices(model) == set(linear)
    assert len(hidden_matrices(without)) == len(linear)


def test_what_is_frozen_thaws_by_the_epoch_and_the_longest_path_counts() -> None:
    model = Blocks()
    modules = {"body": 2, "body.1": 1, "head": "always"}
    freeze(model, modules)
    assert not model.head.weight.requires_grad
    optimizer = build_optimizer(AdamW(learning_rate=0.1), model, rows_per_step=1)
    held = {p for group in optimizer.param_groups for p in group["params"]}
    assert held == set(model.parameters()) - set(model.head.parameters())
    knob = Unfreezing(model, modules, 10)

    def trained(epoch: int) -> list[bool]:
        knob(Progress(samples=10 * epoch, epoch=max(epoch - 1, 0)))  # the last step's epoch
        parts = (model.norm, model.body[0].linear1, model.body[1].linear1, model.head)
        return [part.weight.requires_grad for part in parts]

    assert trained(0) == [True, False, False, False]
    assert trained(1) == [True, False, True, False]
    assert trained(7) == [True, True, True, False]
    assert trained(0) == [True, False, False, False]


def test_a_missing_library_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "find_spec", lambda _module: None)
    from trainwright.contract.sections.training.optimizer import AdamW8bit, Lion

    dependencies.need_optimizer(AdamW())
    with pytest.raises(MissingExtra, match="bitsandbytes") as caught:
        dependencies.need_optimizer(AdamW8bit(name="adamw_8bit"))
    assert caught.value.problems[0].fix == "pip install 'trainwright[eightbit]'"
    with pytest.raises(MissingExtra, match="pytorch_optimizer"):
        dependencies.need_optimizer(Lion(name="lion"))
