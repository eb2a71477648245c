"""Texts of several sources as rows: never two in one window, and each source in its share."""

from __future__ import annotations

from contextlib import closing
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixed_texts import CONTEXT, LETTERS, WINDOWS, Windows, inputs_of, source_of, table
from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.base.token_inputs import Sources, TokenInputs
from trainwright.data.sampling.build_sampler import mixture_sampler
from trainwright.data.text.eval_windows import cut_windows
from trainwright.data.text.packing import count_windows
from trainwright.data.text.prepare_text import RawTokens, prepare_tokens, read_tokens
from trainwright.data.text.token_file import EncodedText
from trainwright.model.baselines.ngram_baseline import fit_frequencies

if TYPE_CHECKING:
    from trainwright.data.loading.dataset import TextDataset

ways = pytest.mark.parametrize("windows", WINDOWS)


def store_of(section: TokenData, folder: Path) -> tuple[RawTokens, TextDataset]:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.dataset import WindowDataset
    from trainwright.data.loading.document_dataset import PackedDataset, PaddedDataset
    from trainwright.data.text.padding import PaddedShapes

    raw = read_tokens(section, folder)
    inputs, device = inputs_of(prepare_tokens(raw, section).train), torch.device("cpu")
    match section.windows:
        case "across":
            return raw, WindowDataset(inputs, CONTEXT, device=device, seed=2)
        case "packed":
            return raw, PackedDataset(inputs, CONTEXT, "split", device)
        case "padded":
            return raw, PaddedDataset(inputs, "split", PaddedShapes(1, CONTEXT), device)


