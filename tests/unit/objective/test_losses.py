from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from trainwright.contract.sections.training.objective import (  # noqa: E402
    CrossEntropy,
    Focal,
    Huber,
    Poisson,
    Quantile,
)
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.objective.build_objective import balanced_weights, build_loss  # noqa: E402
from trainwright.objective.classification_losses import (  # noqa: E402
    BinaryCrossEntropyLoss,
    CrossEntropyLoss,
    FocalLoss,
    OrdinalLoss,
    z_penalty,
)
from trainwright.objective.contrastive import (  # noqa: E402
    info_nce,
    nt_xent,
    symmetric_info_nce,
    triplet,
)
from trainwright.objective.gradient_penalty import GradientPenalty  # noqa: E402
from trainwright.objective.losses import (  # noqa: E402
    LossSum,
    Mixed,
    Padded,
    Supervised,
    TargetLoss,
)
from trainwright.objective.regression_losses import (  # noqa: E402
    AbsoluteErrorLoss,
    HuberLoss,
    PoissonLoss,
    QuantileLoss,
    QuantilesLoss,
    SquaredErrorLoss,
)

CLASSES = 5
EXACT = {"rtol": 0, "atol": 1e-12}


def logits(rows: int = 24, seed: int = 0) -> Tensor:
    return 3 * torch.randn(
        rows, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def labels(rows: int = 24) -> Tensor:
    return torch.arange(rows) * 7 % CLASSES


def by_hand(outputs: Tensor, target: Tensor, smoothing: float, z: float) -> Tensor:
    """Each row from the formulas of the docstring."""
    exp = outputs.exp()
    log_p = torch.log(exp / exp.sum(1, keepdim=True))
    wanted = torch.full_like(log_p, smoothing / CLASSES)
    wanted[torch.arange(len(target)), target] += 1 - smoothing
    return -(wanted * log_p).sum(1) + z * torch.log(exp.sum(1)) ** 2


LOSSES: list[TargetLoss] = [
    CrossEntropyLoss(),
    CrossEntropyLoss(label_smoothing=0.2, z_loss=1e-2),
    CrossEntropyLoss(class_weights=torch.linspace(0.5, 2, CLASSES, dtype=torch.float64)),
    CrossEntropyLoss(label_smoothing=0.1, ignore_index=2, z_loss=1e-2),
    FocalLoss(2.0),
    OrdinalLoss(),
]
NUMBERS: list[TargetLoss] = [
    SquaredErrorLoss(),
    AbsoluteErrorLoss(),
    HuberLoss(0.7),
    PoissonLoss(),
    QuantileLoss(0.9),
    BinaryCrossEntropyLoss(3.0),
]


@pytest.mark.parametrize(("smoothing", "z"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.1), (0.2, 0.1)])
def test_cross_entropy_is_its_formula(smoothing: float, z: float) -> None:
    loss = CrossEntropyLoss(label_smoothing=smoothing, z_loss=z)
    expected = by_hand(logits(), labels(), smoothing, z)
    torch.testing.assert_close(loss.rows(logits(), labels()), expected, **EXACT)
    total = loss.total(logits(), labels())
    torch.testing.assert_close(total.sum, expected.sum(), **EXACT)
    assert total.targets == 24


def test_class_weights_weigh_the_sum_and_a_row_stays_one_target() -> None:
    weights = torch.tensor([0.5, 1, 2, 4, 8], dtype=torch.float64)
    total = CrossEntropyLoss(class_weights=weights).total(logits(), labels())
    expected = functional.cross_entropy(logits(), labels(), weight=weights, reduction="sum")
    torch.testing.assert_close(total.sum, expected, **EXACT)
    assert total.targets == 24


def test_balanced_weights_have_mean_one_over_the_rows() -> None:
    rows = torch.tensor([5, 20, 75]).numpy()
    weights = balanced_weights(rows)
    assert float((weights * torch.from_numpy(rows)).sum()) == pytest.approx(100)
    assert (weights * torch.from_numpy(rows)).tolist() == pytest.approx([100 / 3] * 3)


