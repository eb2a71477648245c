"""The text under each field of a section, read from its source: it becomes the documentation."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from trainwright.contract.sections.section import Section


def field_texts(section: type[Section]) -> dict[str, str]:
    """The text of each field that has one, also of fields that it has from a parent.

    Pydantic can do it (`use_attribute_docstrings`), but does it when a class is made: a quarter of
    the time that it takes to import the contract, which only the schema should wait for.
    """
    found: dict[str, str] = {}
    for parent in reversed(section.__mro__):
        if issubclass(parent, Section):
            for name in inspect.get_annotations(parent):
                found.pop(name, None)
            found |= _texts_of_module(parent.__module__).get(parent.__qualname__, {})
    # Traits (ClassVar) are documented in the same way.
    return {name: text for name, text in found.items() if name in section.model_fields}


@cache
def _texts_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """For each class of a module, the texts of its own fields."""
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {one.name: _texts_of_class(one) for one in tree.body if isinstance(one, ast.ClassDef)}


def _texts_of_class(defined: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(defined.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
