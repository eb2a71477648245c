"""What the guide's pages show."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
GUIDE = DOCS / "guide"


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in this language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