@pytest.mark.parametrize("loss", LOSSES)
def test_how_a_batch_is_cut_changes_nothing(loss: TargetLoss) -> None:
    whole = loss.total(logits(), labels())
    parts = [loss.total(x, y) for x, y in zip(logits().split(7), labels().split(7), strict=True)]
    torch.testing.assert_close(whole.sum, sum(p.sum for p in parts), **EXACT)
    torch.testing.assert_close(whole.sum, loss.rows(logits(), labels()).sum(), **EXACT)
    assert whole.targets == sum(p.targets for p in parts)


@pytest.mark.parametrize("loss", NUMBERS)
def test_numbers_too_and_outputs_may_have_a_column(loss: TargetLoss) -> None:
    outputs, target = logits()[:, 0], (logits(seed=1)[:, 0] > 0).double()
    whole = loss.total(outputs[:, None], target)
    parts = [loss.total(x, y) for x, y in zip(outputs.split(5), target.split(5), strict=True)]
    torch.testing.assert_close(whole.sum, sum(p.sum for p in parts), **EXACT)
    assert whole.targets == 24


def test_numbers_are_those_of_torch_and_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    values, target = logits()[:, 0], logits(seed=1)[:, 0]
    huber = functional.huber_loss(values, target, reduction="sum", delta=0.7)
    torch.testing.assert_close(HuberLoss(0.7).total(values, target).sum, huber, **EXACT)
    pinball = 24 * sklearn.mean_pinball_loss(target, values, alpha=0.9)
    assert float(QuantileLoss(0.9).total(values, target).sum) == pytest.approx(pinball, abs=1e-12)
    squared = functional.mse_loss(values, target, reduction="sum")
    torch.testing.assert_close(SquaredErrorLoss().total(values, target).sum, squared, **EXACT)
    absolute = functional.l1_loss(values, target, reduction="sum")
    torch.testing.assert_close(AbsoluteErrorLoss().total(values, target).sum, absolute, **EXACT)


def test_ordinal_is_the_sum_over_boundaries_and_orders_mistakes_by_distance() -> None:
    chances = torch.softmax(logits(), dim=1)
    above = 1 - chances.cumsum(dim=1)[:, :-1]
    is_above = (labels()[:, None] > torch.arange(CLASSES - 1)).double()
    expected = functional.binary_cross_entropy(above, is_above, reduction="none").sum(dim=1)
    torch.testing.assert_close(OrdinalLoss().rows(logits(), labels()), expected)
    sure = 8 * torch.eye(CLASSES)
    away = [float(OrdinalLoss().rows(sure[k : k + 1], torch.tensor([0]))) for k in range(CLASSES)]
    assert away == sorted(away)
    assert away[-1] > 3 * away[1]
    two = logits()[:, :2]
    torch.testing.assert_close(
        OrdinalLoss().rows(two, labels() % 2),
        functional.cross_entropy(two, labels() % 2, reduction="none"),
    )


def test_several_quantiles_have_the_mean_of_their_losses() -> None:
    levels = (0.1, 0.5, 0.9)
    outputs, target = logits()[:, :3], logits(seed=1)[:, 0]
    each = [QuantileLoss(q).rows(outputs[:, k], target) for k, q in enumerate(levels)]
    loss = QuantilesLoss(levels)
    torch.testing.assert_close(loss.rows(outputs, target), sum(each) / 3, **EXACT)
    total = loss.total(outputs, target)
    assert total.targets == 24
    torch.testing.assert_close(total.sum, loss.rows(outputs, target).sum(), **EXACT)
    short = loss.total(outputs.bfloat16(), target.float())
    assert short.sum.dtype == torch.float32
    none = torch.zeros(0, dtype=torch.int64).numpy()
    section = Quantile(name="quantile")
    assert isinstance(build_loss(section, none, torch.device("cpu"), levels), QuantilesLoss)


