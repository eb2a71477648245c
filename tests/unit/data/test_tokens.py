from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pytest

from made_data import make_text
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Place
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.columns.class_target import NextToken
from trainwright.data.encoders.vocabulary import TextVocabulary, fit_characters
from trainwright.data.text.eval_windows import cut_windows
from trainwright.data.text.prepare_text import prepare_tokens, read_tokens
from trainwright.data.text.text_sources import part_ends
from trainwright.data.text.token_file import (
    EncodedText,
    read_head,
    read_token_file,
    write_token_file,
)

TEXT = "Größe, 東京 and 🎉"


def inputs_of(part: object) -> TokenInputs:
    inputs = part.inputs  # type: ignore[attr-defined]
    assert isinstance(inputs, TokenInputs)
    return inputs


@pytest.mark.parametrize("vocabulary", [fit_characters(TEXT), TextVocabulary("bytes")])
def test_a_text_comes_back(vocabulary: TextVocabulary) -> None:
    tokens = vocabulary.encode(TEXT)
    assert tokens.dtype == np.uint16
    assert vocabulary.decode(tokens) == TEXT
    assert tokens.max() < vocabulary.size
    assert TextVocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_what_training_did_not_hold_is_one_token() -> None:
    vocabulary = fit_characters("abc")
    assert vocabulary.encode("aXc~").tolist() == [1, 0, 3, 0]
    assert vocabulary.decode(vocabulary.encode("aX")) == "a�"


def test_a_vocabulary_from_a_file_is_checked() -> None:
    for symbols in ("ba", "aa", ""):
        with pytest.raises(ValueError, match="symbols"):
            TextVocabulary.from_json({"unit": "characters", "symbols": symbols})
    with pytest.raises(ValueError, match="characters or bytes"):
        TextVocabulary.from_json({"unit": "words", "symbols": "a"})


def test_parts_follow_each_other_and_the_vocabulary_is_that_of_the_first(tmp_path: Path) -> None:
    text = "ab" * 2000 + "c" * 400 + "d" * 400
    (tmp_path / "t.txt").write_text(text)
    section = TokenData(kind="tokens", path="t.txt", validation=1 / 12, test=1 / 12)
    prepared = prepare_tokens(read_tokens(section, tmp_path), section)
    assert prepared.features.to_json()["symbols"] == "ab"
    found = []
    for part in (prepared.train, prepared.validation, prepared.test):
        inputs = inputs_of(part)
        np.testing.assert_array_equal(inputs.starts[1:], (inputs.starts + inputs.lengths)[:-1])
        found.append((int(inputs.starts[0]), int(inputs.starts[-1] + inputs.lengths[-1])))
        assert part.target.sum() == inputs.lengths.sum()
    assert found == [(1, 4000), (4000, 4400), (4400, 4800)]


def test_a_token_file_is_mapped_and_checked(tmp_path: Path) -> None:
    vocabulary = fit_characters(TEXT)
    file = tmp_path / "t.tokens"
    write_token_file(file, EncodedText(vocabulary.encode(TEXT), vocabulary))
    read = read_token_file(file)
    assert isinstance(read.tokens, np.memmap)
    assert read.vocabulary.decode(read.tokens) == TEXT
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:11], whole[:-2] + b"\xff\xff", whole[:8] + b"\xff" * 9):
        file.write_bytes(damaged)
        with pytest.raises(DataMistake, match="not whole"):
            read_token_file(file)


@pytest.mark.parametrize("count", ["Infinity", "1e400", "NaN", "-Infinity", "-3", "1e30", "[]"])
def test_a_header_whose_count_of_documents_is_no_number(tmp_path: Path, count: str) -> None:
    file, vocabulary = tmp_path / "t.tokens", fit_characters("abc")
    about = json.dumps(vocabulary.to_json())
    header = f'{about[:-1]}, "documents": {count}}}'.encode()
    tokens = vocabulary.encode("abcabc").tobytes()
    file.write_bytes(b"TWTOKENS" + struct.pack("<I", len(header)) + header + tokens)
    with pytest.raises(DataMistake, match="not whole") as raised:
        read_token_file(file)
    (problem,) = raised.value.problems
    assert (problem.path, problem.place) == ("data.path", Place(str(file)))
    assert problem.fix == "write it again from its text"


