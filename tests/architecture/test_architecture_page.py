"""The page of the architecture names files and packages that are there, and all of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "trainwright"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def packages_of(section: str) -> set[str]:
    _, _, text = PAGE.partition(f"\n## {section}\n")
    text = text.partition("\n## ")[0]
    first_cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
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