def test_poisson_is_that_of_torch_and_goes_on_as_a_straight_line() -> None:
    outputs = torch.linspace(-8, 19, 50, requires_grad=True)
    target = torch.arange(50.0) / 10
    rows = PoissonLoss().rows(outputs[:, None], target)
    theirs = functional.poisson_nll_loss(outputs, target, log_input=True, reduction="none")
    torch.testing.assert_close(rows, theirs)
    far = torch.tensor([25.0, 1e6], requires_grad=True)
    loss = PoissonLoss().total(far, torch.ones(2)).sum
    loss.backward()
    assert bool(torch.isfinite(loss))
    torch.testing.assert_close(far.grad, torch.full((2,), math.exp(20.0) - 1))


def test_ignored_targets_have_no_loss_and_do_not_count() -> None:
    loss = CrossEntropyLoss(ignore_index=-1, label_smoothing=0.1, z_loss=0.5)
    target = labels()
    target[::3] = -1
    kept = target != -1
    total = loss.total(logits(), target)
    assert total.targets == int(kept.sum()) == loss.count(target)
    expected = by_hand(logits()[kept], target[kept], 0.1, 0.5).sum()
    torch.testing.assert_close(total.sum, expected, **EXACT)
    assert not loss.rows(logits(), target)[~kept].any()


def test_a_batch_of_ignored_targets_alone_has_a_gradient_of_zero() -> None:
    x = logits().requires_grad_()
    total = CrossEntropyLoss(ignore_index=-1, z_loss=0.5).total(x, torch.full((24,), -1))
    assert total.targets == 0
    assert total.sum.item() == 0
    total.sum.backward()
    assert x.grad is not None
    assert not x.grad.any()


def test_tokens_count_one_by_one() -> None:
    outputs, target = logits().view(4, 6, CLASSES), labels().view(4, 6)
    total = CrossEntropyLoss().total(outputs, target)
    assert total.targets == 24
    assert CrossEntropyLoss().rows(outputs, target).shape == (4, 6)


def test_focal_is_its_formula_and_cross_entropy_at_gamma_0() -> None:
    p = torch.softmax(logits(), 1)[torch.arange(24), labels()]
    expected = -((1 - p) ** 2) * p.log()
    torch.testing.assert_close(FocalLoss(2.0).rows(logits(), labels()), expected, **EXACT)
    plain = CrossEntropyLoss().rows(logits(), labels())
    torch.testing.assert_close(FocalLoss(0.0).rows(logits(), labels()), plain, **EXACT)


def test_focal_has_a_finite_gradient_where_a_row_is_certain() -> None:
    x = torch.tensor([[200.0, 0.0]], requires_grad=True)
    FocalLoss(0.5).total(x, torch.tensor([0])).sum.backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_binary_cross_entropy_is_that_of_torch() -> None:
    values, target = logits(), (logits(seed=1) > 0).double()
    weight = torch.tensor(3.0, dtype=torch.float64)
    expected = functional.binary_cross_entropy_with_logits(
        values, target, pos_weight=weight, reduction="sum"
    )
    total = BinaryCrossEntropyLoss(3.0).total(values, target)
    torch.testing.assert_close(total.sum, expected, **EXACT)
    assert total.targets == 24 * CLASSES


def test_z_penalty_keeps_half_precision_from_overflowing() -> None:
    assert z_penalty(torch.full((1, 3), 3e4, dtype=torch.float16)).isfinite().all()


def test_blended_rows_have_the_loss_of_their_soft_target() -> None:
    share = torch.linspace(0, 1, 24, dtype=torch.float64)
    first, second = labels(), labels().roll(1)
    soft = torch.zeros(24, CLASSES, dtype=torch.float64)
    soft[torch.arange(24), first] += share
    soft[torch.arange(24), second] += 1 - share
    expected = functional.cross_entropy(logits(), soft, reduction="sum")
    mixed = Mixed(CrossEntropyLoss())(nn.Identity(), (logits(), first, second, share))
    torch.testing.assert_close(mixed.sum, expected, **EXACT)
    assert mixed.targets == 24


