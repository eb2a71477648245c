"""A table whose rows lie in files: the run of the same rows in memory, and a clear no where all of
them are needed at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

from command import NETWORK, command, inside, write_project
from trainwright.core.files import Json, read_json
from trainwright.data.base import row_storage
from trainwright.data.modalities import table_modality
from trainwright.data.quality import run_checks

pytestmark = pytest.mark.torch


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(row_storage, "SLICE_ROWS", 50)
    write_project(tmp_path)
    (tmp_path / "network.yaml").write_text(NETWORK)
    with inside(tmp_path):
        yield tmp_path


def trained(name: str, *words: str, contract: str = "network.yaml") -> Path:
    given = sets(words)
    ran = command("train", contract, "--run", name, *given)
    assert ran.code in (0, 3), ran.err
    decided = read_json(Path("runs", name, "plan.json"))["contract"]["data"]["reading"]["rows_in"]
    assert ("rows in files" in ran.err) == (decided == "files")
    return Path("runs", name)


def sets(words: Sequence[str]) -> list[str]:
    return [word for one in words for word in ("--set", one)]


def found_in(run: Path) -> list[Json]:
    return list(read_json(run / "preflight.json"))


def kinds_of(run: Path) -> set[str]:
    return {one["kind"] for one in found_in(run)}


def choice(run: Path) -> Json:
    (found,) = (
        one
        for one in read_json(run / "plan.json")["choices"]
        if one["path"] == "data.reading.rows_in"
    )
    return found


def without_times(file: Path) -> Json:
    found = read_json(file)
    if isinstance(found, dict):
        return {name: one for name, one in found.items() if name not in ("seconds", "opened")}
    return found


@pytest.mark.extended
@pytest.mark.parametrize(
    "words",
    [
        (),
        (
            "data.split={kind: random, key: '*'}",
            "data.sampling={kind: mixture, column: city}",
            "data.columns.age={range: [20, 70]}",
            "data.quality.actions={missing: drop, out_of_range: cap}",
        ),
    ],
)
def test_weights_and_verdict_are_the_same(words: tuple[str, ...], project: Path) -> None:
    memory = trained("a", "data.reading.rows_in=memory", *words)
    files = trained("b", "data.reading.rows_in=files", *words)
    weights = "bundle/network.safetensors"
    assert (memory / weights).read_bytes() == (files / weights).read_bytes()
    for name in ("evaluation.json", "data/split.json", "data/leakage.json"):
        assert without_times(memory / name) == without_times(files / name)
    ours, theirs = (read_json(run / "record.json") for run in (memory, files))
    assert ours["data_version"] == theirs["data_version"]
    assert not list((project / "kept" / "scratch").iterdir())


@pytest.mark.extended
def test_files_where_memory_is_too_small_and_why(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choice(trained("a"))["value"] == "memory"
    monkeypatch.setattr(row_storage, "memory_bytes", lambda: 10_000)
    decided = choice(trained("b"))
    assert decided["value"] == "files"
    assert "rows of" in decided["reason"]
    assert "of 9.8 KiB" in decided["reason"]


@pytest.mark.extended
def test_of_many_rows_the_checks_see_some_and_say_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("data.reading.rows_in=memory", "data.reading.cache=off")
    assert "sampled" not in kinds_of(trained("a", *given))
    monkeypatch.setattr(table_modality, "MOST_CHECKED", 100)
    folder = trained("b", *given)
    (said,) = (one["message"] for one in found_in(folder) if one["kind"] == "sampled")
    assert "the checks looked at 100 of" in said
    assert "audit" not in said
    others = [one["message"] for one in found_in(folder) if one["kind"] in ("outliers", "skewed")]
    assert all(message.endswith("(among the 100 rows looked at)") for message in others)
    # The leakage audit, which a verdict may rest on, still saw every row.
    leakage = "data/leakage.json"
    assert read_json(folder / leakage) == read_json(Path("runs/a") / leakage)
    sample = json.loads(command("check", "network.yaml", "--json", *sets(given)).out)["sample"]
    rows = sample["rows"]
    assert sample == {
        "rows": rows,
        "audit": rows,
        "checks": 100,
        "labels": 0,
        "left_to_train": ["label errors"],
    }


def test_of_many_rows_fewer_labels_are_judged_and_that_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_modality, "MOST_CHECKED", 120)
    monkeypatch.setattr(table_modality, "MOST_ROWS_JUDGED", 80)
    heights: list[int] = []
    monkeypatch.setattr(run_checks, "label_errors", lambda data: heights.append(len(data)) or [])
    judged = tuple((what, run_checks.label_errors) for what, _ in run_checks.SLOW[-1:])
    monkeypatch.setattr(run_checks, "SLOW", judged)
    given = ("data.reading.rows_in=memory", "data.reading.cache=off")
    folder = trained("a", *given)
    assert heights == [80]
    (said,) = (one["message"] for one in found_in(folder) if one["kind"] == "sampled")
    assert "the checks looked at 120 of" in said
    assert "models judged the labels of 80" in said


@pytest.mark.extended
def test_of_very_many_rows_the_audit_sees_some_and_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_modality, "MOST_AUDITED", 100)
    folder = trained("a", "data.reading.rows_in=files")
    (said,) = (one["message"] for one in found_in(folder) if one["kind"] == "sampled")
    assert said.endswith("the leakage audit looked at 100")
    assert "sampled" not in kinds_of(trained("b", "data.reading.rows_in=memory"))
    monkeypatch.setattr(table_modality, "MOST_IN_MEMORY", 200)
    whole = read_json(Path("runs/b/data/leakage.json"))
    folder = trained("c", "data.reading.rows_in=memory", "data.reading.cache=off")
    (said,) = (one["message"] for one in found_in(folder) if one["kind"] == "sampled")
    assert "the leakage audit looked at 100; it compares equal rows" in said
    # What a sample would miss is found in all rows, as before.
    full = ("same rows", "same groups", "future rows")
    assert [one for one in read_json(folder / "data" / "leakage.json") if one["test"] in full] == [
        one for one in whole if one["test"] in full
    ]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["data.split={kind: stratified, folds: 3}"], "data.split.folds"),
        (["data.features.categorical=target"], "data.features.categorical"),
        (["data.columns.city={features: {categorical: target}}"], "city.features.categorical"),
        (["data.columns.city={kind: text}"], "data.columns.city.kind"),
        (["data.quality.actions={exact_duplicates: drop}"], "actions.exact_duplicates"),
        (["data.quality.actions={out_of_range: fail}"], "actions.out_of_range"),
    ],
)
def test_what_needs_all_rows_is_refused_with_a_fix(
    words: list[str], path: str, project: Path
) -> None:
    given = [word for one in ("data.reading.rows_in=files", *words) for word in ("--set", one)]
    ran = command("train", "network.yaml", "--run", "a", *given)
    assert ran.code == 2
    assert path in ran.err
    assert "rows_in: memory" in ran.err
    assert not Path("runs").exists()


@pytest.mark.extended
def test_trees_and_their_verdict_are_the_same(project: Path) -> None:
    memory, files = (
        trained(rows_in, f"data.reading.rows_in={rows_in}", contract="small.yaml")
        for rows_in in ("memory", "files")
    )
    for name in ("bundle/model.txt", "bundle/boosting.json"):
        assert (memory / name).read_bytes() == (files / name).read_bytes()
    assert without_times(memory / "evaluation.json") == without_times(files / "evaluation.json")


def test_a_linear_model_is_refused_with_the_number(project: Path) -> None:
    contract = (project / "small.yaml").read_text().replace("  max_trees: 5\n", "")
    Path("line.yaml").write_text(contract.replace("kind: boosting", "kind: linear"))
    ran = command("train", "line.yaml", "--set", "data.reading.rows_in=files")
    assert ran.code == 2
    assert "a linear model needs all rows in memory" in ran.err
    assert "rows of" in ran.err
    assert "kind: boosting" in ran.err
