"""What is wrong with the documents of a text is found, in the documents where it was put."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import command, inside
from made_pictures import write_folder
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.files import Json, read_json
from trainwright.data.formats import encodings
from trainwright.data.quality.content import document_quality
from trainwright.data.quality.content.document_quality import (
    divided_by,
    document_faults,
    document_parts,
    paragraphs,
)
from trainwright.data.quality.finding import Finding
from trainwright.data.text.prepare_text import read_tokens

WORDS = (
    *("the", "bank", "sent", "my", "new", "card", "and", "it", "does", "not", "work", "when"),
    *("i", "pay", "in", "a", "shop", "abroad", "today", "letter", "answer", "soon", "please"),
)
GERMAN = "die Bank hat mir gestern eine neue Karte geschickt, die im Ausland nicht funktioniert"
PLANTED = {
    "short_text": (5, "?!"),
    # It has every word thirty times, and repeats nothing.
    "long_text": (9, " ".join(np.random.default_rng(1).choice(WORDS, 690))),
    "repeated_text": (14, "spam and eggs " * 8),
    "mojibake": (18, "the cafÃ© took my card and the barista didnâ€™t give it back to me at all"),
    "other_language": (21, GERMAN),
}
TOKENS = TokenData(kind="tokens", path="text.txt", separator="\n\n")
CONTRACT = """
task: generation
data: {kind: tokens, path: text.txt, separator: "\\n\\n"}
model: {kind: gpt, layers: 1, heads: 2, width: 8, context: 16}
metric: {name: nats_per_token}
training: {num_epochs: 1, stop: {max_steps: 1}}
"""


def clean(count: int = 200) -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 14)) + f" {row}" for row in range(count)]


def planted() -> list[str]:
    """Each fault once, and of two training documents a copy and a near copy at the very end."""
    texts = clean()
    for row, text in PLANTED.values():
        texts[row] = text
    texts[30] += " and nobody has told me why that is so"
    return [*texts, texts[40], texts[30].upper()]


def write(folder: Path, texts: list[str], kind: str = "separator") -> TokenData:
    """The same documents in one of three ways."""
    if kind == "separator":
        (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
        return TOKENS
    if kind == "folder":
        (folder / "many").mkdir()
        for row, text in enumerate(texts):
            (folder / "many" / f"{row:04d}.txt").write_text(text, encoding="utf-8")
        return TokenData(kind="tokens", path="many")
    lines = [json.dumps({"text": text}) for text in texts]
    # A row without a text is no document, and the rows behind it keep their places.
    (folder / "many.jsonl").write_text("\n".join(['{"text": ""}', *lines]), encoding="utf-8")
    return TokenData(kind="tokens", path="many.jsonl", text="text")


def found_in(findings: tuple[Finding, ...] | list[Json]) -> dict[str, list[tuple[int, ...]]]:
    """The rows of the findings of each kind."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for one in findings:
        fields = one.to_json() if isinstance(one, Finding) else one
        found.setdefault(fields["kind"], []).append(tuple(fields["rows"]))
    return found


def test_nothing_is_found_in_clean_documents(tmp_path: Path) -> None:
    assert document_faults(write(tmp_path, clean()), tmp_path) == ()


@pytest.mark.parametrize("kind", ["separator", "folder", "column"])
def test_every_fault_is_found_where_it_was_put(tmp_path: Path, kind: str) -> None:
    section = write(tmp_path, planted(), kind)
    more = 1 if kind == "column" else 0
    parts = document_parts(read_tokens(section, tmp_path))
    assert parts.tolist() == sorted(parts.tolist())
    assert set(parts.tolist()) == {0, 1, 2}
    findings = document_faults(section, tmp_path, parts)
    assert found_in(findings) == {
        **{name: [(row + more,)] for name, (row, _) in PLANTED.items()},
        # The later copies, and those of them that are held out while their like trains.
        "exact_duplicates": [(200 + more,), (200 + more,)],
        "near_duplicates": [(201 + more,), (201 + more,)],
    }
    assert {one.columns for one in findings} == {("text",) if more else ()}
    assert not any("quality.actions" in one.fix for one in findings)


def test_separators_that_follow_each_other_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n\n\n\n".join(clean()))
    parts = document_parts(read_tokens(TOKENS, tmp_path))
    assert found_in(document_faults(TOKENS, tmp_path, parts)) == {}


def test_documents_of_blanks_alone_are_no_fault(tmp_path: Path) -> None:
    section = write(tmp_path, [" ", "  ", " "], "column")
    assert document_faults(section, tmp_path) == ()


def test_copies_in_training_are_on_one_side(tmp_path: Path) -> None:
    texts = clean()
    texts[7] = texts[3]
    section = write(tmp_path, texts)
    parts = document_parts(read_tokens(section, tmp_path))
    assert found_in(document_faults(section, tmp_path, parts)) == {"exact_duplicates": [(7,)]}


