"""What the docs show works, and every page made from the source says everything."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from command import VERBS
from guide import DOCS, blocks
from trainwright.contract.schema import contract_schema

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


@pytest.mark.torch
def test_every_import_that_the_docs_show_gives_its_names() -> None:
    pytest.importorskip("torch")
    imports = [
        (page, node)
        for page, block in shown_code()
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("trainwright")
    ]
    assert imports
    for page, node in imports:
        module = importlib.import_module(str(node.module))
        for alias in node.names:
            assert hasattr(module, alias.name), f"{page.name}: {node.module}.{alias.name}"
