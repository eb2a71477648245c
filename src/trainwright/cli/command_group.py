"""The group of all verbs. Those on finished runs and on data are imported when they are named."""

from __future__ import annotations

from collections import ChainMap
from typing import Any, cast, final

import typer
from typer.core import TyperGroup

from trainwright.core.lazy_imports import LazyTable


def _build_command(found: Any) -> Any:
    """The command of a verb's function, or of an app of several verbs."""
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command()(found)
    return typer.main.get_command(alone)


_HERE = "trainwright.cli"

_LATER: LazyTable[Any] = LazyTable(
    {
        "explain": f"{_HERE}.explain:explain",
        "index": f"{_HERE}.embeddings:index",
        "search": f"{_HERE}.embeddings:search",
        "mine": f"{_HERE}.embeddings:mine",
        "generate": f"{_HERE}.texts.generate:generate",
        "card": f"{_HERE}.runs.runs_app:card",
        "runs": f"{_HERE}.runs.runs_app:runs_app",
        "weights": f"{_HERE}.weights.weights_app:weights_app",
        "data": f"{_HERE}.data.data_app:data_app",
    },
    build=_build_command,
)


@final
class CommandGroup(TyperGroup):
    """A group that has the verbs of its app, and those of the table behind them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The table comes first, as iteration begins with the last; nothing writes to either.
        self.commands = ChainMap(cast("dict[str, Any]", _LATER), dict(self.commands))
