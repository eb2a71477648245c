"""Source files of a module, found and read without running any of them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import final

from trainwright.core.errors import Mistake, Problem
from trainwright.core.hashing import hash_bytes

PATH = "model.target"
_MOST_FILES = 500


@final
@dataclass(frozen=True, slots=True)
class CodeFile:
    """A module's file, with its content as it was read."""

    path: Path
    content: bytes

    @property
    def is_package(self) -> bool:
        """Does it stand for a package?"""
        return self.path.name == "__init__.py"


@final
@dataclass(frozen=True, slots=True)
class CodeFiles:
    """Files by the name of their module: those of the targets, and those that they import from the
    same `folder`, or of the same package where it is installed."""

    folder: Path
    files: Mapping[str, CodeFile]

    def hashes(self) -> dict[str, str]:
        """SHA-256 of each file, by module."""
        return {name: hash_bytes(one.content) for name, one in sorted(self.files.items())}


def find_code(modules: Sequence[str], folders: Sequence[Path]) -> CodeFiles:
    """Files of modules, in the first of the folders that has the first one, else on the path of
    Python. Imports are read from the code: one that a string names at run time is not seen.

    Raises:
        Mistake: there is no such module, or its code cannot be read.
    """
    root, packages = _root_of(modules, folders)
    files: dict[str, CodeFile] = {}
    waiting = [name for module in modules for name in _with_parents(module)]
    while waiting:
        name = waiting.pop()
        if name in files or (packages and name.partition(".")[0] not in packages):
            continue
        path = _file_of(root, name)
        if path is None:
            continue
        files[name] = one = CodeFile(path, _read(path))
        if len(files) > _MOST_FILES:
            raise _unfit("the code has too many files", f"{root}", f"at most {_MOST_FILES:,}")
        waiting += [part for found in _imports(name, one) for part in _with_parents(found)]
    if lost := [module for module in modules if module not in files]:
        raise _missing(lost[0], folders)
    return CodeFiles(root, MappingProxyType(files))


def _root_of(modules: Sequence[str], folders: Sequence[Path]) -> tuple[Path, frozenset[str]]:
    """The folder that holds the first module, and the packages whose files are the code's own; ()
    for all of its files, where the folder is the user's."""
    module, tops = modules[0], frozenset(one.partition(".")[0] for one in modules)
    for folder in folders:
        if _file_of(folder, module) is not None:
            return folder, frozenset()
    found = PathFinder.find_spec(module.partition(".")[0], sys.path)
    if found is None or not found.origin:
        raise _missing(module, folders)
    origin = Path(found.origin)
    root = origin.parent.parent if found.submodule_search_locations else origin.parent
    return root, tops


def _file_of(root: Path, name: str) -> Path | None:
    place = root.joinpath(*name.split("."))
    for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path
    return None


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _imports(module: str, file: CodeFile) -> Iterator[str]:
    """Modules that a file may import: every name that stands in an import, whatever it is."""
    try:
        tree = ast.parse(file.content, str(file.path))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise _unfit("the code cannot be read", f"{file.path}: {error}", "Python") from error
    package = module.split(".") if file.is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unfit("the code cannot be read", str(error), "a readable file") from error


def _missing(module: str, folders: Sequence[Path]) -> Mistake:
    places = ", ".join(str(one) for one in folders)
    return _unfit(
        "there is no such module",
        module,
        f"{module.replace('.', '/')}.py in {places}, or an installed package",
    )


def _unfit(what: str, found: str, expected: str) -> Mistake:
    return Mistake(
        Problem(
            what,
            path=PATH,
            found=found,
            expected=expected,
            fix="mend the code, or name the module as Python imports it",
        )
    )