def test_a_file_says_how_wide_its_tokens_are(tmp_path: Path) -> None:
    text = "".join(map(chr, range(0x10000, 0x10000 + 70_000))) + "abc"
    for vocabulary, dtype in ((fit_characters("abc"), "uint16"), (fit_characters(text), "uint32")):
        file = tmp_path / f"{dtype}.tokens"
        tokens = vocabulary.encode(text)
        write_token_file(file, EncodedText(tokens, vocabulary))
        assert tokens.dtype == dtype
        assert read_head(file, "").about["dtype"] == dtype
        read = read_token_file(file)
        assert read.tokens.dtype == dtype
        np.testing.assert_array_equal(read.tokens, tokens)
        file.write_bytes(file.read_bytes().replace(f'"{dtype}"'.encode(), b'"uint64"'))
        with pytest.raises(DataMistake, match="header cannot be read"):
            read_token_file(file)
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_a_file_written_before_widths_were_said_is_read(tmp_path: Path) -> None:
    file, vocabulary = tmp_path / "t.tokens", fit_characters("abc")
    header = json.dumps({**vocabulary.to_json(), "documents": 2}).encode()
    header += b" " * (-(12 + len(header)) % 8)
    starts = np.array([0, 3], "<i8").tobytes()
    tokens = np.array([1, 2, 3, 3, 2, 1, 0], "<u2")
    file.write_bytes(
        b"TWTOKENS" + struct.pack("<I", len(header)) + header + starts + tokens.tobytes()
    )
    read = read_token_file(file)
    np.testing.assert_array_equal(read.tokens, tokens)
    assert (read.documents.tolist(), read.mask) == ([0, 3], "all")


@pytest.mark.torch
@pytest.mark.parametrize("windows", ["across", "packed", "padded"])
def test_tokens_that_are_masked_count_in_no_loss_and_no_score(
    tmp_path: Path, windows: Literal["across", "packed", "padded"]
) -> None:
    torch = pytest.importorskip("torch")
    from trainwright.contract.sections.model.gpt import Gpt
    from trainwright.data.loading.batch import element_targets
    from trainwright.data.loading.dataset import RowDataset, WindowDataset
    from trainwright.data.loading.document_dataset import (
        PackedBatches,
        PackedDataset,
        PaddedDataset,
        Trimmed,
    )
    from trainwright.data.loading.feed import AsStored, Collate, Feed
    from trainwright.data.text.padding import PaddedShapes
    from trainwright.model.baselines.ngram_baseline import fit_frequencies
    from trainwright.model.gpt.gpt_network import GptNetwork
    from trainwright.model.input_shape import TokenShape
    from trainwright.predictor.network_scorer import NetworkScorer

    draw = np.random.default_rng(0)
    # A document begins every 25 tokens; even tokens do not count.
    encoded = draw.integers(0, 9, 3000).astype(np.uint16)
    vocabulary = fit_characters("abcdefgh")
    documents = np.arange(0, 3000, 25)
    mask = encoded % 2 == 1
    file = tmp_path / "t.tokens"
    write_token_file(file, EncodedText(encoded, vocabulary, documents, mask))
    section = TokenData(kind="tokens", path=file.name, windows=windows)
    found = prepare_tokens(read_tokens(section, tmp_path), section)
    inputs, device, context = inputs_of(found.train), torch.device("cpu"), 10
    store: RowDataset
    forming: Collate = AsStored()
    if windows == "across":
        store = WindowDataset(inputs, context, device=device)
    elif windows == "packed":
        store = PackedDataset(inputs, context, "split", device)
        forming = PackedBatches(store.packing)
    else:
        shapes = PaddedShapes(multiple=1, context=context)
        store = PaddedDataset(inputs, "split", shapes, device)
        forming = Trimmed(store.lengths, shapes)
    feed = Feed(store, 4, 2, count_targets=element_targets, forming=forming)
    for _ in range(feed.steps_per_epoch):
        work = feed.next_step()
        for batch in work.micro_batches:
            assert batch.mask != "all"
            target = batch.target
            assert torch.equal(batch.mask.tensor, (target % 2 == 1) & (target >= 0))
        assert work.targets == sum(int(b.mask.tensor.sum()) for b in work.micro_batches)
    # Held-out tokens: each that counts once, with the loss it has without a mask.
    validation = inputs_of(found.validation)
    places = np.concatenate(
        [np.arange(a, a + n) for a, n in zip(validation.starts, validation.lengths, strict=True)]
    )
    assert found.validation.target.sum() == mask[places].sum() < len(places)
    frequencies = fit_frequencies(inputs, 9, pairs=False)
    counted = encoded[places[mask[places]]]
    by_hand = frequencies.surprise[counted].sum()
    assert frequencies.score(validation).sum() == pytest.approx(by_hand, rel=1e-12)
    section_of_model = Gpt(kind="gpt", layers=1, heads=2, width=8, context=60)
    model = GptNetwork(section_of_model, TokenShape(9)).double().eval()
    network = NetworkScorer(section_of_model, TokenShape(9), NextToken(9), model)
    every, rest = replace(validation, mask="all"), replace(validation, mask=~mask)
    for scorer in (network, frequencies):
        both = scorer.score(validation) + scorer.score(rest)
        np.testing.assert_allclose(both, scorer.score(every), rtol=1e-9)
        assert (scorer.score(validation) > 0).any()


