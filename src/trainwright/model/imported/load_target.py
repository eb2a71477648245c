"""Functions of the user's own code: found, read without running, then run from the verified
text."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import Any, final

from trainwright.contract.sections.model.imported import Imported, SourceCode
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import hash_bytes, hash_value
from trainwright.core.process import code_folders, is_code_allowed, look_for_code_in

PATH = "model.target"
_MOST_FILES = 500

_LOADED: dict[str, dict[str, ModuleType]] = {}
"""Modules of this process by the hash of all their files."""


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


def check_permission(target: str) -> None:
    """Check that code may be run.

    Raises:
        Mistake: the command was not given `--allow-code`.
    """
    if not is_code_allowed():
        raise Mistake(
            Problem(
                "the model is code of its own, which is run only where that is allowed",
                path=PATH,
                found=target,
                expected="the permission of the command, which no contract can give",
                fix="look at the code, then add --allow-code (from Python allow_code=True)",
            )
        )


def read_code(targets: Sequence[str], folder: Path) -> CodeFiles:
    """Files of the targets' modules, in a folder, in those of the permission, or on the path of
    Python.

    Raises:
        Mistake: without the permission, or there are none.
    """
    check_permission(targets[0])
    modules = [one.partition(":")[0] for one in targets]
    return find_code(modules, (folder, *(one for one in code_folders() if one != folder)))


def hash_code(section: Imported, folder: Path) -> SourceCode:
    """Hashes of the code that a section names, in the contract's folder or on the path of Python.

    Raises:
        Mistake: without the permission, or there is none; or it is not that of the section.
    """
    source = SourceCode(files=read_code(section.targets, folder).hashes(), folder=str(folder))
    look_for_code_in(folder)
    if section.source not in ("auto", source):
        raise failed("the code has changed", str(folder), "the same")
    return source


def load_function(target: str, targets: Sequence[str], source: SourceCode) -> Callable[..., Any]:
    """The function that a target names, among the files whose hashes the plan or bundle holds.

    Raises:
        Mistake: without the permission, the files have changed, or the code fails.
    """
    check_permission(target)
    folder = Path(source.folder) if source.folder else Path.cwd()
    if not source.folder and code_folders():
        folder = code_folders()[0]
    sources = read_code(targets, folder)
    if (found := sources.hashes()) != dict(source.files):
        raise _changed(source, found)
    key = hash_value({"files": found, "folder": str(sources.folder)})
    module, _, name = target.partition(":")
    if module not in _LOADED.setdefault(key, {}):
        _LOADED[key] |= _imported(targets, sources)
    function = getattr(_LOADED[key][module], name, None)
    if not callable(function):
        raise failed(f"the module has no function {name}", target, "a function of the module")
    return function  # type: ignore[no-any-return]


def failed(what: str, found: str, expected: str) -> Mistake:
    """Mistake of code that cannot be used."""
    return Mistake(
        Problem(what, path=PATH, found=found, expected=expected, fix="mend the code, or the target")
    )


def describe_failure(error: BaseException) -> str:
    """An error of the code in one line, and where in it."""
    text = (str(error).splitlines() or [""])[0]
    trace = error.__traceback__
    place = ""
    while trace is not None:
        frame = trace.tb_frame
        if isinstance(frame.f_globals.get("__loader__"), _Source):
            place = f" ({Path(frame.f_code.co_filename).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {text:.200}{place}"


def _changed(source: SourceCode, found: dict[str, str]) -> Mistake:
    names = sorted({*source.files, *found})
    other = [name for name in names if source.files.get(name) != found.get(name)]
    return Mistake(
        Problem(
            "the code of the model has changed",
            path="model.source",
            found=", ".join(f"{name} {found.get(name, 'is gone')[:16]}" for name in other),
            expected=", ".join(f"{source.files.get(name, 'no file')[:16]}" for name in other),
            fix="put back the files that the model was trained with, or train again",
        )
    )


@final
class _Source(Loader):
    """Runs a file from its content as it was hashed; no compiled copy is read or written."""

    def __init__(self, file: CodeFile) -> None:
        self._file = file

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code in a new module."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102

    def get_code(self, _name: str) -> CodeType:
        """The code, compiled."""
        return compile(self._file.content, str(self._file.path), "exec", dont_inherit=True)

    def get_source(self, _name: str) -> str:
        """Its text, for tracebacks and the compiler."""
        return self._file.content.decode("utf-8", errors="replace")


@final
class _Finder(MetaPathFinder):
    """Finds the modules of the user's code before all others of these names."""

    def __init__(self, sources: CodeFiles) -> None:
        self._files = sources.files

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module of this name, if it is one of them."""
        if fullname not in self._files:
            return None
        file = self._files[fullname]
        spec = spec_from_loader(
            fullname, _Source(file), origin=str(file.path), is_package=file.is_package
        )
        if spec is not None:
            spec.has_location = True
            if file.is_package:
                spec.submodule_search_locations = [str(file.path.parent)]
        return spec


def _imported(targets: Sequence[str], sources: CodeFiles) -> dict[str, ModuleType]:
    """The modules of the targets, imported anew."""
    from importlib import import_module

    names = [one.partition(":")[0] for one in targets]
    with _finding(sources):
        try:
            return {name: import_module(name) for name in names}
        # Code of the user's may raise anything, and end the interpreter.
        except (Exception, SystemExit) as error:
            raise failed(
                "the code of the model cannot be imported",
                describe_failure(error),
                "a module that imports",
            ) from error


@contextmanager
def _finding(sources: CodeFiles) -> Iterator[None]:
    """Find the modules of the code by name; others of the same names are there again afterwards."""
    finder = _Finder(sources)
    hidden = {name: sys.modules.pop(name) for name in sources.files if name in sys.modules}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in hidden.items():
            if not isinstance(module.__loader__, _Source):
                sys.modules[name] = module
