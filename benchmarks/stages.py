"""A decoder from pretraining to preferences, on the real texts, chats and calls of functions.

Three contracts, each a run of the command line: pretraining on plays and answers, fine-tuning on
chats with LoRA, and DPO on calls of functions with LoRA on top of the merged result. The table is
that of the page `docs/guide/stages.md`, each figure with its interval.

The pairs are derived from the chats: the prompt is all that stands before the first call of a
function; the chosen answer is that call; the rejected one is what the assistant of another chat,
which calls none, says first.

python benchmarks/stages.py [--tokens 1000000] [--folder FOLDER] [--write]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from page import write_section
from real import FOLDER

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "stages.md"
_PLAYS = FOLDER / "tinyshakespeare" / "input.txt"
_INSTRUCTIONS = FOLDER / "alpaca-en-demo" / "alpaca_en_demo.jsonl"
_CHATS = FOLDER / "toolcall-chat-demo" / "glaive_toolcall_en_demo.jsonl"
_MOST_ANSWER, _MOST_PROMPT = 1100, 700
"""Characters; what is longer does not fit a window of 512 tokens."""
_ANSWERS = ("gpt", "function_call")
_METRICS = {
    "pretrained": ("perplexity", "bits_per_byte"),
    "answering": ("perplexity", "bits_per_byte"),
    "preferring": ("preference_accuracy", "reward_margin"),
}

_PRETRAIN = """\
name: pretrained
task: generation
data: {{kind: tokens, path: texts.txt, vocabulary: bpe, vocabulary_size: 1024}}
model:
  kind: gpt
  norm: rms
  feed_forward: swiglu
  tied: false
  layers: 4
  heads: 4
  kv_heads: 2
  width: 128
  context: 512
training:
  batch_size: 4
  mixed_precision: bf16
  num_epochs: 20
  compute: {{compile: off}}
  optimizer: {{learning_rate: 0.003}}
  stop: {{max_tokens: {tokens}, schedule_spans: limits}}
metric: {{name: perplexity, target: baseline}}
"""
_TUNE = """\
name: answering
task: generation
data:
  kind: chats
  path: chats.jsonl
  vocabulary: tokenizer
  tokenizer: base/tokenizer.json
  test: 0.2
model: {kind: gpt, architecture: base, context: 512, adapter: {kind: lora, rank: 16, alpha: 32}}
training:
  batch_size: 4
  num_epochs: 4
  mixed_precision: bf16
  compute: {compile: off}
  optimizer: {learning_rate: 0.004}
metric: {name: perplexity, target: baseline}
slices: [{column: role}]
"""
_PREFER = """\
name: preferring
task: generation
data:
  kind: preferences
  path: pairs.jsonl
  tokenizer: answering/tokenizer.json
  long_documents: exclude
  test: 0.3
model: {kind: gpt, architecture: answering, context: 512, adapter: {kind: lora, rank: 8, alpha: 16}}
training:
  batch_size: 4
  num_epochs: 4
  mixed_precision: bf16
  compute: {compile: off}
  loss: {name: dpo, beta: 0.1}
  optimizer: {learning_rate: 0.001}
metric: {name: preference_accuracy, target: every_baseline}
"""


class Stage(NamedTuple):
    """A run that ended, and its evaluation."""

    name: str
    evaluation: dict[str, Any]


def main() -> None:
    """Run the three stages and write their table."""
    options = argparse.ArgumentParser()
    options.add_argument("--tokens", type=int, default=1_000_000)
    options.add_argument("--folder", type=Path, default=None)
    options.add_argument("--write", action="store_true")
    asked = options.parse_args()
    if asked.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), asked.tokens, is_written=asked.write)
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    measure(asked.folder, asked.tokens, is_written=asked.write)


def measure(folder: Path, tokens: int, *, is_written: bool) -> None:
    """Every stage in a folder, and what its model answers."""
    counts = write_data(folder)
    stages = [train(folder, "pretrained", _PRETRAIN.format(tokens=tokens))]
    write_folder(folder, "base", "weights", "export", "pretrained", "--to", "huggingface")
    stages.append(train(folder, "answering", _TUNE))
    write_folder(folder, "answering", "weights", "merge", "answering")
    stages.append(train(folder, "preferring", _PREFER))
    asked = "I want to know the distance between New York and Los Angeles."
    words = ("--chat", asked, "--temperature", "0", "--tokens", "60")
    said = {
        name: run(folder, "generate", f"runs/{name}", *words).strip().replace("\n", " ")
        for name in ("answering", "preferring")
    }
    text = show(counts, stages, asked, said)
    sys.stdout.write(text)
    if is_written:
        packages = ("torch", "transformers", "peft")
        write_section("stages", "On real chats", text, packages, page=PAGE)


def write_data(folder: Path) -> dict[str, int]:
    """Texts, chats and pairs; how many of each."""
    plays, rows = _PLAYS.read_text("utf-8"), list(read(_INSTRUCTIONS))
    # In turns, so that every part of the text has both.
    width = -(-len(plays) // len(rows))
    texts = [
        f"{plays[at * width : (at + 1) * width]}\n\n"
        f"{row['instruction']} {row['input']}\n{row['output']}\n\n"
        for at, row in enumerate(rows)
    ]
    (folder / "texts.txt").write_text("".join(texts), "utf-8")
    chats = [row for row in read(_CHATS) if fits(row["conversations"])]
    pairs = list(pairs_of(chats))
    for name, lines in (
        ("chats", [{"messages": c["conversations"]} for c in chats]),
        ("pairs", pairs),
    ):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return {"chats": len(chats), "all": sum(1 for _ in read(_CHATS)), "pairs": len(pairs)}


def read(file: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file of JSON Lines."""
    yield from map(json.loads, file.read_text("utf-8").splitlines())


