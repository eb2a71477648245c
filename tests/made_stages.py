"""A small decoder in a folder with texts, chats and preferences, and contracts of the stages of a
language model that start from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from made_decoders import LLAMA, write_decoder, write_decoder_project

STEPS = 5
TEXTS = (
    "{kind: tokens, path: text.txt, vocabulary: tokenizer, tokenizer: base/tokenizer.json, "
    'separator: " and ", windows: packed}'
)
DATA = {
    "texts": "{kind: tokens, path: text.txt, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json}",
    "chats": "{kind: chats, path: chats.jsonl, template: plain, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json, windows: packed, validation: 0.2, test: 0.2}",
    "preferences": "{kind: preferences, path: pairs.jsonl, template: plain, "
    "tokenizer: base/tokenizer.json, validation: 0.2, test: 0.2}",
    "pretraining": TEXTS,
    "distillation": TEXTS,
}
ADAPTERS = {
    "lora": "{kind: lora, rank: 2, dropout: 0.1}",
    "rslora": "{kind: rslora, rank: 2, dropout: 0.1}",
    "dora": "{kind: dora, rank: 2, targets: [q_proj, down_proj]}",
    "ia3": "{kind: ia3}",
    "prompt": "{kind: prompt_tuning, tokens: 3}",
    "none": "none",
}
_MORE = {
    "preferences": "loss: {name: dpo, beta: 0.1}, ",
    "distillation": "teacher: {bundle: base, weight: 0.7, temperature: 1.5, top_k: 5}, ",
}
_FROM_NOTHING = (
    "{kind: gpt, layers: 1, heads: 2, width: 16, context: 24, norm: rms, feed_forward: swiglu, "
    "positions: rotary, dropout: 0.1}"
)


def write_stages(folder: Path, *, layers: int = 2) -> None:
    """The base and the rows of every stage."""
    write_decoder_project(folder)
    if layers != LLAMA["num_hidden_layers"]:
        fewer = {**LLAMA, "vocab_size": 288, "num_hidden_layers": layers}
        write_decoder("llama", fewer, folder / "base")
    words = ["tide", "lamp", "rain", "boat"]
    draw = np.random.default_rng(5)
    said = [" ".join(draw.choice(words, 3).tolist()) for _ in range(48)]
    chats = [
        [{"role": "user", "content": f"Say {at}."}, {"role": "assistant", "content": one}]
        for at, one in enumerate(said)
    ]
    pairs = [
        {"prompt": f"Say {at}.", "chosen": one, "rejected": f"{one} and so"}
        for at, one in enumerate(said)
    ]
    rows = {"chats": [{"messages": one} for one in chats], "pairs": pairs}
    for name, lines in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))


def stage_contract(folder: Path, stage: str, adapter: str) -> Path:
    """The contract of a stage: two micro-batches a step, dropout and an average of the weights."""
    file = folder / f"{stage}-{adapter}.yaml"
    model = (
        "{kind: gpt, architecture: base, context: 96, dropout: 0.1, "
        f"rotary_scaling: {{kind: linear, factor: 2}}, adapter: {ADAPTERS[adapter]}}}"
    )
    if stage in ("pretraining", "distillation"):
        model = _FROM_NOTHING
    training = (
        f"{{{_MORE.get(stage, '')}batch_size: 2, gradient_accumulation_steps: 2, num_epochs: 9, "
        f"average: {{kind: ema}}, checkpointing: {{save_every_n_steps: 1}}, "
        f"early_stopping: off, stop: {{max_steps: {STEPS}}}, optimizer: {{learning_rate: 0.01}}}}"
    )
    file.write_text(
        f"name: cut\ntask: generation\ndata: {DATA[stage]}\nmodel: {model}\ntraining: {training}\n"
    )
    return file
