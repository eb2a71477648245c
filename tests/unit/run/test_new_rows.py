"""New rows are read as the training rows were: a model's file is written like the one before it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from command import CONTRACT, Ran, command, inside, write_rows
from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.text.documents import END
from trainwright.data.text.prepare_text import new_text

BYTES = TextVocabulary("bytes")
READING = """
  reading:
    encoding: cp1252
    separator: ";"
    header: false
    bad_records: 2
    cache: kept
"""


def odd(text: str) -> str:
    """The rows without a header, behind other separators, with a letter that is not ASCII."""
    return text.partition("\n")[2].replace(",", ";").replace("Bern", "Zürich")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    write_rows(folder / "plain.csv")
    text = (folder / "plain.csv").read_text()
    (folder / "rows.csv").write_bytes(odd(text).encode("cp1252"))
    columns = {"age": "column_1", "city": "column_2", "visits": "column_3", "bought": "column_4"}
    contract = CONTRACT.replace("bought", "column_4").replace("city", "column_2")
    (folder / "small.yaml").write_text(contract.replace("\nmodel:", READING + "model:"))
    rows = pl.read_csv(folder / "plain.csv").rename(columns)
    rows.with_columns(pl.col("column_2").str.replace("Bern", "Zürich")).write_csv(
        folder / "usual.csv"
    )
    with inside(folder):
        ran = command("train", "small.yaml", "--run", "one", "--set", "metric.resamples=100")
        assert ran.code in (0, 3), ran.err
    return folder


def judged(*words: str) -> Ran:
    ran = command("evaluate", "one", *words, "--json")
    assert ran.code in (0, 3), ran.err
    return ran


@pytest.mark.extended
def test_a_file_like_the_training_file_is_read_like_it(project: Path) -> None:
    usual = ["--set", "data.reading.encoding=utf-8", "--set", "data.reading.header=true"]
    usual += ["--set", 'data.reading.separator=","']
    with inside(project):
        here = json.loads(judged("rows.csv").out)
        assert here["metrics"] == json.loads(judged("usual.csv", *usual).out)["metrics"]
        for file, words in (("rows.csv", []), ("usual.csv", usual)):
            ran = command("predict", "one", file, "-o", f"{file}.out.csv", *words)
            assert ran.code == 0, ran.err
        first, second = (pl.read_csv(f"{name}.csv.out.csv") for name in ("rows", "usual"))
        assert first.height == 300
        assert first.equals(second)


@pytest.mark.extended
def test_the_cache_beside_the_contract_is_not_made_elsewhere(project: Path, tmp_path: Path) -> None:
    with inside(tmp_path):
        assert judged(str(project / "rows.csv"), "--runs", str(project / "runs")).code in (0, 3)
    assert (project / "kept").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_lie_in_a_store(project: Path) -> None:
    pytest.importorskip("fsspec")
    url = f"file://{project}/rows.csv"
    with inside(project):
        assert (
            json.loads(judged(url).out)["metrics"] == json.loads(judged("rows.csv").out)["metrics"]
        )
        assert command("predict", "one", url, "-o", "store.csv").code == 0


def test_a_file_that_is_written_otherwise_is_refused(project: Path) -> None:
    with inside(project):
        for verb in ("evaluate", "predict"):
            assert command(verb, "one", "usual.csv").code == 2
            assert (
                command(verb, "one", "rows.csv", "--set", "data.reading.encoding=utf-8").code == 2
            )


def test_records_that_are_left_out_are_told_and_none_is_left_out_of_predictions(
    project: Path,
) -> None:
    broken = (project / "rows.csv").read_bytes() + b"1;2\n"
    (project / "broken.csv").write_bytes(broken)
    with inside(project):
        warnings = json.loads(judged("broken.csv").out)["warnings"]
        assert "1 record of broken.csv skipped, not readable: line 301" in warnings
        ran = command("predict", "one", "broken.csv", "-o", "out.csv")
        assert ran.code == 2
        assert "rows have too few fields" in ran.err
        allowed = ("--set", "data.reading.bad_records=3")
        ran = command("predict", "one", "broken.csv", "-o", "out.csv", *allowed)
        assert ran.code == 2
        assert "a prediction stands for each row" in ran.err
        assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rows.csv", "--set", "metric.target=0.1"], "is used as it was made"),
        (["rows.csv", "--set", "data.reading=1"], "is used as it was made"),
        (["rows.csv", "--set", "data.reading.encodign=x"], "did you mean encoding?"),
        (["rows.csv", "--set", "data.reading.encoding=klingon"], "no such encoding"),
        (["rows.csv", "--set", "data.reading.header=perhaps"], "data.reading.header"),
        (["--set", "data.reading.header=true"], "no file is named"),
    ],
)
def test_only_the_reading_may_be_another(project: Path, words: list[str], said: str) -> None:
    with inside(project):
        ran = command("evaluate", "one", *words)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_text_is_read_in_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_bytes("größer\n".encode("utf-16"))
    section = TokenData(kind="tokens", path="old.txt", vocabulary="bytes")
    reading = Reading(encoding="utf-16")
    part, _ = new_text(str(tmp_path / "new.txt"), BYTES, section, reading)
    assert part.target.sum() == len("größer\n".encode()) - 1
    with pytest.raises(DataMistake) as caught:
        new_text(str(tmp_path / "new.txt"), BYTES, section, USUAL)
    assert caught.value.problems[0].place.file.endswith("new.txt")
    with pytest.raises(DataMistake) as caught:
        new_text(str(tmp_path / "none.txt"), BYTES, section, USUAL)
    assert caught.value.problems[0].path == "DATA"


@pytest.mark.parametrize("windows", ["across", "packed"])
def test_texts_of_a_column_are_judged_and_not_the_file_around_them(
    windows: str, tmp_path: Path
) -> None:
    texts = ["first words", "other words", "third"]
    pl.DataFrame({"n": [1, 2, 3], "text": texts}).write_ndjson(tmp_path / "new.jsonl")
    section = TokenData(
        kind="tokens", path="old.jsonl", text="text", vocabulary="bytes", windows=windows
    )
    part, _ = new_text(str(tmp_path / "new.jsonl"), BYTES, section, USUAL)
    whole = sum(len(text) + len(END) for text in texts)
    assert part.target.sum() == whole - (1 if windows == "across" else len(texts))
    (tmp_path / "new.txt").write_text(END.join(texts) + END)
    plain, _ = new_text(str(tmp_path / "new.txt"), BYTES, section, USUAL)
    assert plain.target.sum() == part.target.sum()
    (tmp_path / "new").mkdir()
    for at, text in enumerate(texts):
        (tmp_path / "new" / f"{at}.txt").write_text(text)
    folder, _ = new_text(
        str(tmp_path / "new"), BYTES, section.model_copy(update={"text": ""}), USUAL
    )
    assert folder.target.sum() == part.target.sum()
