"""Padded documents: like lengths together, in an order that is arithmetic, and nothing lost."""

from __future__ import annotations

from contextlib import closing
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.data.base.counter_rng import Permutation
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.sampling.length_buckets import BucketSampler, cut_line
from trainwright.data.text.documents import LongDocuments, cut_documents
from trainwright.data.text.padding import PaddedShapes, Steps, choose_buckets, measure_padding
from trainwright.data.text.prepare_text import document_part
from trainwright.data.text.token_file import EncodedText

if TYPE_CHECKING:
    from trainwright.data.loading.feed import Feed, StepBatches

DRAW = np.random.default_rng(0)
LONG_TAIL = np.minimum(512, np.exp(DRAW.normal(3.5, 1.0, 6000)).astype(np.int64) + 1)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 300),
    buckets=st.integers(1, 40),
    group=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    epoch=st.integers(0, 10**6),
)
def test_every_row_comes_once_an_epoch(
    rows: int, buckets: int, group: int, seed: int, epoch: int
) -> None:
    lengths = np.random.default_rng(seed).integers(1, 50, rows)
    drawn = BucketSampler(lengths, buckets, group, seed).at(epoch, 0, rows)
    assert sorted(drawn.tolist()) == list(range(rows))


def test_a_group_has_rows_of_one_bucket_or_of_two_neighbours() -> None:
    group = 32
    draws = BucketSampler(LONG_TAIL, 10, group, seed=1)
    assert draws.buckets == 10
    rank = np.empty(len(LONG_TAIL), dtype=np.int64)
    rank[np.argsort(LONG_TAIL, kind="stable")] = np.arange(len(LONG_TAIL))
    bucket = np.searchsorted(draws.starts, rank, side="right")
    for epoch in range(3):
        drawn = draws.at(epoch, 0, draws.rows)
        for start in range(0, draws.rows, group):
            found = bucket[drawn[start : start + group]]
            assert found.max() - found.min() <= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=14), st.integers(1, 4), st.integers(1, 5))
def test_a_line_is_cut_where_the_least_is_padded(
    lengths: list[int], buckets: int, fewest: int
) -> None:
    line = np.sort(lengths)
    starts = cut_line(line, buckets, fewest)

    def places(cuts: tuple[int, ...]) -> int:
        return sum((b - a) * int(line[b - 1]) for a, b in pairwise((0, *cuts, len(line))))

    inner = [at for at in range(1, len(line)) if line[at] > line[at - 1]]
    allowed = [
        cuts
        for count in range(buckets)
        for cuts in combinations(inner, count)
        if not cuts or np.diff([0, *cuts, len(line)]).min() >= fewest
    ]
    assert starts[0] == 0
    assert starts[-1] == len(line)
    assert tuple(starts[1:-1].tolist()) in allowed
    assert places(tuple(starts[1:-1].tolist())) == min(map(places, allowed))


def test_many_lengths_are_cut_nearly_as_well() -> None:
    line = np.sort(np.random.default_rng(2).integers(1, 100_000, 5000))
    starts = cut_line(line, 8, 100)
    assert len(starts) == 9
    assert np.diff(starts).min() >= 100

    def places(cuts: np.ndarray) -> int:
        return int((np.diff(cuts) * line[cuts[1:] - 1]).sum())

    # Of lengths that are spread evenly the eighths are nearly the best.
    assert places(starts) < 1.002 * places(np.arange(9) * 625)


def test_groups_come_in_random_order_and_are_made_anew_in_each_epoch() -> None:
    group = 32
    draws = BucketSampler(LONG_TAIL, 10, group, seed=2)
    whole = len(LONG_TAIL) // group
    together: list[set[frozenset[int]]] = []
    for epoch in range(4):
        drawn = draws.at(epoch, 0, whole * group).reshape(whole, group)
        means = LONG_TAIL[drawn].mean(axis=1)
        # The rank correlation of 187 groups of a random order: its deviation is 1 / sqrt(186).
        ranks = np.argsort(np.argsort(means))
        assert abs(np.corrcoef(ranks, np.arange(whole))[0, 1]) < 4 / np.sqrt(whole - 1)
        together.append({frozenset(rows) for rows in drawn.tolist()})
    assert not any(one & other for one, other in pairwise(together))