@ways
def test_no_row_shows_two_sources(windows: Windows, tmp_path: Path) -> None:
    raw, store = store_of(table(tmp_path, windows), tmp_path)
    rows = np.arange(store.rows)
    names = np.array(list(LETTERS))[store.sources]
    assert set(names.tolist()) == set(LETTERS)
    vocabulary = raw.text.vocabulary
    for epoch in (0, 1, 7):
        inputs, *_, target = store.take(epoch, rows)
        for row, name in enumerate(names):
            shown = target[row][target[row] >= 0].numpy().astype(np.uint16)
            count = len(shown)
            seen = vocabulary.decode(inputs[row].numpy().astype(np.uint16)[:count])
            assert source_of(seen + vocabulary.decode(shown)) == {name}
    tokens = tuple(raw.facts.documents.values())
    # All training tokens that have one before them in their source are there to be predicted.
    if windows != "across":
        assert int((target >= 0).sum()) == sum(sum(one) - len(one) for one in tokens)
    else:
        assert len(rows) == sum((sum(one) - 1) // CONTEXT - 1 for one in tokens)
    if windows == "packed":
        assert len(rows) == count_windows(tokens, CONTEXT, "split")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(43, 300), min_size=1, max_size=6),
    st.integers(1, 19),
    st.integers(0, 10**6),
)
def test_windows_of_any_sources_stay_in_them(lengths: list[int], context: int, epoch: int) -> None:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.dataset import WindowDataset

    ends = list(accumulate(lengths))
    sources = Sources(np.array([0, *ends[:-1]]), tuple(map(str, range(len(lengths)))))
    # The last tenth of each source is of other parts.
    stretches = [(end - n + 1, n - n // 10 - 1) for end, n in zip(ends, lengths, strict=True)]
    starts, sizes = np.array(stretches).T
    tokens = np.arange(ends[-1], dtype=np.uint16)
    store = WindowDataset(
        TokenInputs(tokens, starts, sizes, sources.starts, sources),
        context,
        device=torch.device("cpu"),
    )
    x, y = (one.numpy() for one in store.take(epoch, np.arange(store.rows)))
    assert (y == x + 1).all()
    begins, lasts = starts[store.sources], (starts + sizes)[store.sources]
    assert (x[:, 0] >= begins - 1).all()
    assert (y[:, -1] < lasts).all()
    assert len(np.unique(y)) == y.size
    for first, second in pairwise(range(len(lengths))):
        assert (store.sources == first).sum() == sizes[first] // context - 1
        assert (store.sources == second).any()


@ways
@pytest.mark.parametrize(
    "sampling",
    [
        Mixture(kind="mixture", weights={"books": 3, "code": 1, "web": 1}),
        Mixture(kind="mixture", temperature=5.0),
        Mixture(kind="mixture"),
    ],
)
def test_sources_have_their_shares_and_their_rows_take_turns(
    windows: Windows, sampling: Mixture, tmp_path: Path
) -> None:
    raw, store = store_of(table(tmp_path, windows, sampling), tmp_path)
    codes = store.sources
    draws = mixture_sampler(sampling, [one.name for one in raw.sources], codes, seed=4)
    sizes = np.bincount(codes)
    shares = np.array(list(sampling.weights.values()) or sizes ** (1 / sampling.temperature))
    epochs = 9
    drawn = np.zeros(len(codes), np.int64)
    for epoch in range(epochs):
        rows = draws.at(epoch, 0, draws.rows)
        drawn += np.bincount(rows, minlength=len(codes))
        mine = np.bincount(codes[rows])
        assert np.abs(mine - shares / shares.sum() * len(codes)).max() < 1
    for code in range(len(LETTERS)):
        counts = drawn[codes == code]
        assert counts.max() - counts.min() <= 1
        assert counts.min() >= 1


@ways
def test_a_position_far_away_is_reached_at_once(windows: Windows, tmp_path: Path) -> None:
    from trainwright.data.loading.feed import Feed

    sampling = Mixture(kind="mixture", weights={"books": 5, "code": 1, "web": 1})
    raw, store = store_of(table(tmp_path, windows, sampling), tmp_path)
    draws = mixture_sampler(
        sampling,
        [one.name for one in raw.sources],
        store.sources,
        seed=4,
    )
    feed = Feed(store, 4, draws=draws)
    feed.seek(10**9)
    step = feed.next_step()
    epoch, first = divmod(10**9, draws.rows)
    expected = store.take(epoch, draws.at(epoch, first, first + step.rows))
    for got, want in zip(step.micro_batches[0], expected, strict=True):
        assert got.equal(want)


@pytest.mark.torch
@ways
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_make_the_same_batches(windows: Windows, workers: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.feed import Feed
    from trainwright.data.loading.worker_pool import Workers

    sampling = Mixture(kind="mixture", temperature=3.0)
    raw, store = store_of(table(tmp_path, windows, sampling), tmp_path)
    names = [one.name for one in raw.sources]
    codes = store.sources
    here, there = (
        Feed(loader, 8, draws=mixture_sampler(sampling, names, codes, seed=1))
        for loader in (store, Workers(store, workers))
    )
    with closing(there):
        for _ in range(2 * here.steps_per_epoch):
            ours, theirs = here.next_step(), there.next_step()
            for a, b in zip(ours.micro_batches, theirs.micro_batches, strict=True):
                assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@ways
@pytest.mark.parametrize("context", [5, 40, 4000])
def test_what_is_judged_is_all_of_each_source_and_sees_no_other(
    windows: Windows, context: int, tmp_path: Path
) -> None:
    section = table(tmp_path, windows)
    raw = read_tokens(section, tmp_path)
    part = prepare_tokens(raw, section).test
    places, judged = inputs_of(part).sources, 0
    for cut in cut_windows(inputs_of(part), context):
        first, last = places.of(cut.starts), places.of(cut.starts + cut.length)
        assert (first == last).all()
        told = part.frame["source"].to_numpy()[cut.segments]
        assert (np.array(places.names)[first] == told).all()
        judged += len(cut.starts) * cut.predicted
    assert judged == part.target.sum()


@pytest.mark.parametrize("windows", ["across", "packed"])
def test_baselines_see_the_training_parts_alone(windows: Windows, tmp_path: Path) -> None:
    section = table(tmp_path, windows).model_copy(update={"vocabulary": "bytes"})
    raw = read_tokens(section, tmp_path)
    poisoned = np.full_like(raw.text.tokens, 7)
    for source in raw.sources:
        start, end = source.bounds("train")
        poisoned[start:end] = raw.text.tokens[start:end]
    changed = RawTokens(
        EncodedText(poisoned, raw.text.vocabulary, raw.text.documents), raw.sources, raw.facts
    )
    for pairs in (False, True):
        one, other = (
            fit_frequencies(inputs_of(prepare_tokens(each, section).train), 256, pairs=pairs)
            for each in (raw, changed)
        )
        assert (one.surprise == other.surprise).all()
        # Two letters that stand together in no source have only their own shares.
        if pairs:
            assert one.surprise[ord("a"), ord("x")] > 3
