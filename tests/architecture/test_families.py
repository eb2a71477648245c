"""What is known of a family of models stands in its own folders: no other code names one, and a new
one is added by its files and an entry in each table."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from source_trees import nodes_of
from trainwright.contract.sections.model import sections
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.model.families import FAMILIES, library_bundles, library_of_bundle
from trainwright.model.family import NetworkFamily
from trainwright.model.library_family import LibraryFamily, TreeFamily

Nodes = Sequence[ast.AST]

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "trainwright"

SECTIONS = "trainwright.contract.sections.model."
FAMILY_PACKAGES = tuple(f"trainwright.model.{kind}." for kind in sections())

TABLES = {"contract/sections/model/__init__.py", "model/families.py"}

TOOLS = {
    "evaluation/baselines/fit_baselines.py": {"Linear", "fit_linear"},
    "evaluation/experiments/probe.py": {"Linear", "fit_linear"},
    "planner/resolve/mirroring.py": {"Linear", "fit_linear"},
    "planner/init/propose_adapter.py": {"base_of_decoder", "decoder_section"},
}
"""What uses a family as a tool, whatever the contract's model is: the linear baseline, the probe of
experiments, whether mirroring keeps the class of an image, and the proposals of a first model."""


def test_only_the_tables_import_families() -> None:
    found = {
        name: imported
        for name, nodes in outside()
        if (imported := set(family_names(nodes))) != set()
    }
    assert found == TOOLS


def test_nobody_asks_for_a_family_by_its_class() -> None:
    asked = [f"{name}:{line}" for name, nodes in outside() for line in class_checks(nodes)]
    assert not asked


def test_nobody_asks_for_a_family_by_its_kind() -> None:
    asked = [f"{name}:{line}" for name, nodes in outside() for line in kind_checks(nodes)]
    assert not asked


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("isinstance(a.model, Gpt)", 1),
        ("isinstance(a, int | Boosting)", 1),
        ("isinstance(a, (int, GptNetwork))", 1),
        ("isinstance(a, nn.Linear)", 0),
        ("match a:\n    case Gpt(width=1) | Boosting():\n        pass", 2),
        ("a.model.kind == 'gpt'", 1),
        ("'gpt' == a.model.kind", 1),
        ("contract.model.kind in ('boosting', 'x')", 1),
        ("match model.kind:\n    case 'gpt':\n        pass", 1),
        ("a.shape.kind == 'linear'", 0),
    ],
)
def test_what_counts_as_asking(source: str, expected: int) -> None:
    imports = (
        f"from {SECTIONS}gpt import Gpt\nfrom {SECTIONS}boosting import Boosting\n"
        "from trainwright.model.gpt.gpt_network import GptNetwork\nfrom torch import nn\n"
    )
    nodes = tuple(ast.walk(ast.parse(imports + source)))
    assert len([*class_checks(nodes), *kind_checks(nodes)]) == expected


def outside() -> Iterator[tuple[str, Nodes]]:
    """The modules of the package that belong to no family, without the tables. Families of boosted
    trees share the package `trees`."""
    own = ("contract/sections/model/", "model/trees/", *(f"model/{kind}/" for kind in sections()))
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in TABLES and not name.startswith(own):
            yield name, nodes_of(path)


def family_names(nodes: Nodes) -> Iterator[str]:
    """Names that a module imports from the files of a family."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and is_of_family(node.module):
            yield from (alias.asname or alias.name for alias in node.names)


def is_of_family(module: str) -> bool:
    is_section = module in {section.__module__ for section in sections().values()}
    return is_section or f"{module}.".startswith(FAMILY_PACKAGES)


def class_checks(nodes: Nodes) -> Iterator[int]:
    names = {*family_names(nodes), *(section.__name__ for section in sections().values())}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            classes = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            # `nn.Linear` is an attribute of a name, and no family.
            yield from [node.lineno] * bool(classes & names)
        elif isinstance(node, ast.MatchClass) and ast.unparse(node.cls) in names:
            yield node.lineno


def kind_checks(nodes: Nodes) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(map(is_model_kind, sides)):
                yield from (node.lineno for one in sides if names_kind(one))
        elif isinstance(node, ast.Match) and is_model_kind(node.subject):
            yield from (case.pattern.lineno for case in node.cases if names_kind(case.pattern))


def is_model_kind(node: ast.expr) -> bool:
    """`model.kind`, or that of what is called a section."""
    if not isinstance(node, ast.Attribute) or node.attr != "kind":
        return False
    return ast.unparse(node.value).rpartition(".")[2] in ("model", "section", "family")


def names_kind(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and one.value in sections() for one in ast.walk(node))


def test_the_table_of_families_is_complete() -> None:
    assert list(FAMILIES) == list(sections())
    for kind, section in sections().items():
        assert issubclass(section, ModelSection)
        assert section.model_fields["kind"].annotation is not str, kind


@pytest.mark.parametrize("kind", list(sections()))
def test_a_family_is_what_its_traits_say(kind: str) -> None:
    section, family = sections()[kind], FAMILIES[kind]
    traits = section.traits
    assert isinstance(family, NetworkFamily) == (traits.trained_by == "loop")
    assert isinstance(family, LibraryFamily) == (traits.trained_by == "library")
    assert isinstance(family, TreeFamily) == bool(traits.rounds)
    files = {path.partition(".")[0] for path in traits.files}
    assert {*files, traits.rounds or "kind"} <= section.model_fields.keys()
    assert traits.has_blocks == (section.block_count is not ModelSection.block_count)
    if traits.trained_by == "library":
        assert library_of_bundle(family.scorer_kind) is family
        assert family.scorer_kind in library_bundles()
