"""The tree in the README, the folders, and the layer contract say the same."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"^  (?P<name>\w+)/ +(?P<what>\S.*)$")


def folders() -> set[str]:
    package = ROOT / "src" / "trainwright"
    return {path.parent.name for path in package.glob("*/*.py")}


def readme_lines() -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [block for block in text.split("```") if "\nsrc/trainwright/\n" in block]
    assert len(blocks) == 1, "the README holds one tree that starts with src/trainwright/"
    _, _, tree = blocks[0].partition("\nsrc/trainwright/\n")
    matches = [LINE.match(line) for line in tree.splitlines() if line.strip()]
    assert all(matches), "each line of the tree is `  folder/   what it is`"
    return [(match["name"], match["what"]) for match in matches if match is not None]


def layers() -> list[str]:
    """From the first stage to the last, as DESIGN and the README list them."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    listed = config["importlinter:contract:stages"]["layers"].split()
    return [name.strip("()") for name in reversed(listed)]


def test_every_folder_has_one_line_in_the_readme_and_the_other_way_round() -> None:
    names = [name for name, _ in readme_lines()]
    assert len(names) == len(set(names))
    assert set(names) == folders()


def test_the_readme_lists_the_stages_in_the_order_of_the_layers() -> None:
    names = [name for name, _ in readme_lines()]
    assert names == [name for name in layers() if name in names]


def test_every_stage_says_what_it_is_in_its_own_docstring_and_nothing_else() -> None:
    for name in sorted(folders()):
        text = (ROOT / "src" / "trainwright" / name / "__init__.py").read_text(encoding="utf-8")
        assert re.fullmatch(r'"""[^"]+"""\n', text), f"{name}/__init__.py holds only a docstring"
