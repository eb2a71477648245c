"""Exported decoders in transformers: logits, configuration, chats, and where a text ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from command import command, inside  # noqa: E402
from made_decoders import LLAMA, write_decoder, write_decoder_project  # noqa: E402
from trainwright.core.files import read_json  # noqa: E402
from trainwright.core.process import code_allowed  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402

pytestmark = pytest.mark.torch

_OWN = "{kind: gpt, norm: rms, feed_forward: swiglu, width: 48, layers: 2, context: 64}"
_OF_BASE = "vocabulary: tokenizer, tokenizer: base/tokenizer.json"
_GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 300}
_NEOX = {"num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 300}
_PROGRAM = (
    "{% for one in messages %}[{{ one.role }}]{{ one.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
CASES: dict[str, tuple[str, str, tuple[str, dict[str, Any]] | None]] = {
    "pieces-chatml": ("vocabulary: bpe, vocabulary_size: 300", _OWN, None),
    "pieces-llama3": ("vocabulary: bpe, vocabulary_size: 300, template: llama3", _OWN, None),
    "bytes-plain": ("vocabulary: bytes, template: plain", _OWN, None),
    "characters-plain": ("vocabulary: characters, template: plain", _OWN, None),
    "llama": (
        _OF_BASE,
        "{kind: gpt, architecture: base, context: 48}",
        ("llama", {**LLAMA, "vocab_size": 300, "max_position_embeddings": 512}),
    ),
    "gpt2": (_OF_BASE, "{kind: gpt, architecture: base, context: 48}", ("gpt2", _GPT2)),
    "adapter": (
        _OF_BASE,
        "{kind: gpt, architecture: base, context: 48, adapter: {kind: lora, rank: 8}}",
        ("qwen2", {**LLAMA, "vocab_size": 300}),
    ),
    "program": (
        f"{_OF_BASE}, template: tokenizer",
        "{kind: causal_lm, architecture: base, context: 48}",
        ("gpt_neox", {**_NEOX, "intermediate_size": 64}),
    ),
}
_MESSAGES = [{"role": "system", "content": "it is"}, {"role": "user", "content": "Say  it\n"}]
_TOOLS = [{"type": "function", "function": {"name": "tell"}}]


def write_chats(
    folder: Path, data: str, model: str, base: tuple[str, dict[str, Any]] | None
) -> None:
    rows = [[("user", f"Say it {row} times"), ("assistant", "so it is")] for row in range(24)]
    lines = [
        json.dumps({"messages": [dict(zip(("role", "content"), one, strict=True)) for one in row]})
        for row in rows
    ]
    (folder / "chats.jsonl").write_text("\n".join(lines))
    if base is not None:
        write_decoder_project(folder)
        own = json.loads((folder / "base/tokenizer.json").read_text())
        size = len(own["model"]["vocab"])
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        own["added_tokens"] = [
            {"id": size + number, "content": mark, "special": True, **flags}
            for number, mark in enumerate(("<|im_start|>", "<|im_end|>", "<begin>"))
        ]
        ids = {"bos_token_id": size + 2, "eos_token_id": size + 1, "pad_token_id": size + 1}
        write_decoder(base[0], {**base[1], **ids}, folder / "base")
        (folder / "base/tokenizer.json").write_text(json.dumps(own))
        about = {"bos_token": "<begin>", "eos_token": "<|im_end|>", "chat_template": _PROGRAM}
        (folder / "base/tokenizer_config.json").write_text(json.dumps(about))
    (folder / "chats.yaml").write_text(
        f"task: generation\ndata: {{kind: chats, path: chats.jsonl, windows: padded, {data}}}\n"
        f"model: {model}\nmetric: {{name: perplexity}}\ntraining: {{batch_size: 8, num_steps: 40, "
        "early_stopping: off, optimizer: {learning_rate: 0.01}}\n"
    )


@pytest.mark.parametrize(
    "name",
    [one if one == "llama" else pytest.param(one, marks=pytest.mark.extended) for one in CASES],
)
def test_an_export_is_the_model_and_ends_where_it_ends(name: str, tmp_path: Path) -> None:
    data, model, base = CASES[name]
    write_chats(tmp_path, data, model, base)
    with inside(tmp_path):
        ran = command("train", "chats.yaml", "--run", "one", "--allow-code")
        assert ran.code in (0, 3), ran.err
        words = ("weights", "export", "one", "--to", "huggingface", "-o", "out", "--allow-code")
        exported = command(*words)
        assert exported.code == 0, exported.err
        answer = command(
            *("generate", "one", "--chat", "Say it 3 times", "--tokens", "40"),
            *("--temperature", "0", "--allow-code"),
        )
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    predictor = read_bundle(tmp_path / "runs/one/bundle")
    network, encoding = predictor.scorer.network, predictor.features  # type: ignore[attr-defined]
    tokens = torch.randint(0, encoding.tokens, (2, 32), generator=torch.Generator().manual_seed(0))
    assert (opened(tokens).logits - network.eval()(tokens)).abs().max() < 1e-4

    with code_allowed(True):
        for messages, tools in ((_MESSAGES, None), (_MESSAGES[1:], None), (_MESSAGES[1:], _TOOLS)):
            pieces = encoding.ask(json.dumps(messages), json.dumps(tools) if tools else "")
            asked = tokenizer.apply_chat_template(
                messages, tools=tools, add_generation_prompt=True, return_dict=False
            )
            trained = [one for each in pieces for one in encoding.vocabulary.encode(each).tolist()]
            assert (asked == trained) is ("tokens of the whole text" not in exported.err)
            assert tools or tokenizer.decode(asked) == "".join(pieces)
        end = encoding.turn_end
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Say it 3 times"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=False,
    )
    written = opened.generate(prompt, max_new_tokens=40, do_sample=False)[0, prompt.shape[1] :]
    assert tokenizer.decode(written) == "so it is" + end
    assert answer.out == "so it is\n"
    if base is not None:
        wanted = transformers.AutoConfig.from_pretrained(tmp_path / "base")
        for field in ("max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id"):
            assert getattr(opened.config, field) == getattr(wanted, field), field
            assert field.startswith("max") or (
                getattr(opened.generation_config, field) == getattr(wanted, field)
            )


def test_marks_of_several_tokens_are_named(tmp_path: Path) -> None:
    write_chats(tmp_path, "vocabulary: characters", _OWN, None)
    with inside(tmp_path):
        ran = command("train", "chats.yaml", "--run", "one", "--set", "model.context=99")
        assert ran.code in (0, 3), ran.err
        ran = command("weights", "export", "one", "--to", "huggingface", "-o", "out")
    assert ran.code == 0
    assert "stop_strings=['<|im_end|>']" in ran.err
    assert read_json(tmp_path / "out/generation_config.json")["eos_token_id"] is None


def test_positions_without_the_files_of_the_base_are_named(tmp_path: Path) -> None:
    write_chats(tmp_path, *CASES["gpt2"])
    with inside(tmp_path):
        assert command("train", "chats.yaml", "--run", "one").code in (0, 3)
        (tmp_path / "base").rename(tmp_path / "elsewhere")
        ran = command("weights", "export", "one", "--to", "huggingface", "-o", "out")
    assert ran.code == 0
    assert "the positions end at 48" in ran.err
    assert read_json(tmp_path / "out/config.json")["n_positions"] == 48


@pytest.mark.extended
def test_documents_end_where_they_end(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\n" + "so it is\n" * 400)
    (tmp_path / "tale.yaml").write_text(
        "task: generation\ndata: {kind: tokens, path: texts.csv, text: text, vocabulary: bpe, "
        f"windows: padded}}\nmodel: {_OWN}\nmetric: {{name: perplexity}}\ntraining: {{batch_size: "
        "8, num_steps: 40, early_stopping: off, optimizer: {learning_rate: 0.01}}\n"
    )
    with inside(tmp_path):
        ran = command("train", "tale.yaml", "--run", "one")
        assert ran.code in (0, 3, 4), ran.err
        assert command("weights", "export", "one", "--to", "huggingface", "-o", "out").code == 0
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    asked = tokenizer("so", return_tensors="pt").input_ids
    written = opened.generate(asked, max_new_tokens=40, do_sample=False)
    assert tokenizer.decode(written[0]) == "so it is\x1e"
