"""The page of the architecture names files and packages that are there, and all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

from source_trees import SOURCES, nodes_of
from trainwright.contract.sections.model.traits import DataKind

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "trainwright"
KINDS_OF_DATA = {*get_args(DataKind), "series", "chats", "preferences"}
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def text_of(section: str) -> str:
    _, _, text = PAGE.partition(f"\n## {section}\n")
    return text.partition("\n## ")[0]


def packages_of(section: str) -> set[str]:
    lines = text_of(section).splitlines()
    first_cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    return {name for cell in first_cells for name in re.findall(r"`(\w+)/`", cell)}


def folders_of(stage: str) -> set[str]:
    return {path.parent.name for path in (PACKAGE / stage).glob("*/__init__.py")}


def test_every_file_that_the_page_names_is_there() -> None:
    files = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(files) > 10
    missing = [
        name for name in files if not any(p.is_file() for p in (PACKAGE / name, ROOT / name))
    ]
    assert not missing


def test_every_package_of_data_and_run_has_a_line() -> None:
    assert packages_of("Data") == folders_of("data")
    assert packages_of("Run") == folders_of("run")


def is_by_kind_of_data(node: ast.AST) -> bool:
    """A mapping whose keys are kinds of data alone."""
    if not isinstance(node, ast.Dict) or not node.keys:
        return False
    return all(isinstance(key, ast.Constant) and key.value in KINDS_OF_DATA for key in node.keys)


def test_every_table_by_kind_of_data_has_a_line() -> None:
    modules = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        if any(map(is_by_kind_of_data, nodes_of(path)))
    }
    assert {"data/dispatch.py", "planner/kinds/data_planner.py"} <= modules
    named = set(re.findall(r"`([\w/]+\.py)`", text_of("A new kind of data")))
    assert modules - named == set()