def test_the_smaller_group_at_the_end_of_an_epoch_is_of_any_length() -> None:
    group = 64
    draws = BucketSampler(LONG_TAIL, 16, group, seed=3)
    rest = len(LONG_TAIL) % group
    assert rest
    means = [LONG_TAIL[draws.at(e, draws.rows - rest, draws.rows)].mean() for e in range(40)]
    assert min(means) < np.quantile(LONG_TAIL, 0.25)
    assert max(means) > np.quantile(LONG_TAIL, 0.9)
    assert len(set(means)) > 30


def test_any_position_is_as_far_away_as_the_first() -> None:
    draws = BucketSampler(LONG_TAIL, 10, 32, seed=4)
    epoch = 10**9
    whole = draws.at(epoch, 0, draws.rows)
    assert np.array_equal(draws.at(epoch, 3210, 3300), whole[3210:3300])


def test_buckets_save_padding_and_the_rest_of_it_is_measured() -> None:
    shapes, group = PaddedShapes(8, 512), 32
    whole = Steps(group, group)
    shares = [
        measure_padding(LONG_TAIL, BucketSampler(LONG_TAIL, count, group, 5), whole, shapes)
        for count in (1, 2, 4, 8, 16)
    ]
    assert all(one > other for one, other in pairwise(shares))
    assert shares[0] == pytest.approx(
        measure_padding(LONG_TAIL, Permutation(len(LONG_TAIL), 5), whole, shapes), abs=0.02
    )
    assert shares[0] > 0.6
    assert shares[-1] < 0.2


def test_a_choice_of_buckets_stops_where_it_gains_nothing() -> None:
    shapes = PaddedShapes(8, 512)
    chosen = choose_buckets(LONG_TAIL, 32, shapes, seed=0)
    assert chosen.buckets in (8, 16, 32)
    assert chosen.padding < 0.2 < 0.6 < chosen.without
    assert choose_buckets(np.full(6000, 40), 32, shapes, seed=0).buckets == 1
    # Fewer than four steps in each of two buckets.
    assert choose_buckets(LONG_TAIL[:250], 32, shapes, seed=0).buckets == 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 16))
def test_pieces_hold_every_token_or_say_what_is_lost(lengths: list[int], context: int) -> None:
    split = cut_documents(lengths, context, "split")
    total = sum(n - 1 for n in lengths)
    assert (int(split.lengths.sum()), split.cut, split.lost) == (total, 0, 0)
    cut = cut_documents(lengths, context, "cut")
    assert cut.documents.tolist() == [at for at, n in enumerate(lengths) if n > 1]
    assert cut.lengths.tolist() == [min(n - 1, context) for n in lengths if n > 1]
    assert cut.cut == sum(n - 1 > context for n in lengths)
    assert int(cut.lengths.sum()) + cut.lost == total


@given(st.integers(1, 9), st.integers(1, 40), st.lists(st.integers(1, 40), min_size=1))
def test_widths_are_rounded_up_and_never_wider_than_the_context(
    multiple: int, most: int, longest: list[int]
) -> None:
    for length in (min(one, most) for one in longest):
        width = int(PaddedShapes(multiple, most).widths(np.array(length)))
        assert length <= width <= most
        assert width - length < multiple
        assert width % multiple == 0 or width == most


@given(
    st.lists(st.integers(1, 24), min_size=1, max_size=60),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(24, 200),
)
def test_no_batch_has_more_places_than_the_limit_and_none_could_have_one_row_more(
    lengths: list[int], most: int, multiple: int, limit: int
) -> None:
    shapes = PaddedShapes(multiple, 24, limit)
    sizes = shapes.cut(np.array(lengths), most)
    assert sum(sizes) == len(lengths)

    def places(start: int, stop: int) -> int:
        return (stop - start) * int(shapes.widths(np.array(max(lengths[start:stop]))))

    ends = np.cumsum(sizes).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        assert 1 <= end - start <= most
        assert places(start, end) <= limit
        is_full = end - start == most or end == len(lengths)
        assert is_full or places(start, end + 1) > limit


