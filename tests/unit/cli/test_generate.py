"""`generate` through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from command import command, inside, write_project

pytestmark = pytest.mark.torch

CONTRACT = """\
name: tale
task: generation
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16}
training: {batch_size: 8, stop: {max_steps: 4}}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a decoder, `tale`, and trees, `trees`."""
    folder = tmp_path_factory.mktemp("told")
    write_project(folder)
    (folder / "tale.yaml").write_text(CONTRACT)
    (folder / "text.txt").write_text("the tide was low and the boats came home. " * 60)
    with inside(folder):
        for contract, name in (("tale.yaml", "tale"), ("small.yaml", "trees")):
            assert command("train", contract, "--run", name).code in (0, 3)
    return folder


def test_a_prompt_is_continued_and_again_the_same(told: Path) -> None:
    with inside(told):
        first = command("generate", "tale", "the tide", "--tokens", "30")
        again = command("generate", "tale", "the tide", "--tokens", "30")
        other = command("generate", "tale", "the tide", "--tokens", "30", "--seed", "1")
        as_json = command("generate", "tale", "the tide", "--tokens", "30", "--json")
    assert first.code == 0, first.err
    assert len(first.out) == 31
    assert first.out == again.out != other.out
    found = json.loads(as_json.out)
    assert found["text"] == first.out.removesuffix("\n")
    assert found["tokens"] == 30
    assert found["ended_by"] == "limit"


@pytest.mark.extended
def test_a_file_of_prompts(told: Path) -> None:
    (told / "prompts.txt").write_text("the tide\nthe boats\n")
    lines = [json.dumps({"prompt": one, "id": 1}) for one in ("the tide", "the boats")]
    (told / "prompts.jsonl").write_text("\n".join(lines))
    with inside(told):
        one = command("generate", "tale", "--from", "prompts.txt", "-o", "a.jsonl")
        two = command("generate", "tale", "--from", "prompts.jsonl")
        single = command("generate", "tale", "the tide", "--json")
    assert one.code == two.code == 0, one.err
    assert (told / "a.jsonl").read_text() == two.out
    rows = [json.loads(line) for line in two.out.splitlines()]
    assert [row["prompt"] for row in rows] == ["the tide", "the boats"]
    assert rows[0]["text"] == json.loads(single.out)["text"]


def test_what_the_model_did_not_see_is_told(told: Path) -> None:
    with inside(told):
        ran = command("generate", "tale", "Tide! " + "the tide " * 3, "--tokens", "2")
    assert ran.code == 0
    assert "characters of the prompt are in no training text" in ran.err
    assert "tokens of the prompt are not read" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tale",), "one prompt is needed"),
        (("tale", "a", "--from", "prompts.txt"), "one prompt is needed"),
        (("tale", "a", "-o", "b.jsonl"), "written as .jsonl"),
        (("tale", "--from", "none.txt"), "the prompts cannot be read"),
        (("tale", "--from", "bad.jsonl"), "a line has no prompt"),
        (("trees", "a"), "no model that writes texts"),
        (("none", "a"), "there is no run here"),
    ],
)
def test_mistakes(told: Path, words: tuple[str, ...], said: str) -> None:
    (told / "bad.jsonl").write_text('{"prompt": "a"}\n{"text": "b"}\n')
    before = sorted(told.iterdir())
    with inside(told):
        ran = command("generate", *words)
    assert ran.code == 2
    assert said in ran.err
    assert "fix:" in ran.err
    assert sorted(told.iterdir()) == before
