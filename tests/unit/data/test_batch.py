from __future__ import annotations

import copy
import pickle
from collections import namedtuple
from contextlib import closing

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import trainwright as tw  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.base.counter_rng import Positions  # noqa: E402
from trainwright.data.loading.batch import as_batch  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.loading.worker_pool import Workers  # noqa: E402
from trainwright.engine.update.oom_policy import SplitOnOutOfMemory  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402

pytestmark = pytest.mark.torch

ROWS, LENGTH = 40, 6
TOKENS = torch.arange(ROWS * LENGTH).view(ROWS, LENGTH)
MASK = TOKENS % 3 != 0


def masked() -> tw.Batch:
    return tw.Batch({"tokens": TOKENS, "target": TOKENS + 1}, mask=MASK)


def test_it_is_a_mapping_that_unpacks_as_its_tensors() -> None:
    x, y = torch.zeros(2), torch.ones(2)
    batch = tw.Batch({"a": x, "labels": y})
    first, second = batch
    assert (first, second) == (x, y) == (batch[0], batch["labels"])
    assert dict(batch) == {"a": x, "labels": y} == dict(batch.items())
    assert (batch.keys(), batch.values(), len(batch)) == (("a", "labels"), (x, y), 2)
    assert "labels" in batch
    assert "b" not in batch
    assert batch.target is y
    assert batch.inputs == (x,)
    assert batch.supervised() == (("a",), (x,), y, "all")
    assert (lambda **named: named)(**batch) == {"a": x, "labels": y}
    with pytest.raises(KeyError, match="the batch has a, labels"):
        batch["b"]


def test_it_is_frozen() -> None:
    batch = masked()
    with pytest.raises(TypeError):
        batch["tokens"] = TOKENS  # type: ignore[index]
    for name in ("target", "rows", "mask", "inputs", "other"):
        with pytest.raises(AttributeError):
            setattr(batch, name, TOKENS)


def test_the_target_need_not_be_last() -> None:
    labels, mask = torch.zeros(2), torch.ones(2)
    batch = tw.Batch({"labels": labels, "a": mask})
    assert (batch.target, batch.inputs) == (labels, (mask,))
    assert batch.supervised() == (("a",), (mask,), labels, "all")
    assert tw.Batch({"labels": labels, "a": mask}, target="a").target is mask


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ((1,), ("input",)),
        ([1, 2], ("input", "target")),
        ((1, 2, 3), ("input", "input_1", "target")),
        ({"x": 1, "y": 2}, ("x", "y")),
        (namedtuple("Pair", "x labels")(1, 2), ("x", "labels")),
    ],
)
def test_tensors_in_order_get_names(given: object, names: tuple[str, ...]) -> None:
    assert as_batch(given).names == names
    batch = as_batch(given)
    assert as_batch(batch) is batch


def test_the_tensors_of_a_named_tuple_are_attributes() -> None:
    x, y = torch.zeros(4, 2), torch.arange(4)
    feed = tw.LoaderFeed([namedtuple("Pair", "x rows labels")(x, x + 1, y)])
    batch = feed.next_step().micro_batches[0]
    assert (batch.x, batch.labels) == (x, y) == (batch["x"], batch.target)
    assert torch.equal(batch["rows"], x + 1)
    assert isinstance(batch.rows, np.ndarray), "row numbers go before a tensor of this name"
    with pytest.raises(AttributeError, match="no tensor 'label'"):
        _ = batch.label
    again = pickle.loads(pickle.dumps(batch))
    assert torch.equal(again.x, x)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: as_batch("text"), "names or in order"),
        (lambda: tw.Batch({"x": TOKENS}).target, "has no target"),
        (lambda: tw.Batch({"x": TOKENS}, target="y"), "no tensor 'y'"),
        (lambda: as_batch({"x": TOKENS}, mask="y"), "no tensor 'y'"),
        (lambda: tw.Batch({"x": TOKENS}, mask=MASK), "does not fit the target"),
        (lambda: tw.Batch({"x": TOKENS, "y": TOKENS}, mask=MASK[:, 0]), "does not fit"),
        (lambda: tw.Batch({"x": TOKENS, "y": TOKENS}, mask=TOKENS), "does not fit"),
    ],
)
def test_what_is_no_batch_is_refused(make: object, why: str) -> None:
    with pytest.raises(Mistake, match=why):
        make()  # type: ignore[operator]


def test_a_split_gives_views_with_their_rows_and_masks() -> None:
    whole = masked().with_rows(np.arange(100, 100 + ROWS))
    parts = whole.split([15, 5, 20])
    assert [len(part[0]) for part in parts] == [15, 5, 20]
    assert parts[1].rows.tolist() == list(range(115, 120))
    assert parts[1]["tokens"].data_ptr() == TOKENS[15].data_ptr()
    assert sum(part.mask.targets for part in parts) == int(MASK.sum())
    assert torch.equal(parts[2].mask.tensor, MASK[20:])
    narrower = parts[0].with_mask(torch.zeros(15, LENGTH, dtype=torch.bool))
    assert narrower.mask.targets == 0


