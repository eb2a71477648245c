"""What the docs show works, and every page made from the source says everything."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import trainwright
from command import VERBS
from guide import DOCS, blocks
from trainwright.contract.reading.schema import contract_schema

SCRIPTS = DOCS.parent / "examples" / "script"


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_contract_page_has_every_key_with_its_meaning() -> None:
    page = reference().contract_page()
    schema = contract_schema()
    sections = [schema, *schema["$defs"].values()]
    for name, value in ((n, v) for section in sections for n, v in section["properties"].items()):
        assert f"| `{name}` |" in page
        assert value["description"] in page.replace("\\|", "|")


def test_every_link_inside_the_contract_page_has_its_heading() -> None:
    page = reference().contract_page()
    anchors = re.findall(r"\{ #([\w-]+) \}", page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\]\(#([\w-]+)\)", page)) == set(anchors)


def test_the_command_page_has_every_verb() -> None:
    page = reference().cli_page()
    for verb in VERBS:
        assert f"\n#{len(verb) * '#'} trainwright {' '.join(verb)}\n" in page


def shown_code() -> list[tuple[Path, str]]:
    pages = sorted(DOCS.rglob("*.md"))
    return [(page, block) for page in pages for block in blocks(page, "python")]


def test_every_example_is_shown_in_a_guide_to_the_letter() -> None:
    """Each example is run by a test, and what the guide shows is what was run."""
    shown = {block for _, block in shown_code()}
    hidden = [path.name for path in sorted(SCRIPTS.glob("*.py")) if path.read_text() not in shown]
    assert not hidden


def test_what_the_docs_and_examples_show_uses_public_names_only() -> None:
    public = set(trainwright.__all__)
    examples = sorted((DOCS.parent / "examples").rglob("*.py"))
    shown = [*shown_code(), *((path, path.read_text()) for path in examples)]
    used = set()
    for page, code in shown:
        for node in ast.walk(ast.parse(code)):
            match node:
                case ast.ImportFrom(module=str(module)) if module.startswith("trainwright"):
                    assert module == "trainwright", f"{page.name}: {module}"
                    used |= {alias.name for alias in node.names}
                case ast.Import():
                    names = {one.name for one in node.names}
                    private = {one for one in names if one.startswith("trainwright.")}
                    assert not private, f"{page.name}: {private}"
                case ast.Attribute(value=ast.Name(id="tw"), attr=name):
                    assert name in public, f"{page.name}: tw.{name}"
                    used.add(name)
    assert len(used) > 50
    assert used <= public


@pytest.mark.torch
def test_the_page_of_public_names_says_what_each_is() -> None:
    pytest.importorskip("torch")
    page = reference().python_page()
    for name in set(trainwright.__all__) - {"__version__"}:
        (said,) = re.findall(rf"^\| `tw\.{name}` \| (.*) \|$", page, re.MULTILINE)
        assert len(said) > 5, name
        assert "built-in" not in said.lower()
