"""Subwords are learned and encoded block by block: the same tokens as of the whole text, and
of a long one merges that are learned on a sample that is stated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.encoders import bpe
from trainwright.data.encoders.bpe import blocks_of, blocks_within, encode_pieces, ends_at_words
from trainwright.data.formats import encodings
from trainwright.data.text import stream_tokens
from trainwright.data.text.prepare_text import RawTokens, prepare_tokens, read_tokens
from trainwright.data.text.stream_tokens import document_stops
from trainwright.run.screen import describe_data

WORDS = ["a ", "bcd ", "\n", "\n\n", "ef", "  ", "é", "ghi\n"]


def text_of(seed: int, parts: int = 2000) -> str:
    return "".join(np.random.default_rng(seed).choice(WORDS, parts).tolist())


def cut_up(text: str, seed: int) -> Iterator[str]:
    ends = np.sort(np.random.default_rng(seed).integers(0, len(text), 60)).tolist()
    return (text[a:b] for a, b in pairwise([0, *ends, len(text)]))


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_regions_are_those_of_their_texts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bpe, "_BLOCK", 30)
    text = text_of(seed)
    ends = np.unique(np.random.default_rng(seed).integers(0, len(text), 9)).tolist()
    regions = [*pairwise(ends[:5]), (ends[-2], ends[-1])]
    wanted = [(n, block) for n, (a, b) in enumerate(regions) for block in blocks_of(text[a:b])]
    assert list(blocks_within(cut_up(text, seed), regions)) == wanted


@pytest.mark.parametrize("mark", ["\n\n", "\n", "a \n", "é"])
@pytest.mark.parametrize("seed", range(4))
def test_documents_end_where_marks_do_in_whatever_blocks(seed: int, mark: str) -> None:
    text = text_of(seed)
    for whole in (text, text + mark, text.strip()):
        pieces = [len(one) + len(mark) for one in whole.split(mark)]
        wanted = np.cumsum(pieces)
        wanted[-1] -= len(mark)
        wanted = np.unique(wanted)
        assert document_stops(cut_up(whole, seed), mark).tolist() == wanted.tolist()
    assert document_stops(cut_up(text, seed), "").tolist() == [len(text)]


def section_of(folder: Path, **more: object) -> TokenData:
    (folder / "text.txt").write_text(text_of(0, 20_000))
    given = {"kind": "tokens", "path": "text.txt", "vocabulary": "bpe", "vocabulary_size": 270}
    reading = {"cache": str(folder / "cache")}
    return TokenData.model_validate({**given, "reading": reading, **more})


def read(section: TokenData, folder: Path) -> tuple[RawTokens, str]:
    raw = read_tokens(section, folder)
    return raw, prepare_tokens(raw, section).version


@pytest.mark.parametrize("separator", ["", "\n\n"])
def test_small_blocks_change_no_token(
    separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of(tmp_path, separator=separator, reading={"cache": "off"})
    whole, version = read(section, tmp_path)
    monkeypatch.setattr(bpe, "_BLOCK", 50)
    monkeypatch.setattr(encodings, "_BLOCK", 333)
    monkeypatch.setattr(stream_tokens, "_AT_ONCE", 100)
    streamed, again = read(section, tmp_path)
    assert again == version
    assert np.array_equal(streamed.text.tokens, whole.text.tokens)
    assert np.array_equal(streamed.text.documents, whole.text.documents)
    assert streamed.sources == whole.sources
    assert not whole.notes
    train = whole.text.tokens[: whole.sources[0].ends["train"]]
    text = (tmp_path / "text.txt").read_text()
    assert text.startswith(whole.text.vocabulary.decode(train))
    # What was kept says where the parts end.
    kept = section_of(tmp_path, separator=separator)
    first, second = read(kept, tmp_path), read(kept, tmp_path)
    assert first[1] == second[1] == version
    assert first[0].sources == second[0].sources == whole.sources


def across_words(text: str) -> str:
    """A tokenizer whose tokens may hold blanks."""
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=200, show_progress=False)
    tokenizer.train_from_iterator([text[:5000]], trainer)
    return str(tokenizer.to_str())


@pytest.mark.parametrize("vocabulary", ["characters", "bytes", "tokenizer"])
def test_a_divided_text_has_the_tokens_of_its_documents(
    vocabulary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"vocabulary": vocabulary, "vocabulary_size": 512, "reading": {"cache": "off"}}
    if vocabulary == "tokenizer":
        given["tokenizer"] = "tokenizer.json"
        (tmp_path / "tokenizer.json").write_text(across_words(text_of(0, 20_000)))
    section = section_of(tmp_path, separator="\n\n", **given)
    monkeypatch.setattr(bpe, "_BLOCK", 50)
    monkeypatch.setattr(encodings, "_BLOCK", 333)
    monkeypatch.setattr(stream_tokens, "_AT_ONCE", 100)
    found = read_tokens(section, tmp_path).text
    text = (tmp_path / "text.txt").read_text()
    documents = [one + "\n\n" for one in text.split("\n\n")]
    documents[-1] = documents[-1].removesuffix("\n\n")
    encoded = found.vocabulary.encode_each([one for one in documents if one])
    assert len(found.documents) == len(encoded) > 3
    assert np.array_equal(found.tokens, np.concatenate(encoded))
    assert np.array_equal(np.diff(found.documents), [len(one) for one in encoded[:-1]])
    if vocabulary == "tokenizer":
        assert not ends_at_words(found.vocabulary.symbols)
        cut = [part for one in documents for _, part in blocks_within([one], [(0, len(one))])]
        assert sum(map(len, found.vocabulary.encode_each(cut))) > len(found.tokens)


def test_of_a_long_text_merges_are_learned_on_a_sample_that_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of(tmp_path)
    whole, version = read(section, tmp_path)
    monkeypatch.setattr(bpe, "_BLOCK", 500)
    monkeypatch.setattr(stream_tokens, "MOST_LEARNED", 10_000)
    some, other = read(section, tmp_path)
    (note,) = some.notes
    assert note.startswith("the merges of bpe are learned on ")
    learned, length, _ = (int(word.replace(",", "")) for word in note.split() if word[0].isdigit())
    assert 5_000 < learned <= 11_000
    assert length > 30_000
    assert any(note in line for line in describe_data(some, prepare_tokens(some, section)))
    # The merges are part of the version of the data, and the same each time.
    assert other != version
    assert read(section, tmp_path)[1] == other
    symbols = some.text.vocabulary.symbols
    assert symbols != whole.text.vocabulary.symbols
    text = (tmp_path / "text.txt").read_text()
    encoded = encode_pieces(symbols, [text])[0]
    assert some.text.vocabulary.decode(encoded) == text
