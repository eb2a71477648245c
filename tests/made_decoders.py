"""Decoders of transformers with random weights, in folders, and contracts that start from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

LLAMA: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 88,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": 131,
}

CONTRACT = """\
name: tale
task: generation
data: {kind: tokens, path: text.txt, vocabulary: tokenizer, tokenizer: base/tokenizer.json}
model: {kind: gpt, architecture: base, context: 32}
training: {batch_size: 8, stop: {max_steps: 6}}
"""


def write_decoder(kind: str, values: dict[str, Any], folder: Path) -> Any:
    """A model of transformers with random weights, its biases and norms too; also in a folder."""
    import transformers

    torch.manual_seed(0)
    drops = {f"{one}_pdrop": 0.0 for one in ("attn", "embd", "resid")} if kind == "gpt2" else {}
    config = transformers.AutoConfig.for_model(kind, **values, **drops)
    network = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif "proj" in name or "c_" in name:
                parameter.mul_(5)
    network.save_pretrained(folder)
    return network.eval()


def write_decoder_project(folder: Path) -> Path:
    """A text, a base with a tokenizer of its own, and a contract."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    words = ["the tide", "a lamp", "was low", "and", "the boats came home", "in rain.", "at dusk"]
    text = " ".join(words[(7 * i + i * i // 5) % len(words)] for i in range(4000))
    (folder / "text.txt").write_text(text)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=280, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([text], trainer)
    write_decoder("llama", {**LLAMA, "vocab_size": 288}, folder / "base")
    tokenizer.save(str(folder / "base" / "tokenizer.json"))
    contract = folder / "tale.yaml"
    contract.write_text(CONTRACT)
    return contract
