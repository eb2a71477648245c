"""Measures of plain code, counted in a made-up repository, and their ceilings."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import pytest

import plain

MODULE = '''
"""What stands beside it."""

class Traits:
    is_ranked: bool

    @property
    def has_order(self) -> bool:
        return "behind" in self.names  # of course


def counted(rows):
    found = [one for one in rows]  # beside
    return _total(found)


def need_rows(rows):
    if rows.task == "ranking" or rows.task in ("labels", "regression"):
        return rows.is_ranked and rows.is_ranked() and rows.is_file
    if rows.task == other.task:
        raise AssertionError
    raise Mistake(
        Problem("no rows")
    )


def find_problems(rows) -> list[Problem]:
    match rows.task:
        case "ranking":
            yield _twice(rows) or _twice(rows)


def _total(rows):
    return rows.to_json()


def _twice(rows):
    column: int = rows
    return column


def to_json(self): ...
'''


def write_repository(root: Path, packages: tuple[str, ...] = ("data",)) -> None:
    for package in packages:
        files = {f"src/trainwright/{package}/rows.py": MODULE, f"tests/unit/{package}/t.py": "x\n"}
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text(text)
    for name, text in {
        "docs/page.md": "Told of course.",
        "examples/contract.schema.json": "{}",
    }.items():
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    (root / "examples/contract.schema.json").write_text(json.dumps(SCHEMA))


SCHEMA = {
    "properties": {
        "model": {"anyOf": [{"$ref": "#/$defs/Trees"}, {"$ref": "#/$defs/Linear"}]},
        "slices": {"items": {"$ref": "#/$defs/Linear"}, "additionalProperties": False},
    },
    "$defs": {
        "Trees": {"properties": {"kind": {}, "trees": {}}},
        "Linear": {"properties": {"kind": {}}},
    },
}


def test_each_measure_of_a_module() -> None:
    counts = plain.count_code(ast.parse(MODULE), frozenset({"is_ranked", "has_order"}))
    assert counts == {
        plain.FUNCTIONS: 7,
        plain.ONCE: 1,
        plain.EMPTY: 2,
        plain.ASSIGNED: 4,
        plain.PARTICIPLES: 1,
        plain.TASKS: 3,
        plain.PROBES: 1,
        plain.REFUSALS: 7,
        plain.CODECS: 1,
        plain.WORDS: 2,
    }


def test_files_of_a_repository(tmp_path: Path) -> None:
    write_repository(tmp_path)
    counts = dict(plain.count_files(tmp_path))
    figures = {name: plain.measure(counts, name) for name in plain.MEASURES}
    assert figures[plain.WORDS] == 6
    assert figures[plain.PROBES] == 1
    assert figures[plain.LINES] == len(MODULE.splitlines())
    assert figures[plain.FUNCTIONS] == round(1000 * 7 / len(MODULE.splitlines()), 1)
    assert figures[plain.EMPTY] == 50.0
    assert (figures[plain.TEST_LINES], figures[plain.DOC_WORDS]) == (1, 3)
    assert figures[plain.PATHS] == len(
        {"model", "model.kind", "model.trees", "slices", "slices.kind"}
    )


def test_a_figure_above_its_ceiling_is_said_with_the_worst_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_repository(tmp_path)
    counts = dict(plain.count_files(tmp_path))
    settings = {
        "packages": ["data"],
        "ceilings": {plain.WORDS: 5, plain.CODECS: 1, plain.PATHS: 7},
        "new": {},
    }
    assert plain.compare(counts, tmp_path, settings) == [
        f"{plain.WORDS}: 6, ceiling 5; most in src/trainwright/data/rows.py (4), docs/page.md (2)"
    ]
    assert "lower it to 5" in capsys.readouterr().out.splitlines()[2]


def test_a_new_package_is_measured_by_itself_against_the_goals(tmp_path: Path) -> None:
    write_repository(tmp_path, ("data", "tune"))
    counts = dict(plain.count_files(tmp_path))
    settings = {
        "packages": ["data"],
        "ceilings": {plain.CODECS: 1, plain.TEST_LINES: 1},
        "new": {plain.CODECS: 0.3, plain.FUNCTIONS: 40, plain.TASKS: 0},
    }
    failures = plain.compare(counts, tmp_path, settings)
    assert [failure.partition(";")[0] for failure in failures] == [
        f"tune: {plain.FUNCTIONS}: {plain.measure(counts, plain.FUNCTIONS)}, ceiling 40",
        f"tune: {plain.TASKS}: 3, ceiling 0",
    ]


def test_ceilings_fall_and_rise_only_when_they_are_set(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.toml"
    path.write_text('# Why.\npackages = []\n\n[ceilings]\n"a" = 5\n"b" = 5\n\n[new]\n"a" = 1\n')
    plain.write_ceilings(path, {"a": 4, "b": 6, "c": 7.5}, lower_only=True)
    text = path.read_text()
    assert text.startswith("# Why.\n")
    assert tomllib.loads(text) == {
        "packages": [],
        "ceilings": {"a": 4, "b": 5, "c": 7.5},
        "new": {"a": 1},
    }
    plain.write_ceilings(path, {"a": 4, "b": 6, "c": 7.5}, lower_only=False)
    assert tomllib.loads(path.read_text())["ceilings"]["b"] == 6