def fits(messages: Sequence[dict[str, str]]) -> bool:
    """Is each answer, and what stands before the first, short enough?"""
    answers = [len(one["value"]) for one in messages if one["from"] in _ANSWERS]
    return max(answers, default=0) <= _MOST_ANSWER and len(messages[0]["value"]) <= _MOST_PROMPT


def pairs_of(chats: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A pair for each chat that calls a function."""
    talks = [chat["conversations"] for chat in chats]
    calling = [[one["from"] for one in said].count("function_call") > 0 for said in talks]
    prose = [
        next(one["value"] for one in said if one["from"] == "gpt")
        for said, calls in zip(talks, calling, strict=True)
        if not calls
    ]
    draw = random.Random(0)
    for said, calls in zip(talks, calling, strict=True):
        at = next((i for i, one in enumerate(said) if one["from"] == "function_call"), 0)
        if calls and at:
            wrong = {"from": "gpt", "value": draw.choice(prose)}
            yield {"chosen": [*said[:at], said[at]], "rejected": [*said[:at], wrong]}


def train(folder: Path, name: str, contract: str) -> Stage:
    """A run of a contract; one that has ended is not trained again."""
    file = folder / "runs" / name / "evaluation.json"
    if not file.is_file():
        (folder / f"{name}.yaml").write_text(contract)
        run(folder, "train", f"{name}.yaml", "--run", name)
    return Stage(name, json.loads(file.read_text()))


def write_folder(folder: Path, output: str, *words: str) -> None:
    """A folder that a command writes, if it is not there."""
    if not (folder / output).is_dir():
        run(folder, *words, "-o", output)


def run(folder: Path, *words: str) -> str:
    """What a command prints; a verdict that is missed is an answer."""
    command = [sys.executable, "-m", "trainwright", *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 3):
        raise SystemExit(ran.stderr)
    return ran.stdout


def show(counts: dict[str, int], stages: Sequence[Stage], asked: str, said: dict[str, str]) -> str:
    """The table of the page."""
    lines = [
        f"{counts['chats']} of {counts['all']} chats fit a window of 512 tokens, and "
        f"{counts['pairs']} of them call a function. The machine was shared: the times of the "
        "training are those of the wall clock beside other work.",
        "",
        "| run | training | test units | metric | model | first baseline | second baseline |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(row for stage in stages for row in rows_of(stage)),
        "",
        f"Asked `{asked}`:",
        "",
        *(f"- `{name}`: `{text[:160]}`" for name, text in said.items()),
        "",
    ]
    return "\n".join(lines)


def rows_of(stage: Stage) -> Iterator[str]:
    """A row for each metric of a stage."""
    found = stage.evaluation["evaluation"]
    for name in _METRICS[stage.name]:
        said = [interval(found["metrics"][name])]
        said += [interval(one[name]) for one in found["baselines"].values()]
        lacking = [""] * (2 - len(found["baselines"]))
        cells = " | ".join([*said, *lacking])
        time = f"{stage.evaluation['seconds']['train']:,.0f} s"
        yield f"| `{stage.name}` | {time} | {found['units']} | {name} | {cells} |"
    status = stage.evaluation["verdict"]["status"]
    yield f"| `{stage.name}` | | | verdict | {status} | | |"


def interval(found: dict[str, float]) -> str:
    """A value with its interval."""
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


if __name__ == "__main__":
    main()
