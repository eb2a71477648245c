"""A name means one thing: no module, class or public function is called like another one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from source_trees import tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "trainwright"

VERBS = frozenset({"evaluate", "fit", "judge", "main", "prepare", "train"})
"""What a facade calls like the stage behind it."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        yield name, tree_of(path)


def homes(names_of: Callable[[str, ast.Module], list[str]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for file, tree in trees():
        for name in names_of(file, tree):
            found[name].append(file)
    return {name: files for name, files in found.items() if len(files) > 1}


def classes(_file: str, tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) if public(node.name)]


def functions(file: str, tree: ast.Module) -> list[str]:
    """Those of the command line are its verbs, named by what a person types."""
    if file.startswith("cli/"):
        return []
    defined = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return [name for name in defined if public(name) and name not in VERBS]


def public(name: str) -> bool:
    return not name.startswith("_")


def test_no_two_modules_share_a_name() -> None:
    assert not homes(lambda file, _: [Path(file).stem] if "__" not in file else [])


def test_no_two_classes_share_a_name() -> None:
    assert not homes(classes)


def test_no_two_functions_share_a_name() -> None:
    assert not homes(functions)
