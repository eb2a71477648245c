"""Broken inputs of language models: one clear error each, exit code 2, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
pytest.importorskip("peft")

from safetensors.torch import load_file, save_file  # noqa: E402

from command import command, inside, tree  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402

pytestmark = pytest.mark.torch

CONTRACT = """\
name: talk
task: generation
data:
  kind: chats
  path: chats.jsonl
  vocabulary: tokenizer
  tokenizer: base/tokenizer.json
  template: plain
  validation: 0.2
  test: 0.2
model: {kind: gpt, architecture: base, context: 64, adapter: {kind: lora, rank: 2}}
training: {batch_size: 4, stop: {max_steps: 2}}
metric: {name: perplexity, target: dummy}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, chats, and a contract that trains an adapter."""
    folder = tmp_path_factory.mktemp("whole")
    write_decoder_project(folder)
    (folder / "contract.yaml").write_text(CONTRACT)
    write_chats(folder)
    return folder


def write_chats(folder: Path, *others: list[dict[str, str]]) -> None:
    chats = [
        [{"role": "user", "content": f"tide {n}"}, {"role": "assistant", "content": "the tide"}]
        for n in range(40)
    ]
    lines = [json.dumps({"messages": one}) + "\n" for one in [*chats, *others]]
    (folder / "chats.jsonl").write_text("".join(lines))


def lose_a_token(folder: Path) -> None:
    config = folder / "base" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "vocab_size": 270}))


def take_another_vocabulary(folder: Path) -> None:
    file = folder / "base" / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["model"]["merges"].pop()
    tokenizer["model"]["vocab"].popitem()
    (folder / "other.json").write_text(json.dumps(tokenizer))
    contract = folder / "contract.yaml"
    contract.write_text(contract.read_text().replace("base/tokenizer.json", "other.json"))


def add_code(folder: Path) -> None:
    (folder / "base" / "chat_template.jinja").write_text("{{ messages.__class__.__name__ }}")
    contract = folder / "contract.yaml"
    contract.write_text(contract.read_text().replace("template: plain", "template: tokenizer"))


def ask_alone(folder: Path) -> None:
    write_chats(folder, [{"role": "user", "content": "is there no answer?"}])


def answer_long(folder: Path) -> None:
    asked = {"role": "user", "content": "tell"}
    write_chats(folder, [asked, {"role": "assistant", "content": "in rain. " * 80}])


def keep_pickle(folder: Path) -> None:
    (folder / "base" / "model.safetensors").rename(folder / "base" / "pytorch_model.bin")


def lose_a_shard(folder: Path) -> None:
    base = folder / "base"
    (base / "model.safetensors").rename(base / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "lost.safetensors"}}
    (base / "model.safetensors.index.json").write_text(json.dumps(index))


BROKEN: list[tuple[Callable[[Path], object], tuple[str, ...], str, str]] = [
    (lose_a_token, (), "model.vocabulary", "tokens that the model does not know"),
    (take_another_vocabulary, (), "data.tokenizer", "need its own tokenizer"),
    (add_code, (), "data.template", "is a program"),
    (add_code, ("--allow-code",), "data.template", ""),
    (ask_alone, (), "chats.jsonl:41", "no answer"),
    (answer_long, (), "model.context", "longer than the window"),
    (keep_pickle, (), "model.architecture", "are pickles"),
    (lose_a_shard, (), "model.architecture", "missing: lost.safetensors"),
]


@pytest.mark.parametrize(("damage", "words", "place", "said"), BROKEN)
def test_a_broken_input_is_one_error_and_nothing_is_written(
    whole: Path,
    tmp_path: Path,
    damage: Callable[[Path], object],
    words: tuple[str, ...],
    place: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import shutil

    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    folder = tmp_path / "project"
    shutil.copytree(whole, folder)
    damage(folder)
    before = tree(folder)
    with inside(folder):
        ran = command("train", "contract.yaml", *words)
    assert ran.code == 2, ran.err
    assert said in ran.err
    assert place in ran.err
    assert ran.err.count("fix:") == 1, ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert tree(folder) == before


def test_a_base_whose_hash_has_changed_is_refused_by_the_next_command(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    folder = tmp_path / "project"
    shutil.copytree(whole, folder)
    with inside(folder):
        assert command("train", "contract.yaml", "--run", "one").code in (0, 3)
    file = folder / "base" / "model.safetensors"
    save_file({k: v + 1e-3 for k, v in load_file(file).items()}, file, metadata={"format": "pt"})
    before = tree(folder)
    with inside(folder):
        for words in (
            ("generate", "one", "tide"),
            ("weights", "merge", "one", "-o", "merged"),
            ("weights", "export", "one", "--to", "onnx", "-o", "graph"),
        ):
            ran = command(*words)
            assert ran.code == 2, words
            assert "the adapter belongs to another base" in ran.err
            assert ran.err.count("fix:") == 1
    assert tree(folder) == before
