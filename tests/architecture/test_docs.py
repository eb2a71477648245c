"""What the docs show works, and every page made from the source says everything."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from trainwright.contract.schema import contract_schema

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
    for verb in ("init", "check", "train", "predict", "evaluate", "runs", "schema"):
        assert f"## trainwright {verb}\n" in page


def test_the_script_of_the_guide_is_the_example() -> None:
    text = (DOCS / "guide" / "script.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert script == (DOCS.parent / "examples" / "script" / "train.py").read_text(encoding="utf-8")