def documents(count: int = 120) -> TokenInputs:
    draw = np.random.default_rng(1)
    lengths = draw.integers(1, 60, count)
    total = int(lengths.sum())
    text = EncodedText(
        np.arange(total, dtype=np.uint16), TextVocabulary("bytes"), np.cumsum(lengths) - lengths
    )
    inputs = document_part(text, "train", 0, total).inputs
    assert isinstance(inputs, TokenInputs)
    return inputs


def padded_feed(long: LongDocuments, most: float, workers: int = 0) -> Feed:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.document_dataset import PaddedDataset, Trimmed, padded_targets
    from trainwright.data.loading.feed import Feed
    from trainwright.data.loading.worker_pool import Workers

    shapes = PaddedShapes(4, 24, most)
    store = PaddedDataset(documents(), long, shapes, torch.device("cpu"))
    return Feed(
        Workers(store, workers) if workers else store,
        5,
        2,
        draws=BucketSampler(store.lengths, 4, 10, seed=7),
        forming=Trimmed(store.lengths, shapes),
        count_targets=padded_targets,
    )


def two_epochs(long: LongDocuments, workers: int, most: float) -> list[StepBatches]:
    with closing(padded_feed(long, most, workers)) as feed:
        return [feed.next_step() for _ in range(2 * feed.steps_per_epoch)]


ways = pytest.mark.parametrize(
    ("long", "workers", "most"),
    [("split", 0, np.inf), ("cut", 0, np.inf), ("split", 2, np.inf), ("split", 0, 60)],
)


@pytest.mark.torch
@ways
def test_a_feed_shows_each_document_once_an_epoch(
    long: LongDocuments, workers: int, most: float
) -> None:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.document_dataset import NO_TARGET

    steps = two_epochs(long, workers, most)
    shown: list[int] = []
    for step in steps[: len(steps) // 2]:
        assert step.targets == sum(batch.mask.targets for batch in step.micro_batches)
        assert step.places == sum(tokens.numel() for tokens, _ in step.micro_batches)
        for batch in step.micro_batches:
            tokens, target = batch
            lengths = batch.mask.host.sum(dim=1)
            longest = int(lengths.max())
            assert tokens.numel() <= most
            assert tokens.shape == target.shape == (len(lengths), min(24, -(-longest // 4) * 4))
            counted = torch.arange(tokens.shape[1]) < lengths[:, None]
            assert torch.equal(target != NO_TARGET, counted)
            assert (target[counted] == tokens[counted] + 1).all()
            shown += target[counted].tolist()
    inputs, kept = documents(), 24 if long == "cut" else 60
    ends = [*inputs.documents[1:].tolist(), len(inputs.tokens)]
    spans = zip(inputs.documents.tolist(), ends, strict=True)
    assert sorted(shown) == [
        at for start, end in spans for at in range(start + 1, min(end, start + 1 + kept))
    ]


@pytest.mark.torch
@ways
def test_the_padding_of_a_feed_is_the_one_that_is_measured(
    long: LongDocuments, workers: int, most: float
) -> None:
    feed, steps = padded_feed(long, most), two_epochs(long, workers, most)
    epoch = steps[: len(steps) // 2]
    places, targets = (sum(getattr(step, of) for step in epoch) for of in ("places", "targets"))
    lengths = cut_documents(documents().document_lengths(), 24, long).lengths
    measured = measure_padding(lengths, feed.order, Steps(10, 5), PaddedShapes(4, 24, most))
    assert 1 - targets / places == pytest.approx(measured, abs=1e-12)


@pytest.mark.torch
@ways
def test_a_feed_is_the_same_from_every_step_on(
    long: LongDocuments, workers: int, most: float
) -> None:
    def same(one: StepBatches, other: StepBatches) -> bool:
        pairs = zip(one.micro_batches, other.micro_batches, strict=True)
        tensors = (pair for a, b in pairs for pair in zip(a, b, strict=True))
        rest = [step._replace(micro_batches=[], wait_seconds=0.0) for step in (one, other)]
        return rest[0] == rest[1] and all(a.equal(b) for a, b in tensors)

    for before, after in pairwise(two_epochs(long, workers, most)):
        again = padded_feed(long, most)
        again.seek(before.samples)
        assert same(again.next_step(), after)
