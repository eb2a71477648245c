"""What is known of a kind of data stands in its own package: nothing else asks which kind it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from source_trees import nodes_of
from trainwright.contract.sections.data.data import DATA_SECTIONS
from trainwright.data.dispatch import MODALITIES, modality_of
from trainwright.data.types import ENCODINGS

PACKAGE = Path(import_module("trainwright").__file__ or "").parent

FAMILIES = {
    "Feeding",
    "TokenFeeding",
    "TokenEncoding",
    "Raw",
    "Inputs",
    "Encoding",
    "Target",
    "Modality",
    "DataPlanner",
}
"""The interfaces whose implementations are those of a kind of data."""

SHAPES = {"TableShape", "ImageShape", "TokenShape"}

HOMES = (
    "contract/sections/",
    "data/base/inputs.py",
    "data/columns/target.py",
    "data/encoders/",
    "data/images/",
    "data/text/",
    "data/modalities/",
    "planner/kinds/",
)
"""The packages of the kinds, and the modules that hold their interfaces."""

HOMES_OF_SHAPES = ("model/",)
"""A family of models reads the shape that it is for."""

KINDS = {"table", "images", "tokens", "pairs", "text_pairs"}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Of every file of the package, whose name is beside them."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        yield from ((name, node) for node in nodes_of(path))


def classes_of_kinds() -> set[str]:
    """Those that stand directly below an interface; the generic check of its own class is none."""
    return {
        node.name
        for _, node in nodes()
        if isinstance(node, ast.ClassDef)
        and FAMILIES & {ast.unparse(base).partition("[")[0] for base in node.bases}
    }


def names_in(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def asked_classes(node: ast.AST) -> set[str]:
    """The classes that `isinstance`, a `case` or a comparison of types names."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, wanted]):
            return names_in(wanted)
        case ast.MatchClass(cls=wanted):
            return names_in(wanted)
        case ast.Compare(left=left, comparators=others) if any(map(is_type, [left, *others])):
            return set.union(*map(names_in, [left, *others]))
    return set()


def is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "type"


def asked_kinds(node: ast.AST) -> set[object]:
    """The kinds that a comparison or a `match` of `kind`, `form` or `modality` names."""
    match node:
        case ast.Compare(left=left, comparators=others) if any(map(is_kind, [left, *others])):
            return set.union(*map(constants_in, [left, *others]))
        case ast.Match(subject=subject, cases=cases) if is_kind(subject):
            return set.union(*(constants_in(case.pattern) for case in cases))
    return set()


def is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("kind", "form", "modality")


def constants_in(node: ast.AST) -> set[object]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}


@pytest.mark.parametrize(
    "source",
    [
        "data.kind == 'table'",
        "'table' != data.form",
        "data.modality in ('table', 'x')",
        "match data.kind:\n    case 'x' | 'table':\n        pass",
        "isinstance(data, (int, TableData))",
        "type(data) is TableData",
        "TableData is type(data)",
        "match data:\n    case TableData(kind='x'):\n        pass",
    ],
)
def test_what_counts_as_asking_for_a_kind_of_data(source: str) -> None:
    def asked(text: str) -> set[object]:
        nodes = list(ast.walk(ast.parse(text)))
        return set[object]().union(*map(asked_kinds, nodes), *map(asked_classes, nodes))

    assert asked(source) & {"table", "TableData"}
    assert not asked("column.name == 'table'\nmatch column.dtype:\n    case 'table':\n        pass")


def test_no_one_asks_for_the_class_of_a_kind_of_data() -> None:
    kinds = classes_of_kinds()
    assert {"TableData", "RawImages", "TokenInputs", "Pixels", "NextToken"} <= kinds
    found = [
        f"{file}:{getattr(node, 'lineno', 0)} {', '.join(sorted(asked))}"
        for file, node in nodes()
        if (asked_of_node := asked_classes(node))
        and (
            asked := (asked_of_node & kinds if not file.startswith(HOMES) else set())
            | (asked_of_node & SHAPES if not file.startswith(HOMES_OF_SHAPES) else set())
        )
    ]
    assert not found, "\n".join(found)


def test_no_one_asks_for_the_name_of_a_kind_of_data() -> None:
    found = [
        f"{file}:{getattr(node, 'lineno', 0)}"
        for file, node in nodes()
        if not file.startswith(HOMES) and asked_kinds(node) & KINDS
    ]
    assert not found, "\n".join(found)


def test_every_section_has_a_modality_of_its_own_and_the_other_way_round() -> None:
    kinds = {
        get_args(one.model_fields["kind"].annotation)[0]: one for one in DATA_SECTIONS.values()
    }
    assert list(kinds) == list(DATA_SECTIONS)
    assert set(kinds) == set(MODALITIES) <= set(ENCODINGS)
    assert {kind: modality_of(kind).section for kind in MODALITIES} == kinds
    assert {kind: ENCODINGS[kind].modality for kind in kinds} == {k: k for k in kinds}
    others = {kind: one.modality for kind, one in ENCODINGS.items() if kind not in kinds}
    assert others == {
        "rows": "table",
        "texts": "table",
        "colours": "images",
        "terms_of_pairs": "pairs",
        "terms_of_text_pairs": "text_pairs",
    }
