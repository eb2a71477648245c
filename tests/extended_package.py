"""The package as the page on extending says: its files beside a copy of it, and its lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import trainwright
from guide import GUIDE

PACKAGE = Path(trainwright.__file__).parent
PAGE = (GUIDE / "extending.md").read_text(encoding="utf-8")
_TITLED = re.compile(r'```(\w+) title="([^"]+)"\n(.*?)```', re.DOTALL)


def write_extended(root: Path) -> None:
    """Copy the package into `root`, and make the changes of the page."""
    shutil.copytree(PACKAGE, root / "trainwright", ignore=shutil.ignore_patterns("__pycache__"))
    for language, title, text in _TITLED.findall(PAGE):
        file = root / title
        if language == "diff":
            _add_lines(file, text)
        else:
            assert not file.exists(), f"{title} is written twice"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")


def _add_lines(file: Path, change: str) -> None:
    """Add the lines with `+` behind those without, which stand once in the file."""
    lines = change.splitlines(keepends=True)
    after = "".join(line[1:] for line in lines if line.startswith(" "))
    added = "".join(line[1:] for line in lines if line.startswith("+"))
    text = file.read_text(encoding="utf-8")
    assert text.count(after) == 1, f"{file.name}: {after}"
    file.write_text(text.replace(after, after + added), encoding="utf-8")