def test_info_nce_is_the_cross_entropy_of_the_cosines() -> None:
    a, b = logits(6), logits(6, seed=1)
    cosines = functional.cosine_similarity(a[:, None], b[None], dim=2) / 0.2
    expected = -torch.log_softmax(cosines, 1).diagonal().sum()
    found = info_nce(a, b, 0.2)
    torch.testing.assert_close(found.sum, expected, **EXACT)
    assert found.targets == 6
    both = symmetric_info_nce(a, b, 0.2)
    torch.testing.assert_close(both.sum, (expected + info_nce(b, a, 0.2).sum) / 2, **EXACT)


def test_nt_xent_is_equation_1_of_simclr() -> None:
    a, b = logits(4), logits(4, seed=1)
    views = torch.cat([a, b])
    expected = torch.zeros((), dtype=torch.float64)
    for i in range(8):
        j = (i + 4) % 8
        s = functional.cosine_similarity(views[i][None], views, dim=1) / 0.5
        others = torch.tensor([k for k in range(8) if k != i])
        expected = expected - (s[j] - torch.logsumexp(s[others], 0))
    found = nt_xent(a, b, 0.5)
    torch.testing.assert_close(found.sum, expected, **EXACT)
    assert found.targets == 8


def test_triplet_counts_those_that_are_far_enough() -> None:
    a, p, n = logits(6), logits(6, seed=1), logits(6, seed=2)
    expected = ((a - p).norm(dim=1) - (a - n).norm(dim=1) + 1).clamp_min(0).sum()
    found = triplet(a, p, n)
    torch.testing.assert_close(found.sum, expected, **EXACT)
    assert found.targets == 6


def test_a_gradient_penalty_adds_the_square_of_the_inputs_gradient() -> None:
    model = nn.Linear(CLASSES, 1, bias=False).double()
    x, y = logits(), logits(seed=1)[:, 0]
    plain = Supervised(SquaredErrorLoss())
    found = GradientPenalty(plain, 0.1)(model, (x, y))
    slope = 2 * (model(x)[:, 0] - y)[:, None] * model.weight
    expected = plain(model, (x, y)).sum + 0.1 * slope.square().sum()
    torch.testing.assert_close(found.sum, expected, **EXACT)
    found.sum.backward()
    assert model.weight.grad is not None
    with torch.no_grad():
        assert GradientPenalty(plain, 0.1)(model, (x, y)).sum == plain(model, (x, y)).sum


def test_a_contract_builds_its_loss() -> None:
    none = torch.zeros(0, dtype=torch.int64).numpy()
    cpu = torch.device("cpu")
    assert isinstance(build_loss(Focal(name="focal"), none, cpu), FocalLoss)
    assert isinstance(build_loss(Huber(name="huber"), none, cpu), HuberLoss)
    assert isinstance(build_loss(Quantile(name="quantile"), none, cpu), QuantileLoss)
    assert isinstance(build_loss(Poisson(name="poisson"), none, cpu), PoissonLoss)
    section = CrossEntropy(name="cross_entropy", class_weights="balanced")
    counted = torch.tensor([10, 30]).numpy()
    total: LossSum = build_loss(section, counted, cpu).total(torch.zeros(1, 2), torch.tensor([0]))
    assert float(total.sum) == pytest.approx(2 * 0.6931472, abs=1e-6)


SHORT = [
    *(loss for loss in LOSSES if loss is not LOSSES[2]),
    CrossEntropyLoss(class_weights=torch.linspace(0.5, 2, CLASSES)),
    *NUMBERS,
]


