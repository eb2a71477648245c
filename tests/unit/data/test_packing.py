"""Documents in windows: every token once, none seen from outside, and nothing lost in silence."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.text.eval_windows import cut_windows
from trainwright.data.text.packing import count_windows, pack_sources
from trainwright.data.text.prepare_text import document_part, prepare_tokens, read_tokens, text_part
from trainwright.data.text.token_file import EncodedText, read_token_file, write_token_file

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=60)
BYTES = TextVocabulary("bytes")


@given(LENGTHS, st.integers(1, 16))
def test_every_token_but_the_first_of_each_document_is_predicted_once(
    lengths: list[int], context: int
) -> None:
    packing = pack_sources([lengths], context, "split")
    seen = [
        (document, offset + place)
        for document, offset, size in zip(
            packing.documents.tolist(),
            packing.offsets.tolist(),
            packing.lengths.tolist(),
            strict=True,
        )
        for place in range(size)
    ]
    assert sorted(seen) == [(d, at) for d, n in enumerate(lengths) for at in range(n - 1)]
    assert (packing.lost, packing.cut) == (0, 0)
    assert len(packing.ends) == count_windows((tuple(lengths),), context, "split")
    held = np.add.reduceat(packing.lengths, np.append(0, packing.ends[:-1])) if seen else []
    assert all(0 < size <= context for size in held)
    # Best fit: no two windows would go into one.
    if len(held) > 1:
        assert sum(sorted(held)[:2]) > context


@given(LENGTHS, st.integers(1, 16))
def test_what_is_cut_is_told(lengths: list[int], context: int) -> None:
    packing = pack_sources([lengths], context, "cut")
    assert packing.lost == sum(max(0, n - 1 - context) for n in lengths)
    assert packing.cut == sum(n - 1 > context for n in lengths)
    assert packing.offsets.sum() == 0
    total = sum(n - 1 for n in lengths)
    assert packing.lengths.sum() + packing.lost == total


def words(folder: Path, documents: int = 400, separator: str = "\n\n") -> str:
    draw = np.random.default_rng(5)
    known = np.array(["anna", "bob", "carla"])
    lines = [" ".join(known[draw.integers(0, 3, draw.integers(1, 14))]) for _ in range(documents)]
    text = separator.join(lines) + separator
    (folder / "t.txt").write_text(text)
    return text


@pytest.mark.parametrize("vocabulary", ["characters", "bytes"])
def test_no_document_lies_in_two_parts_and_none_is_seen_from_another(
    tmp_path: Path, vocabulary: str
) -> None:
    text = words(tmp_path)
    section = TokenData(
        kind="tokens", path="t.txt", separator="\n\n", windows="packed", vocabulary=vocabulary
    )
    raw = read_tokens(section, tmp_path)
    prepared = prepare_tokens(raw, section)
    encoded = raw.text
    assert encoded.vocabulary.decode(encoded.tokens) == text
    (source,) = raw.sources
    assert set(list(source.ends.values())[:2]) <= set(encoded.documents.tolist())
    assert sum(raw.facts.documents[""]) == source.ends["train"]
    predicted = 0
    for part in (prepared.train, prepared.validation, prepared.test):
        inputs = part.inputs
        assert isinstance(inputs, TokenInputs)
        predicted += int(inputs.lengths.sum())
        begins = np.searchsorted(encoded.documents, part.rows, side="right")
        assert (np.diff(begins) == np.diff(part.units)).all()
        for windows in cut_windows(inputs, 9):
            document = np.searchsorted(encoded.documents, windows.starts, side="right")
            last = windows.starts + windows.length  # the last token that is predicted
            assert (np.searchsorted(encoded.documents, last, side="right") == document).all()
    assert predicted == len(encoded.tokens) - len(encoded.documents)


def test_windows_across_documents_are_those_of_one_text(tmp_path: Path) -> None:
    words(tmp_path)
    plain = TokenData(kind="tokens", path="t.txt")
    divided = TokenData(kind="tokens", path="t.txt", separator="\n\n")
    one, other = (prepare_tokens(read_tokens(s, tmp_path), s) for s in (plain, divided))
    assert isinstance(one.train.inputs, TokenInputs)
    assert isinstance(other.train.inputs, TokenInputs)
    assert (one.train.inputs.tokens == other.train.inputs.tokens).all()
    ends = [int(p.train.inputs.starts[-1] + p.train.inputs.lengths[-1]) for p in (one, other)]  # type: ignore[union-attr]
    assert 0 <= ends[0] - ends[1] < 80


def test_a_token_file_keeps_its_documents(tmp_path: Path) -> None:
    text = words(tmp_path)
    section = TokenData(kind="tokens", path="t.txt", separator="\n\n", vocabulary="bytes")
    encoded = read_tokens(section, tmp_path).text
    write_token_file(tmp_path / "t.tokens", encoded)
    again = read_token_file(tmp_path / "t.tokens")
    assert isinstance(again.tokens, np.memmap)
    assert (again.documents == encoded.documents).all()
    assert again.vocabulary.decode(again.tokens) == text
    packed = TokenData(kind="tokens", path="t.tokens", windows="packed")
    from_text = packed.model_copy(update={"path": "t.txt", "separator": "\n\n"})
    from_text = from_text.model_copy(update={"vocabulary": "bytes"})
    one, other = (prepare_tokens(read_tokens(s, tmp_path), s) for s in (packed, from_text))
    assert (one.test.target == other.test.target).all()
    assert (one.test.units == other.test.units).all()
    broken = encoded.documents.copy()
    broken[3] = broken[2]
    write_token_file(tmp_path / "t.tokens", EncodedText(encoded.tokens, BYTES, broken))
    with pytest.raises(DataMistake, match="do not follow each other"):
        read_token_file(tmp_path / "t.tokens")


def test_packing_needs_documents_and_judging_knows_them(tmp_path: Path) -> None:
    text = words(tmp_path)
    section = TokenData(kind="tokens", path="t.txt", windows="packed")
    with pytest.raises(DataMistake, match="no documents to pack"):
        read_tokens(section, tmp_path)
    section = section.model_copy(update={"separator": "\n\n"})
    part = text_part(text, BYTES, section)
    assert len(set(part.units.tolist())) == 400
    assert part.target.sum() == len(text) - 400
    marked = text_part(
        text.replace("\n\n", "\x1e"),
        BYTES,
        section.model_copy(update={"separator": ""}),
    )
    assert len(set(marked.units.tolist())) == 400
    with pytest.raises(DataMistake, match="too short to evaluate"):
        text_part("", BYTES, section)


def test_a_store_gives_what_the_packing_says() -> None:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.batch import element_targets
    from trainwright.data.loading.document_dataset import NO_TARGET, PackedBatches, PackedDataset
    from trainwright.data.loading.feed import Feed

    draw = np.random.default_rng(1)
    lengths = draw.integers(1, 30, 50)
    total = int(lengths.sum())
    tokens = np.arange(total, dtype=np.uint16)
    documents = np.cumsum(lengths) - lengths
    text = EncodedText(tokens, BYTES, documents)
    part = document_part(text, "train", 0, total)
    assert isinstance(part.inputs, TokenInputs)
    store = PackedDataset(part.inputs, 12, "split", torch.device("cpu"))
    shown: list[int] = []
    order = np.random.default_rng(0).permutation(store.rows)
    forming = PackedBatches(store.packing)
    batch = forming.form(store.take(3, order), order)
    (x, positions, y), counted = batch, batch.mask.host
    assert x.shape == positions.shape == y.shape == (store.rows, 12)
    assert ((y != NO_TARGET) == counted).all()
    assert (y[counted] == x[counted] + 1).all()
    shown = y[counted].tolist()
    assert sorted(shown) == sorted(set(range(total)) - set(documents.tolist()))
    # A position that is not 0 follows the token before it, in the same document.
    follows = positions[:, 1:] > 0
    assert (x[:, 1:][follows] == x[:, :-1][follows] + 1).all()
    one = forming.form(store.take(0, order[5:6]), order[5:6])
    assert all(torch.equal(a[0], b[5]) for a, b in zip(one, batch, strict=True))
    assert torch.equal(one.mask.host[0], counted[5])
    feed = Feed(store, 4, 2, count_targets=element_targets, forming=forming)
    epoch = [feed.next_step() for _ in range(feed.steps_per_epoch)]
    assert sum(step.targets for step in epoch) == total - 50
    assert 0 <= store.packing.padding < 0.2


@pytest.mark.torch
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_make_the_same_windows_and_counts(workers: int) -> None:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.batch import element_targets
    from trainwright.data.loading.document_dataset import PackedBatches, PackedDataset
    from trainwright.data.loading.feed import Feed
    from trainwright.data.loading.worker_pool import Workers

    lengths = np.random.default_rng(2).integers(1, 40, 60)
    documents = np.cumsum(lengths) - lengths
    text = EncodedText(np.arange(int(lengths.sum()), dtype=np.uint16), BYTES, documents)
    part = document_part(text, "train", 0, len(text.tokens))
    assert isinstance(part.inputs, TokenInputs)
    store = PackedDataset(part.inputs, 16, "split", torch.device("cpu"))
    forming = PackedBatches(store.packing)
    here, there = (
        Feed(loader, 4, 2, seed=1, count_targets=element_targets, forming=forming)
        for loader in (store, Workers(store, workers))
    )
    with closing(there):
        for _ in range(2 * here.steps_per_epoch):
            ours, theirs = here.next_step(), there.next_step()
            assert (ours.targets, ours.places) == (theirs.targets, theirs.places)
            for a, b in zip(ours.micro_batches, theirs.micro_batches, strict=True):
                assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
                assert torch.equal(a.mask.tensor, b.mask.tensor)
                assert (a.names, a.rows.tolist()) == (b.names, b.rows.tolist())
