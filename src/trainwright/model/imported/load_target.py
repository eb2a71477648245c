"""Functions of the user's own code, run from the very bytes whose hash is known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, final

from trainwright.contract.sections.model.imported import Imported, SourceCode
from trainwright.core.code_permission import code_folders, is_code_allowed, look_for_code_in
from trainwright.core.errors import Mistake, Problem
from trainwright.core.hashing import hash_value
from trainwright.model.imported.source_files import PATH, CodeFile, CodeFiles, find_code

_LOADED: dict[str, dict[str, ModuleType]] = {}
"""Modules of this process by the hash of all their files."""


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