@pytest.mark.parametrize("loss", SHORT, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loss_of_short_outputs_is_summed_in_fp32(loss: TargetLoss, dtype: torch.dtype) -> None:
    numbers = loss in NUMBERS
    outputs = (logits()[:, 0] if numbers else logits()).to(dtype).requires_grad_()
    target = torch.linspace(0, 1, 24).to(dtype) if numbers else labels()
    exact = loss.total(outputs.detach().float(), target.float() if numbers else target)
    found = loss.total(outputs, target)
    assert found.sum.dtype == torch.float32
    assert float(found.sum.detach()) == pytest.approx(float(exact.sum), rel=1e-6)
    assert loss.rows(outputs, target).dtype == torch.float32
    (found.sum / found.targets).backward()
    assert outputs.grad is not None


@pytest.mark.parametrize("loss", [info_nce, symmetric_info_nce, nt_xent])
def test_a_contrastive_loss_of_short_embeddings_is_summed_in_fp32(loss: Any) -> None:
    first, second = logits().bfloat16(), logits(seed=1).bfloat16()
    assert loss(first, second).sum.dtype == torch.float32
    assert triplet(first, second, first.roll(1, 0)).sum.dtype == torch.float32


class ModelOutput(OrderedDict[str, Tensor]):
    """As that of transformers: a mapping of the parts that are there, with attributes."""

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class WithPasts:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class Giving(nn.Module):
    """Gives its outputs in a wrapping."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.wrap = wrap

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Any:
        return self.wrap(x)


LABELS = labels(6).view(2, 3)
BATCHES = {
    Supervised: (logits(6).view(2, 3, 5), LABELS),
    Mixed: (logits(6), labels(6), labels(6).flip(0), torch.ones(6)),
    Padded: (logits(6).view(2, 3, 5), torch.tensor([3, 3]), LABELS),
}


@pytest.mark.parametrize("objective", BATCHES, ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: ModelOutput(loss=x.sum(), logits=x),
        lambda x: {"hidden": x + 1, "logits": x},
        lambda x: (x.sum(), x, x + 1),
        WithPasts,
    ],
    ids=["ModelOutput", "mapping", "tuple", "attribute"],
)
def test_the_logits_of_an_output_of_several_parts_are_taken(objective: Any, wrap: Any) -> None:
    loss, batch = objective(CrossEntropyLoss()), BATCHES[objective]
    assert loss(Giving(wrap), batch) == loss(Giving(lambda x: x), batch)


@pytest.mark.parametrize(
    ("wrap", "found"),
    [
        (lambda x: ModelOutput(last_hidden_state=x), "ModelOutput with last_hidden_state"),
        (lambda x: (None, x.sum()), "tuple"),
        (lambda x: {"logits": [x]}, "dict with logits"),
    ],
)
def test_an_output_without_logits_is_refused(wrap: Any, found: str) -> None:
    with pytest.raises(Mistake, match="no tensor for the loss") as refused:
        Supervised(CrossEntropyLoss())(Giving(wrap), BATCHES[Supervised])
    assert refused.value.problems[0].found == found


class OnADevice(torch.Tensor):
    """Gives its values to the host when it is asked, and takes part in nothing there."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.cpu:
            raise RuntimeError("Expected all tensors to be on the same device")
        with torch._C.DisableTorchFunctionSubclass():
            return func(args[0]).as_subclass(torch.Tensor)


def test_the_lengths_of_padded_rows_may_lie_on_a_device() -> None:
    tokens, lengths, target = logits(6).view(2, 3, 5), torch.tensor([3, 1]), LABELS
    loss = Padded(CrossEntropyLoss())
    expected = loss(Giving(lambda x: x), (tokens, lengths, target))
    assert expected.targets == 4
    found = loss(Giving(lambda x: x), (tokens, lengths.as_subclass(OnADevice), target))
    assert found == expected


def test_padded_rows_are_looked_at_for_shifted_labels_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Batch] = []
    monkeypatch.setattr("trainwright.objective.losses.check_shifted", looked.append)
    tensors = {"input_ids": logits(6).view(2, 3, 5), "labels": LABELS}
    batch = Batch(tensors, mask=torch.ones(2, 3, dtype=torch.bool))
    loss = Padded(CrossEntropyLoss())
    for _ in range(3):
        loss(Giving(lambda x: x), batch)
    assert looked == [batch]