def test_a_token_file_and_its_text_are_prepared_alike(tmp_path: Path) -> None:
    text = make_text(tmp_path / "t.txt").read_text()
    vocabulary = fit_characters(text)
    write_token_file(tmp_path / "t.tokens", EncodedText(vocabulary.encode(text), vocabulary))
    parts = []
    for name in ("t.txt", "t.tokens"):
        section = TokenData(kind="tokens", path=name)
        parts.append(prepare_tokens(read_tokens(section, tmp_path), section))
    for a, b in zip(*((p.train, p.validation, p.test) for p in parts), strict=True):
        np.testing.assert_array_equal(inputs_of(a).tokens, inputs_of(b).tokens)
        np.testing.assert_array_equal(a.target, b.target)


def test_too_short_or_not_a_text_is_refused(tmp_path: Path) -> None:
    section = TokenData(kind="tokens", path="t.txt")
    (tmp_path / "t.txt").write_text("short")
    with pytest.raises(DataMistake, match="too little text") as caught:
        read_tokens(section, tmp_path)
    assert len(caught.value.problems) == 3
    (tmp_path / "t.txt").write_bytes(b"caf\xe9 " * 1000)
    with pytest.raises(DataMistake, match="UTF-8"):
        read_tokens(section, tmp_path)
    with pytest.raises(DataMistake, match="no such file"):
        read_tokens(TokenData(kind="tokens", path="none.txt"), tmp_path)


@pytest.mark.parametrize("context", [1, 2, 7, 10, 64])
def test_windows_predict_every_token_of_every_segment_once(context: int) -> None:
    tokens = np.arange(100, dtype=np.uint16)
    inputs = TokenInputs(tokens, np.array([1, 11, 60]), np.array([10, 10, 7]))
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for windows in cut_windows(inputs, context):
        assert windows.length <= context
        for row, segment in zip(windows.tokens(1), windows.segments, strict=True):
            seen[int(segment)] += row[-windows.predicted :].tolist()
        np.testing.assert_array_equal(windows.tokens(1), windows.tokens(0) + 1)
    expected = {0: range(1, 11), 1: range(11, 21), 2: range(60, 67)}
    assert {k: sorted(v) for k, v in seen.items()} == {k: list(v) for k, v in expected.items()}


def test_an_epoch_shows_each_token_at_most_once_at_changing_places() -> None:
    torch = pytest.importorskip("torch")
    from trainwright.data.loading.dataset import WindowDataset
    from trainwright.data.loading.feed import Feed

    inputs = TokenInputs(np.arange(500, dtype=np.uint16), np.array([1, 257]), np.array([256, 200]))
    store = WindowDataset(inputs, 8, device=torch.device("cpu"), seed=2)
    first, second = (store.take(epoch, np.arange(store.rows))[0] for epoch in (0, 1))
    assert len(set(first.flatten().tolist())) == first.numel() == 8 * store.rows
    assert first.max() < 456
    assert not torch.equal(first, second)
    x, y = store.take(3, np.array([4]))
    assert torch.equal(x[0] + 1, y[0])
    feed = Feed(store, 4, seed=0, count_targets=lambda batch: batch[1].numel())
    assert feed.next_step().targets == 32


# Documents


DOCUMENTS = ["One fish, two fish.\n" * 20, "Red fish, blue fish.\n" * 20, "Zürich? Ça va.\n" * 20]


