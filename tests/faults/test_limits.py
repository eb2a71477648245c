"""Sizes beyond any machine and paths that no system takes are refused with the right exit code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import PROCESS, command, project_in, tree
from deadlines import within
from trainwright.contract.rules.all_rules import MOST
from trainwright.core import limits


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


@pytest.mark.row("F-63")
@pytest.mark.parametrize("verb", ["check", "train"])
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.hidden=[60000,60000]", "does not fit into the memory"),
        ("model.hidden=[100000000]", "larger than any machine"),
        (f"model.hidden=[{', '.join(['4'] * 1001)}]", "1,001 layers"),
        ("training.num_epochs=1000000000000000000", "larger than any machine"),
        ("training.batch_size=1000000000000000000", "larger than any machine"),
    ],
    ids=["memory", "width", "layers", "epochs", "batch"],
)
def test_what_no_machine_can_do_is_refused(
    project: Path, verb: str, setting: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("trainwright.planner.plan_facts.memory_bytes", lambda: 16 * 2**30)
    before = tree(project)
    ran = command(verb, "small.yaml", "--set", "model.kind=mlp", "--set", setting)
    assert ran.code == 2
    assert says in ran.err
    assert tree(project) == before


def test_every_limit_stands_in_the_docs() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "guide" / "limits.md"
    text = page.read_text()
    shown = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+?) \|", text, re.MULTILINE))
    known = {
        name: f"{value:,g}" if isinstance(value, float) else f"{value:,}"
        for name, value in vars(limits).items()
        if name.isupper()
    }
    assert shown == known
    assert all(f"`{path}`" in text for path in MOST)


@pytest.mark.row("F-64")
@pytest.mark.parametrize("words", [("runs", "show"), ("check",), ("resume",), ("report",)])
def test_a_name_that_is_too_long_is_a_mistake(project: Path, words: tuple[str, ...]) -> None:
    ran = command(*words, "a" * 300)
    assert ran.code == 2
    assert len(ran.err) < 500


@pytest.mark.row("F-64")
def test_a_full_stdout_ends_with_the_code_of_storage(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*PROCESS, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=within(60)
        )
    assert ended.returncode == 13
    assert ended.stderr == "No space left on device\n"
