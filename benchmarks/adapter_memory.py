"""The memory of LoRA beside that of transformers and PEFT, on one base, by one tracker.

The base is a Llama of random weights with a large vocabulary; both sides train the same weights
(rank, targets) on batches of the same size in the same number format, with AdamW and clipping. Each
is a whole process, in turns; what is measured is the most resident memory that it had
(`VmHWM`, mapped pages included), of the whole process and of the training alone. Theirs is the
least loop that trains: no trainer, no evaluation, nothing saved. Ours is the command `train`:
validation, checkpoints, baselines, the judged test part and the report included. In ours the head
is joined to the loss (`training.memory.head_loss: fused`).

python benchmarks/adapter_memory.py [--rounds 2] [--steps 6] [--write]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

from page import goal, write_section
from real import FOLDER
from scales.run_measured import run_measured

GOAL = 0.6
_TEXT = FOLDER / "tinyshakespeare" / "input.txt"
_CHARACTERS = 40_000
_CONTRACT = """\
name: adapted
task: generation
data: {{kind: tokens, path: text.txt, vocabulary: tokenizer, tokenizer: base/tokenizer.json}}
model:
  kind: gpt
  architecture: base
  context: {context}
  adapter: {{kind: lora, rank: {rank}, alpha: {alpha}}}
training:
  batch_size: {batch}
  gradient_accumulation_steps: 1
  mixed_precision: {precision}
  num_epochs: 100
  early_stopping: off
  compute: {{compile: off, matrix_products: exact}}
  memory: {{head_loss: fused, activation_checkpointing: {recomputed}}}
  optimizer: {{learning_rate: 0.0001}}
  stop: {{max_steps: {steps}}}
metric: {{name: perplexity, target: baseline}}
"""


@final
@dataclass(frozen=True)
class Setting:
    """What both sides train."""

    layers: int = 12
    width: int = 768
    vocabulary: int = 100_003
    context: int = 256
    batch: int = 4
    rank: int = 16
    precision: str = "fp32"
    activation_checkpointing: bool = False


class Took(NamedTuple):
    """The most resident memory of a process, in MiB: whole, and of its training."""

    whole: float
    training: float


def write_base(folder: Path, setting: Setting) -> None:
    """A Llama of random weights with a tokenizer, and a text. In a process of its own."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    text = _TEXT.read_text(encoding="utf-8")[:_CHARACTERS]
    (folder / "text.txt").write_text(text, encoding="utf-8")
    bytes_of = pre_tokenizers.ByteLevel
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = bytes_of(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, show_progress=False, initial_alphabet=bytes_of.alphabet()
    )
    tokenizer.train_from_iterator([text], trainer)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=setting.vocabulary,
        hidden_size=setting.width,
        intermediate_size=8 * setting.width // 3,
        num_hidden_layers=setting.layers,
        num_attention_heads=setting.width // 64,
        num_key_value_heads=setting.width // 64,
        max_position_embeddings=setting.context,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "base")
    tokenizer.save(str(folder / "base" / "tokenizer.json"))
    (folder / "setting.json").write_text(json.dumps(asdict(setting)), encoding="utf-8")


def contract_of(setting: Setting, steps: int) -> str:
    """The contract of ours."""
    return _CONTRACT.format(
        **asdict(setting),
        alpha=2 * setting.rank,
        steps=steps,
        recomputed="full" if setting.activation_checkpointing else "off",
    )


def took(report: Mapping[str, Any]) -> Took:
    """What a report says of the memory."""
    return Took(report["megabytes"], report["stages"]["train"]["megabytes"])


def measure(setting: Setting, rounds: int, steps: int) -> dict[str, list[Took]]:
    """Both sides in turns, on one base."""
    found: dict[str, list[Took]] = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [sys.executable, __file__, "--make", str(folder), json.dumps(asdict(setting))]
        subprocess.run(made, check=True, capture_output=True)
        (folder / "contract.yaml").write_text(contract_of(setting, steps), encoding="utf-8")
        for number in range(rounds):
            ours = run_measured(
                folder, "command", "train", "contract.yaml", "--run", f"ours-{number}"
            )
            theirs = run_measured(folder, "script", "peft", str(folder), str(steps))
            for side, report in (("ours", ours), ("theirs", theirs)):
                found[side].append(took(report))
                stages = {k: round(v["megabytes"]) for k, v in report["stages"].items()}
                print(setting.precision, side, *map(round, found[side][-1]), stages, flush=True)
    return found


def ratios(found: Mapping[str, Sequence[Took]]) -> Took:
    """Ours over theirs, the median of the rounds."""
    pairs = list(zip(found["ours"], found["theirs"], strict=True))
    return Took(
        statistics.median(ours.whole / theirs.whole for ours, theirs in pairs),
        statistics.median(ours.training / theirs.training for ours, theirs in pairs),
    )


def table(measured: Mapping[Setting, Mapping[str, Sequence[Took]]]) -> str:
    """A row for each setting."""
    lines = [
        "| tokens in a batch | number format | activations | side | whole process | training |",
        "| --- " * 6 + "|",
    ]
    for setting, found in measured.items():
        tokens = f"{setting.batch} x {setting.context}"
        kept = "recomputed" if setting.activation_checkpointing else "kept"
        head = f"| {tokens} | {setting.precision} | {kept}"
        for side, name in (("theirs", "transformers + PEFT"), ("ours", "ours")):
            most = Took(
                max(one.whole for one in found[side]), max(one.training for one in found[side])
            )
            lines.append(f"{head} | {name} | {most.whole:,.0f} MiB | {most.training:,.0f} MiB |")
        both = ratios(found)
        wanted = goal(f"{both.whole:.2f}, goal at most {GOAL}", both.whole <= GOAL)
        lines.append(f"{head} | ours over theirs | {wanted} | {both.training:.2f} |")
    return "\n".join(lines)


def section(
    measured: Mapping[Setting, Mapping[str, Sequence[Took]]], rounds: int, steps: int
) -> str:
    """The text of the page."""
    about = " ".join((__doc__ or "").split("\n\n")[1].split())
    one = next(iter(measured))
    what = (
        f"A Llama of {one.layers} blocks of width {one.width} with {one.vocabulary:,} tokens and "
        f"one matrix for embedding and head; rank {one.rank} on every linear layer but the head. "
        f"{rounds} rounds of {steps} steps; the most of the rounds, and the median of their ratios."
    )
    return f"{about}\n\n{what}\n\n{table(measured)}"


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, nargs="+", default=[4])
    parser.add_argument("--precision", nargs="+", choices=("fp32", "bf16"), default=["fp32"])
    parser.add_argument(
        "--recomputed", action="store_true", help="also with recomputed activations in both"
    )
    parser.add_argument("--make", nargs=2, metavar=("FOLDER", "SETTING"), help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    given = parser.parse_args()
    if given.make:
        write_base(Path(given.make[0]), Setting(**json.loads(given.make[1])))
        return
    settings = [
        Setting(
            layers=given.layers,
            batch=batch,
            precision=precision,
            activation_checkpointing=is_recomputed,
        )
        for is_recomputed in ((False, True) if given.recomputed else (False,))
        for precision in given.precision
        for batch in given.batch
    ]
    measured = {one: measure(one, given.rounds, given.steps) for one in settings}
    print(table(measured))
    if given.write:
        text = section(measured, given.rounds, given.steps)
        write_section(
            "adapter_memory", "The memory of LoRA", text, ("torch", "transformers", "peft")
        )


if __name__ == "__main__":
    main()
