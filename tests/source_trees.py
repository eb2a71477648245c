"""The files of the source, each parsed and walked through once for all the tests that look at
them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SOURCES = tuple(sorted((Path(__file__).resolve().parents[1] / "src").rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax tree."""
    return tuple(ast.walk(tree_of(path)))
