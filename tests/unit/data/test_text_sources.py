"""Sources of a text: found in a folder or a table, and divided each by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mixed_texts import (
    DOCUMENTS,
    EVEN,
    LETTERS,
    WINDOWS,
    Windows,
    files,
    inputs_of,
    made,
    source_of,
    table,
)
from trainwright.contract.sections.data.data_traits import Mixture, Uniform
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.quality.content.document_quality import document_faults, document_parts
from trainwright.data.sources.cache import Cache
from trainwright.data.text.documents import END
from trainwright.data.text.prepare_text import prepare_tokens, read_tokens
from trainwright.data.text.text_sources import PARTS
from trainwright.data.text.token_file import EncodedText, write_token_file


def test_documents_come_source_after_source_and_in_their_order(tmp_path: Path) -> None:
    raw = read_tokens(table(tmp_path), tmp_path)
    expected = "".join(text + END for source in LETTERS for name, text in made() if name == source)
    assert raw.text.vocabulary.decode(raw.text.tokens) == expected
    assert [source.name for source in raw.sources] == list(LETTERS)
    for source in raw.sources:
        inside = expected[source.start : source.ends["test"]]
        assert source_of(inside) == {source.name}
        assert inside.count(END) == DOCUMENTS[source.name]


def test_what_lies_in_a_folder_is_a_source(tmp_path: Path) -> None:
    raw = read_tokens(files(tmp_path), tmp_path)
    assert [source.name for source in raw.sources] == ["books", "code", "web.md"]
    text = raw.text.vocabulary.decode(raw.text.tokens)
    for source, name in zip(raw.sources, LETTERS, strict=True):
        assert source_of(text[source.start : source.ends["test"]]) == {name}


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("vocabulary", ["characters", "bytes"])
def test_every_part_has_its_share_of_every_source(
    windows: Windows, vocabulary: str, tmp_path: Path
) -> None:
    section = table(tmp_path, windows).model_copy(update={"vocabulary": vocabulary})
    raw = read_tokens(section, tmp_path)
    prepared = prepare_tokens(raw, section)
    wanted = {"train": 0.7, "validation": 0.15, "test": 0.15}
    starts = [source.start for source in raw.sources]
    assert starts == [0, *(source.ends["test"] for source in raw.sources[:-1])]
    for source in raw.sources:
        whole = source.ends["test"] - source.start
        for part, size in source.sizes().items():
            assert size == pytest.approx(wanted[part] * whole, abs=62)
            assert source.ends[part] in {*raw.text.documents.tolist(), len(raw.text.tokens)}
    for part in (prepared.train, prepared.validation, prepared.test):
        told = part.frame.group_by("source").agg(pl.col("tokens").sum()).sort("source")
        assert told["source"].to_list() == list(LETTERS)
        sizes = [source.sizes()[part.name] for source in raw.sources]
        lost = [size - tokens for size, tokens in zip(sizes, told["tokens"], strict=True)]
        assert all(0 <= count <= DOCUMENTS[name] for name, count in zip(LETTERS, lost, strict=True))
        assert len(set(zip(part.units.tolist(), part.frame["source"], strict=True))) == len(
            set(part.units.tolist())
        )
    assert prepared.split.rows == raw.facts.part_rows
    assert sum(prepared.split.rows.values()) == len(raw.text.tokens)


def test_the_vocabulary_is_that_of_the_training_parts(tmp_path: Path) -> None:
    place = tmp_path / "texts"
    place.mkdir()
    for name, letters in (("a.txt", "abc"), ("b.txt", "def")):
        first, second, third = letters
        (place / name).write_text(first * 820 + second * 100 + third * 100)
    section = TokenData(
        kind="tokens", path="texts", validation=0.1, test=0.1, sampling=Mixture(kind="mixture")
    )
    assert read_tokens(section, tmp_path).text.vocabulary.symbols == "ad"


def test_the_subwords_of_a_mixture_stay_in_their_source(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    section = table(tmp_path, "packed").model_copy(
        update={"vocabulary": "bpe", "vocabulary_size": 300}
    )
    raw = read_tokens(section, tmp_path)
    for source in raw.sources:
        for part in PARTS:
            start, end = source.bounds(part)
            text = raw.text.vocabulary.decode(raw.text.tokens[start:end])
            assert source_of(text) == {source.name}
            assert text.endswith(END)


def test_parts_are_long_enough_in_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "t.txt").write_text("one fish two fish " * 100)
    section = TokenData(kind="tokens", path="t.txt", vocabulary="bpe", vocabulary_size=300)
    with pytest.raises(DataMistake, match="too little text for the validation part"):
        read_tokens(section, tmp_path)


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [
        ([100] * 17 + [220, 80], (17, 1, 1)),
        ([100] * 17 + [300], (16, 1, 1)),
        ([100] * 20, (18, 1, 1)),
    ],
    ids=["before the end", "at the end", "none"],
)
def test_a_document_longer_than_a_part_leaves_none_empty(
    lengths: list[int], parts: tuple[int, int, int], tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    for at, length in enumerate(lengths):
        (tmp_path / f"texts/{at:02}.txt").write_text("abcdefghij" * (length // 10))
    raw = read_tokens(TokenData(kind="tokens", path="texts"), tmp_path)
    text = raw.text.vocabulary.decode(raw.text.tokens)
    (source,) = raw.sources
    assert tuple(text[slice(*source.bounds(part))].count(END) for part in PARTS) == parts


def test_a_mixture_of_one_source_is_the_text_itself(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("One fish, two fish. " * 200)
    section = TokenData(kind="tokens", path="texts", sampling=Mixture(kind="mixture"))
    plain = section.model_copy(update={"sampling": Uniform()})
    one, other = (prepare_tokens(read_tokens(s, tmp_path), s) for s in (section, plain))
    for a, b in ((one.train, other.train), (one.validation, other.validation)):
        assert (inputs_of(a).starts == inputs_of(b).starts).all()
        assert (inputs_of(a).lengths == inputs_of(b).lengths).all()
        assert (a.units == b.units).all()
    assert one.version != other.version


def test_findings_name_the_rows_and_parts_of_their_documents(tmp_path: Path) -> None:
    section = table(tmp_path, "packed")
    file = tmp_path / "texts.jsonl"
    lines = file.read_text().split("\n")
    copied = [at for at, (name, _) in enumerate(made()) if name == "code"]
    lines[copied[-1]] = lines[copied[0]]
    file.write_text("\n".join(lines))
    raw = read_tokens(section, tmp_path)
    parts = document_parts(raw)
    assert len(parts) == sum(DOCUMENTS.values())
    begin = 0
    for name, count in DOCUMENTS.items():
        mine = parts[begin : begin + count]
        assert (np.diff(mine) >= 0).all(), name
        assert set(mine.tolist()) == {0, 1, 2}
        begin += count
    found = document_faults(section, tmp_path, parts, quick=True)
    rows = next(one for one in found if one.kind == "exact_duplicates").rows
    assert {copied[0], copied[-1]} & set(rows)
    assert set(rows) <= {copied[0], copied[-1]}


def test_texts_of_two_columns_are_not_mistaken_in_the_cache(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrst"
    rows = [
        {"body": letter * 99, "two": str(at % 2), "ten": str(at // 10)}
        for at, letter in enumerate(letters)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    section = TokenData(kind="tokens", path="t.jsonl", text="body", validation=0.2, test=0.2)
    shown = []
    for column in ("two", "ten"):
        sampling = Mixture(kind="mixture", column=column)
        told = section.model_copy(update={"vocabulary": "bytes", "sampling": sampling})
        raw = read_tokens(told, tmp_path)
        shown.append(raw.text.vocabulary.decode(raw.text.tokens)[::100])
    assert shown == [letters[::2] + letters[1::2], letters]


def test_files_that_are_mixed_or_not_are_the_same_tokens_in_the_cache(tmp_path: Path) -> None:
    mixed = TokenData(
        kind="tokens",
        path="texts",
        vocabulary="bytes",
        reading=Reading(cache="kept"),
        sampling=Mixture(kind="mixture"),
    )
    for at in range(60):
        file = tmp_path / "texts" / f"source-{at // 20}" / f"{at}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one text " * 10)
    plain = mixed.model_copy(update={"sampling": Uniform()})
    one, other = (read_tokens(section, tmp_path).text.tokens for section in (mixed, plain))
    assert (one == other).all()
    assert len(Cache(tmp_path / "kept").entries()) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sampling": Mixture(kind="mixture", column="body2")}, "no column 'body2'"),
        (
            {"sampling": Mixture(kind="mixture", column="corpus", weights={"web": 1, "wep": 2})},
            "one of each source of the training rows: 'books', 'code', 'web'",
        ),
        ({"text": "", "sampling": Mixture(kind="mixture")}, "no sources to mix"),
        ({"validation": 0.004}, "too little text of 'books' for the validation part"),
    ],
)
def test_what_cannot_be_mixed(change: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataMistake) as caught:
        read_tokens(table(tmp_path).model_copy(update=change), tmp_path)
    assert said in str(caught.value)


def test_a_document_without_a_source_and_a_source_of_one_document(tmp_path: Path) -> None:
    section = table(tmp_path)
    file = tmp_path / "texts.jsonl"
    whole = file.read_text()
    for none in ("", " ", "NA", "null"):
        file.write_text(whole + "\n" + json.dumps({"body": "abc", "corpus": none}))
        with pytest.raises(DataMistake, match="1 document without a source"):
            read_tokens(section, tmp_path)
    packed = files(tmp_path).model_copy(update={"windows": "packed"})
    with pytest.raises(DataMistake, match=r"no documents of 'web.md' to pack"):
        read_tokens(packed, tmp_path)
    vocabulary = TextVocabulary("bytes")
    write_token_file(tmp_path / "t.tokens", EncodedText(vocabulary.encode("a" * 900), vocabulary))
    with pytest.raises(DataMistake, match="a token file, which does not record them"):
        read_tokens(section.model_copy(update={"path": "t.tokens", "text": ""}), tmp_path)


def test_sources_are_named_as_the_cells_of_a_table_are_read(tmp_path: Path) -> None:
    section = table(tmp_path)
    names = [source.name for source in read_tokens(section, tmp_path).sources]
    file = tmp_path / "texts.jsonl"
    half = file.read_text().replace('"web"', '" web"', 80).replace('"code"', '"code "', 20)
    file.write_text(half)
    assert [source.name for source in read_tokens(section, tmp_path).sources] == names
    codes = {name: float(at) for at, name in enumerate(LETTERS)}
    rows = pl.DataFrame({"body": [text for _, text in made()]}).with_columns(
        pl.Series("corpus", [codes[name] for name, _ in made()])
    )
    numbered = section.model_copy(update={"path": "texts.parquet"})
    rows.write_parquet(tmp_path / "texts.parquet")
    assert [one.name for one in read_tokens(numbered, tmp_path).sources] == ["0", "1", "2"]
    rows.with_columns(
        corpus=pl.when(pl.int_range(pl.len()) < 3).then(float("nan")).otherwise("corpus")
    ).write_parquet(tmp_path / "texts.parquet")
    with pytest.raises(DataMistake, match="3 documents without a source"):
        read_tokens(numbered, tmp_path)


@pytest.mark.parametrize("vocabulary", ["characters", "bytes", "bpe"])
@pytest.mark.parametrize("mixed", [True, False])
def test_a_column_without_any_text_is_named(vocabulary: str, mixed: bool, tmp_path: Path) -> None:
    section = table(tmp_path, "across", EVEN if mixed else Uniform())
    (tmp_path / "texts.jsonl").write_text('{"body": "", "corpus": "a"}\n' * 5)
    told = section.model_copy(update={"vocabulary": vocabulary})
    with pytest.raises(DataMistake, match="no row has a text") as caught:
        read_tokens(told, tmp_path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.found) == ("data.text", "body")


def test_the_report_says_which_documents_are_divided(tmp_path: Path) -> None:
    def reason(section: TokenData) -> str:
        return prepare_tokens(read_tokens(section, tmp_path), section).split.reason

    assert "none of its 235 documents is split" in reason(table(tmp_path))
    inside = "; a source of one document is split within it"
    assert reason(files(tmp_path)).endswith(inside)
    (tmp_path / "two").mkdir()
    for name in ("a", "b"):
        (tmp_path / "two" / f"{name}.txt").write_text(name * 2000)
    two = files(tmp_path).model_copy(update={"path": "two"})
    assert reason(two).endswith(inside)
    (tmp_path / "two" / "b.txt").unlink()
    one = reason(two)
    assert "document" not in one


def test_other_shares_of_whole_documents_are_not_mistaken_in_the_cache(tmp_path: Path) -> None:
    """Documents are not divided: the text is cut at the same places, whatever the shares."""
    documents = [f"the document of number {number:03}" for number in range(60)]
    (tmp_path / "notes.txt").write_text("\n\n".join(documents))
    sizes = []
    for test in (0.1, 0.4):
        section = TokenData(kind="tokens", path="notes.txt", separator="\n\n", test=test)
        sizes.append(prepare_tokens(read_tokens(section, tmp_path), section).split.rows)
    assert sizes[0]["test"] < sizes[1]["test"]
    assert sum(sizes[0].values()) == sum(sizes[1].values())
    again = TokenData(kind="tokens", path="notes.txt", separator="\n\n", test=0.1)
    assert prepare_tokens(read_tokens(again, tmp_path), again).split.rows == sizes[0]