def test_a_text_that_is_one_document_is_looked_at_by_paragraphs(tmp_path: Path) -> None:
    """Short ones and those that stand twice are as they should be in one text."""
    section = write(tmp_path, [*planted(), "ACT II", "ACT II"])
    whole = section.model_copy(update={"separator": ""})
    kinds = ("repeated_text", "mojibake", "other_language")
    assert found_in(document_faults(whole, tmp_path)) == {
        name: [(PLANTED[name][0],)] for name in kinds
    }
    assert set(found_in(document_faults(whole, tmp_path, quick=True))) == set(kinds[:2])


def test_of_a_long_text_a_part_is_looked_at_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = write(tmp_path, planted())
    length = len((tmp_path / "text.txt").read_text(encoding="utf-8"))
    monkeypatch.setattr(document_quality, "MOST_CHARACTERS", length // 3 + 1)
    parts = document_parts(read_tokens(section, tmp_path))
    findings = document_faults(section, tmp_path, parts)
    # Their places are those in the whole text.
    assert found_in(findings) == {
        "mojibake": [(18,)],
        "other_language": [(21,)],
        "near_duplicates": [(201,), (201,)],
        "long_text": [()],
    }
    assert findings[-1].message == "the text is long: only one in 3 of its documents is checked"


@given(st.text("ab\n", max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_marks_are_found_wherever_a_text_is_read_to(text: str, cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(text)]
    blocks = [text[a:b] for a, b in pairwise(ends)]
    whole = text.split("\n\n")
    assert list(divided_by(blocks, "\n\n")) == (whole if whole[-1] else whole[:-1])


@given(st.text("ab\n", max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_paragraphs_have_their_place_wherever_a_text_is_read_to(text: str, cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(text)]
    blocks = [text[a:b] for a, b in pairwise(ends)]
    joined: dict[int, str] = {}
    for place, piece in paragraphs(blocks):
        joined[place] = joined.get(place, "") + piece
    whole = text.rstrip("\n").split("\n\n")
    assert list(joined.items()) == list(enumerate(whole))
    kept = [*paragraphs(blocks, 2), *paragraphs(["", *blocks], 2)]
    assert sorted(kept) == sorted([(0, ""), *paragraphs(blocks)])


def test_paragraphs_of_a_long_text_have_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encodings, "_BLOCK", 1000)
    section = write(tmp_path, planted()).model_copy(update={"separator": ""})
    assert found_in(document_faults(section, tmp_path))["mojibake"] == [(18,)]
    length = len((tmp_path / "text.txt").read_text(encoding="utf-8"))
    monkeypatch.setattr(document_quality, "MOST_CHARACTERS", length // 2 + 1)
    findings = document_faults(section, tmp_path)
    assert findings[-1].message == "the text is long: only one in 2 of its parts is checked"
    assert found_in(findings)["mojibake"] == [(18,)]


def checked(*words: str) -> dict[str, list[tuple[int, ...]]]:
    ran = command("data", "check", *words, "--json")
    assert ran.code in (0, 4), ran.err
    return found_in(json.loads(ran.out)["findings"])


def test_the_command_and_a_training_find_the_same(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write(tmp_path, planted())
    (tmp_path / "text.yaml").write_text(CONTRACT, encoding="utf-8")
    with inside(tmp_path):
        found = checked("text.yaml")
        assert {*PLANTED, "exact_duplicates", "near_duplicates"} == set(found)
        ran = command("train", "text.yaml", "--run", "a")
        assert ran.code in (0, 3), ran.err
        told = found_in(read_json(Path("runs/a/preflight.json")))
    assert {kind: told[kind] for kind in found} == found


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_the_command_takes_a_file_by_name_and_by_address(tmp_path: Path, form: str) -> None:
    rows = ["a,b,y", *(f"{row % 7},{row},{'yn'[row % 2]}" for row in range(100)), "1,1,n", "1,1,n"]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = checked(form.format(tmp_path / "rows.csv"), "--target", "y")
    assert found["exact_duplicates"][0][-1] == 101


@pytest.mark.extended
def test_the_command_takes_texts_and_images(tmp_path: Path) -> None:
    write(tmp_path, planted(), "folder")
    write(tmp_path, planted())
    assert checked(str(tmp_path / "many"))["mojibake"] == [(18,)]
    assert checked(str(tmp_path / "text.txt"))["mojibake"] == [(18,)]
    images = write_folder(tmp_path / "pets")
    assert checked(str(images)) == {}
    (images / "cat" / "broken.png").write_bytes(b"\x89PNG")
    (images / "dog" / "again.png").write_bytes((images / "dog" / "0002.png").read_bytes())
    found = checked(str(images))
    assert {"corrupt_image", "exact_duplicates"} <= set(found)
