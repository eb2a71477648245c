"""Every stage with every adapter, killed at random steps: the same bits as without a kill."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from canary import Killed
from contract_runs import bits, train
from made_decoders import write_decoder_project

pytestmark = pytest.mark.torch

STEPS = 5
DATA = {
    "texts": "{kind: tokens, path: text.txt, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json}",
    "chats": "{kind: chats, path: chats.jsonl, template: plain, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json, windows: packed, validation: 0.2, test: 0.2}",
    "preferences": "{kind: preferences, path: pairs.jsonl, template: plain, "
    "tokenizer: base/tokenizer.json, validation: 0.2, test: 0.2}",
}
LOSS = {"preferences": "loss: {name: dpo, beta: 0.1}, "}
ADAPTERS = {
    "lora": "{kind: lora, rank: 2, dropout: 0.1}",
    "rslora": "{kind: rslora, rank: 2, dropout: 0.1}",
    "dora": "{kind: dora, rank: 2, targets: [q_proj, down_proj]}",
    "ia3": "{kind: ia3}",
    "prompt": "{kind: prompt_tuning, tokens: 3}",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resumed")
    write_decoder_project(folder)
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
    return folder


def contract_of(project: Path, stage: str, adapter: str) -> Path:
    file = project / f"{stage}-{adapter}.yaml"
    model = (
        "{kind: gpt, architecture: base, context: 96, dropout: 0.1, "
        f"rotary_scaling: {{kind: linear, factor: 2}}, adapter: {ADAPTERS[adapter]}}}"
    )
    training = (
        f"{{{LOSS.get(stage, '')}batch_size: 2, gradient_accumulation_steps: 2, num_epochs: 9, "
        f"average: {{kind: ema}}, checkpointing: {{save_every_n_steps: 1}}, "
        f"early_stopping: off, stop: {{max_steps: {STEPS}}}, optimizer: {{learning_rate: 0.01}}}}"
    )
    file.write_text(
        f"name: cut\ntask: generation\ndata: {DATA[stage]}\nmodel: {model}\ntraining: {training}\n"
    )
    return file


def resume_at_random(contract: Path, *settings: str) -> None:
    """Two kills at random steps, drawn anew for each contract and the same for each run of it."""
    name, draw = (
        f"{contract.stem}{''.join(settings)[-3:]}".replace("=", "-"),
        np.random.default_rng(len(contract.stem)),
    )
    whole = train(contract, f"{name}-whole", *settings)
    assert whole.ended.progress.step == STEPS
    for step in draw.integers(1, 3, 2).tolist():
        with pytest.raises(Killed):
            train(contract, f"{name}-cut", *settings, dies_at=step)
    again = train(contract, f"{name}-cut", *settings)
    assert bits(again) == bits(whole)
    assert again.signals["loss"] == whole.signals["loss"]


@pytest.mark.parametrize(
    ("stage", "adapter"),
    [
        ("chats", "lora"),
        ("preferences", "ia3"),
        *(
            pytest.param(stage, adapter, marks=pytest.mark.slow)
            for stage in DATA
            for adapter in ADAPTERS
        ),
    ],
)
def test_a_stage_goes_on_to_the_same_bits(project: Path, stage: str, adapter: str) -> None:
    resume_at_random(contract_of(project, stage, adapter))


@pytest.mark.slow
@pytest.mark.parametrize("stage", list(DATA))
@pytest.mark.parametrize("quantization", ["nf4", "int8"])
def test_beside_a_quantised_base(project: Path, stage: str, quantization: str) -> None:
    pytest.importorskip("bitsandbytes")
    resume_at_random(contract_of(project, stage, "lora"), f"model.quantization={quantization}")
