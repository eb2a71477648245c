"""Tables whose entries are imported when they are looked up."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

import trainwright
from trainwright.core.lazy_imports import LazyTable

PACKAGE = Path(trainwright.__file__).parent


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyTable[object]:
    """Two modules that nothing else imports."""
    for name in ("lazy_one", "lazy_two"):
        (tmp_path / f"{name}.py").write_text("class Made:\n    pass\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return LazyTable({"one": "lazy_one:Made", "two": "lazy_two:Made"}, build=lambda made: made())


def test_only_what_is_looked_up_is_imported(table: LazyTable[object]) -> None:
    assert list(table) == ["one", "two"]
    assert "two" in table
    assert "three" not in table
    assert len(table) == 2
    assert not {"lazy_one", "lazy_two"} & set(sys.modules)
    assert type(table["two"]).__module__ == "lazy_two"
    assert "lazy_one" not in sys.modules


def test_a_value_is_made_once(table: LazyTable[object]) -> None:
    assert table["one"] is table["one"]
    assert list(table.values()) == [table["one"], table["two"]]


def test_what_is_not_in_it_has_no_value(table: LazyTable[object]) -> None:
    with pytest.raises(KeyError, match="three"):
        table["three"]
    assert table.get("three") is None


def lazy_tables() -> list[tuple[str, str]]:
    """Module and name of every lazy table of the package."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("trainwright", *path.relative_to(PACKAGE).with_suffix("").parts))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.AnnAssign(
                    target=ast.Name(id=name), value=ast.Call(func=ast.Name(id="LazyTable"))
                ):
                    found.append((module, name))
    return found


@pytest.mark.torch
@pytest.mark.parametrize(("module", "name"), lazy_tables())
def test_every_entry_of_the_package_can_be_imported(module: str, name: str) -> None:
    table = getattr(import_module(module), name)
    assert all(value is not None for value in table.values())


def test_the_tables_of_families_and_kinds_of_data_are_lazy() -> None:
    assert {"FAMILIES", "MODALITIES", "ENCODINGS", "PLANNERS", "RULES_BY_DATA"} <= {
        name for _, name in lazy_tables()
    }