def test_nothing_is_masked_without_a_mask() -> None:
    feed = Feed({"tokens": TOKENS, "target": TOKENS}, 4)
    (batch,) = feed.next_step().micro_batches
    assert batch.mask == "all"
    assert copy.copy(batch)["tokens"] is batch["tokens"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_feed_gives_names_row_numbers_and_masks(workers: int) -> None:
    rows = Workers(masked(), workers) if workers else masked()
    with closing(Feed(rows, 4, 2, seed=5)) as feed:
        for _ in range(2 * feed.steps_per_epoch):
            work = feed.next_step()
            for batch in work.micro_batches:
                assert batch.names == ("tokens", "target")
                assert torch.equal(batch["tokens"], TOKENS[torch.from_numpy(batch.rows)])
                assert torch.equal(batch.mask.tensor, MASK[torch.from_numpy(batch.rows)])
            assert work.targets == sum(int(b.mask.tensor.sum()) for b in work.micro_batches)
            assert work.rows == sum(len(b.rows) for b in work.micro_batches)
        assert feed.of_rows(np.array([3, 1])).rows.tolist() == [3, 1]


def test_a_store_of_ones_own_may_give_a_tuple() -> None:
    class Squares:
        rows, row_bytes = 12, 16

        def take(self, epoch: int, rows: Positions) -> tuple[torch.Tensor, ...]:
            return torch.from_numpy(rows), torch.from_numpy(rows**2)

    for store in (Squares(), Workers(Squares(), 1)):
        with closing(Feed(store, 3, seed=1)) as feed:
            (batch,) = feed.next_step().micro_batches
            assert batch.names == ("input", "target")
            assert batch["input"].tolist() == batch.rows.tolist()


def test_a_loader_feed_names_what_the_loader_gives() -> None:
    weights = MASK[:4].long()
    loader = [{"ids": TOKENS[:4], "next": TOKENS[:4], "weights": weights, "note": ["a"] * 4}]
    feed = tw.LoaderFeed(loader, target="next", mask="weights", device="cpu")
    work = feed.next_step()
    (batch,) = work.micro_batches
    assert batch.names == ("ids", "next", "note")
    assert torch.equal(batch.target, TOKENS[:4])
    assert work.targets == batch.mask.targets == int(weights.sum())
    assert tw.LoaderFeed([(TOKENS, TOKENS)]).next_step().micro_batches[0].names[0] == "input"
    assert tw.LoaderFeed([TOKENS]).next_step().micro_batches[0] is TOKENS


def test_masked_targets_have_no_loss_and_no_gradient() -> None:
    torch.manual_seed(0)
    model = torch.nn.Embedding(9, 9).double()
    tokens, target = TOKENS % 9, (TOKENS + 4) % 9
    loss = tw.Supervised(tw.CrossEntropyLoss())
    chosen = loss(model, (tokens[MASK], target[MASK]))
    (expected,) = torch.autograd.grad(chosen.sum, model.weight)
    # What stands in the place of a masked target does not matter.
    odd = torch.where(MASK, target, -7)
    found = loss(model, tw.Batch({"tokens": tokens, "target": odd}, mask=MASK))
    (gradient,) = torch.autograd.grad(found.sum, model.weight)
    assert found.targets == chosen.targets == int(MASK.sum())
    torch.testing.assert_close(found.sum, chosen.sum, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("batch", "accumulate"), [(20, 1), (5, 4), (1, 20)])
def test_accumulation_of_masked_batches_makes_the_same_update(batch: int, accumulate: int) -> None:
    weights = []
    for size, count in ((20, 1), (batch, accumulate)):
        torch.manual_seed(0)
        model = torch.nn.Embedding(9, 9).double()
        data = tw.Batch({"tokens": TOKENS % 9, "target": (TOKENS + 4) % 9}, mask=MASK)
        feed = tw.Feed(data, size, count, seed=2)
        objective = tw.Supervised(tw.CrossEntropyLoss())
        step = tw.OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), 0.5))
        for _ in range(4):
            step(feed.next_step())
        weights.append(model.weight.detach().clone())
    torch.testing.assert_close(*weights, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("source", ["masked tensors", "mappings of a loader"])
def test_a_step_that_is_split_when_memory_runs_out_is_the_same(source: str) -> None:
    tensors = {"tokens": TOKENS % 9, "target": (TOKENS + 4) % 9}

    def trained(rows_that_fit: int) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Embedding(9, 9).double()
        objective = tw.Supervised(tw.CrossEntropyLoss())

        def limited(model: torch.nn.Module, batch: tw.Batch) -> tw.LossSum:
            if len(batch[0]) > rows_that_fit:
                raise torch.OutOfMemoryError("out of memory")
            return objective(model, batch)

        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        step = OptimizerStep(model, limited, optimizer).handling_memory(SplitOnOutOfMemory())
        feed: Feed | tw.LoaderFeed = Feed(tw.Batch(tensors, mask=MASK), 10, seed=3)
        if source == "mappings of a loader":
            batches = [
                {**{k: v[i::4] for k, v in tensors.items()}, "m": MASK[i::4]} for i in range(4)
            ]
            feed = tw.LoaderFeed(batches, mask="m")
        for _ in range(4):
            assert step(feed.next_step()).found_nonfinite == 0
        return model.weight.detach().clone()

    torch.testing.assert_close(trained(10), trained(3), rtol=1e-12, atol=1e-14)


def test_labels_that_are_the_inputs_are_refused() -> None:
    model, loss = torch.nn.Embedding(300, 300), tw.CrossEntropyLoss(ignore_index=-100)
    ids = TOKENS[:, :-1]
    copied = torch.where(MASK[:, :-1], ids, -100)
    with pytest.raises(Mistake, match="not the tokens after them"):
        tw.Supervised(loss)(model, tw.Batch({"input_ids": ids, "labels": copied}))
    assert tw.Supervised(loss)(model, tw.Batch({"input_ids": ids, "labels": TOKENS[:, 1:]}))