def written(folder: Path, kind: str) -> TokenData:
    """Three documents as files of a folder or as a column of a table."""
    match kind:
        case "folder":
            (folder / "texts" / "deep").mkdir(parents=True)
            for name, text in zip(("a.txt", "b.md", "deep/c.txt"), DOCUMENTS, strict=True):
                (folder / "texts" / name).write_text(text)
            (folder / "texts" / "picture.png").write_bytes(b"\x89PNG")
            return TokenData(kind="tokens", path="texts")
        case "parquet":
            frame = pl.DataFrame({"n": range(4), "body": [DOCUMENTS[0], None, *DOCUMENTS[1:]]})
            frame.write_parquet(folder / "texts.parquet")
            return TokenData(kind="tokens", path="texts.parquet", text="body")
        case _:
            lines = [json.dumps({"body": text}) for text in DOCUMENTS]
            (folder / "texts.jsonl").write_text("\n".join(lines))
            return TokenData(kind="tokens", path="texts.jsonl", text="body")


@pytest.mark.parametrize("vocabulary", ["characters", "bytes"])
@pytest.mark.parametrize("kind", ["folder", "parquet", "jsonl"])
def test_documents_follow_each_other_with_a_mark_between(
    kind: str, vocabulary: str, tmp_path: Path
) -> None:
    section = written(tmp_path, kind).model_copy(
        update={"vocabulary": vocabulary, "validation": 0.35, "test": 0.25}
    )
    raw = read_tokens(section, tmp_path)
    assert isinstance(raw.text.tokens, np.memmap)
    whole = "".join(text + "\x1e" for text in DOCUMENTS)
    expected = whole if vocabulary == "characters" else whole.encode()
    assert raw.facts.rows == len(expected) == len(raw.text.tokens)
    ends = np.cumsum(
        [
            len(text + "x" if vocabulary == "characters" else (text + "x").encode())
            for text in DOCUMENTS
        ]
    )
    assert raw.text.documents.tolist() == [0, *ends[:-1]]
    decoded = raw.text.vocabulary.decode(raw.text.tokens)
    known = raw.text.vocabulary.symbols
    if vocabulary == "bytes":
        assert decoded == whole
    else:
        assert decoded == "".join(mark if mark in known else "\ufffd" for mark in whole)
        # What only the later documents hold is not in a vocabulary that was fitted before it.
        assert set(known) == set(whole[: raw.sources[0].ends["train"]])
    assert raw.notes == (("1 row without a text excluded",) if kind == "parquet" else ())


def test_a_text_gives_the_tokens_it_always_gave(tmp_path: Path) -> None:
    text = "".join(chr(0x20 + (7 * at + at // 50) % 90) for at in range(5000)) + "é" * 300
    (tmp_path / "t.txt").write_text(text)
    section = TokenData(kind="tokens", path="t.txt")
    raw = read_tokens(section, tmp_path)
    vocabulary = fit_characters(text[: part_ends(len(text), section)["train"]])
    assert raw.text.vocabulary == vocabulary
    assert raw.text.tokens.tolist() == vocabulary.encode(text).tolist()
    prepare_tokens(raw, section)


def test_what_documents_refuse(tmp_path: Path) -> None:
    section = written(tmp_path, "jsonl")
    for update, said in (
        ({"text": "bdy"}, "did you mean 'body'"),
        ({"path": "nowhere.jsonl"}, "no such file"),
        ({"path": "empty", "text": ""}, "no texts"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(DataMistake) as caught:
            read_tokens(section.model_copy(update=update), tmp_path)
        assert said in str(caught.value)
    (tmp_path / "empty" / "_old").mkdir()
    (tmp_path / "empty" / "_old" / "a.txt").write_text("a text")
    pl.DataFrame({"body": [1, 2]}).write_parquet(tmp_path / "numbers.parquet")
    for update, said in (
        ({"path": "empty", "text": ""}, "found: 1 file skipped: the name or folder begins with _"),
        ({"path": "numbers.parquet"}, "fix: name a table with such a column"),
    ):
        with pytest.raises(DataMistake) as caught:
            read_tokens(section.model_copy(update=update), tmp_path)
        assert said in str(caught.value)
    (tmp_path / "texts.jsonl").write_text(json.dumps({"body": "a\x1eb" * 400}))
    with pytest.raises(DataMistake, match="contains the document separator"):
        read_tokens(section, tmp_path)


@pytest.mark.row("F-47")
def test_a_link_out_of_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("more")
    section = written(tmp_path, "folder")
    (tmp_path / "texts" / "d.txt").symlink_to(tmp_path / "other.txt")
    with pytest.raises(DataMistake, match="leads out of the folder"):
        read_tokens(section, tmp_path)
