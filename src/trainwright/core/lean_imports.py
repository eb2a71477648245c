"""Imports of the command without what the command never uses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, cast, final

from trainwright.core.process import is_code_allowed

_LIBRARIES = ("lightgbm", "xgboost")
_OF_WRAPPERS = ("dask", "graphviz", "matplotlib", "pandas", "pyarrow", "sklearn")
"""Optional packages of these libraries. Only their wrappers, plots and frames need them, and
scikit-learn takes four fifths of the time of their import."""


@final
class LeanFinder(MetaPathFinder):
    """Finds LightGBM and XGBoost, which then import no optional package that is not imported yet.

    The rest of the process must not need their wrappers: nothing of ours does, code of the user's
    own may.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of one of these libraries; of no other module."""
        if fullname not in _LIBRARIES or is_code_allowed():
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _LeanLoader(spec.loader.name, spec.loader.path)
        return spec


@final
class _LeanLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        """Run the module while the optional packages cannot be imported."""
        modules = cast(dict[str, Any], sys.modules)
        hidden = [name for name in _OF_WRAPPERS if name not in modules]
        modules.update(dict.fromkeys(hidden))
        try:
            super().exec_module(module)
        finally:
            for name in hidden:
                del modules[name]


def import_lean() -> None:
    """Use `LeanFinder` in this process from now on."""
    if not any(isinstance(finder, LeanFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, LeanFinder())
