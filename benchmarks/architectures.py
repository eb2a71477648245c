"""`trainwright check` on every text architecture that transformers ships, as a small model.

Each configuration class that has a head for the classes of a text (`kind: pretrained`) or for the
next token (`kind: causal_lm`) is built with few layers and features and random weights, saved
with a small tokenizer, and checked by the command itself in a process of its own. An architecture
works where the plan is made, is refused where one clear error ends the command (exit code 2), and
fails where the command ends in a traceback or within no time limit.

python benchmarks/architectures.py [--only NAME ...] [--keep FILE] [--minutes M] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import page
from trainwright.cli.main import main as command

Reads = Literal["texts", "tokens"]
CLASSES: Final[Mapping[Reads, Any]] = {
    "texts": transformers.AutoModelForSequenceClassification,
    "tokens": transformers.AutoModelForCausalLM,
}
TOKENS: Final = 300
SECONDS: Final = 60

SIZES: Final = tuple(
    (re.compile(pattern), size)
    for pattern, size in (
        (r"vocab_size", TOKENS),
        (r"(^|_)(bos|pad)_token_id$", 0),
        (r"_token_id$|_index$", 1),
        (r"experts?_per_tok$|^moe_top_?k|top_k_experts|^topk$|num_selected_experts|moe_k$", 2),
        (r"shared_experts?$|group", 1),
        (r"experts?$", 4),
        (r"heads?$|n_head_kv", 4),
        (r"(layers?|n_layer|depth|num_blocks)$", 2),
        (r"head_dim|head_size|lora_rank|d_kv", 8),
        (r"position|n_ctx|max_seq", 64),
        (r"intermediate|ffn|inner|d_ff|mlp_dim", 64),
        (r"hidden_size|d_model|n_embd|^dim$|embed_dim|emb_dim|embedding_size|width|d_latents", 32),
    )
)
"""The most that a field of a configuration may be, by its name; the first pattern counts."""

FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "codegen": {"rotary_dim": 8},
    "cohere_compass_text": {"num_hidden_layers": 4},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "esm": {"vocab_size": TOKENS, "pad_token_id": 0},
    "esmc": {"vocab_size": TOKENS},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 8},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8},
    "lilt": {"hidden_size": 48},
    "ministral": {"head_dim": 8},
    "mobilebert": {"intra_bottleneck_size": 32, "true_hidden_size": 32},
    "nemotron": {"num_key_value_heads": 4},
    "perceiver": {"vocab_size": TOKENS, "num_latents": 8},
    "qwen3_5_text": {"num_hidden_layers": 4},
    "qwen3_next": {"num_hidden_layers": 4},
    "reformer": {"axial_pos_shape": [8, 8], "axial_pos_embds_dim": [16, 16]},
    "xlnet": {"d_head": 8},
    "zamba": {"num_hidden_layers": 3},
    "zamba2": {"num_hidden_layers": 3},
}
"""Fields of configurations that do not follow from the sizes."""

CONTRACTS: Final[Mapping[Reads, str]] = {
    "texts": """\
data: {path: texts.csv, target: label, columns: {text: {kind: text}}}
model: {kind: pretrained, architecture: base}
training: {num_epochs: 1, batch_size: 4}
metric: {name: accuracy, target: 0.5}
""",
    "tokens": """\
task: generation
data: {kind: tokens, path: text.txt, vocabulary: tokenizer, tokenizer: base/tokenizer.json}
model: {kind: causal_lm, architecture: base, context: 16}
training: {batch_size: 4, num_steps: 4}
metric: {name: perplexity}
""",
}


def architectures(reads: Reads) -> list[str]:
    """Every model type with such a head."""
    return sorted({config.model_type for config in CLASSES[reads]._model_mapping})


def small_config(kind: type[Any]) -> Any:
    """A configuration with few layers and features; its parts are small too."""
    usual = kind()
    fields = {
        name: next((min(size, value) for named, size in SIZES if named.search(name)), value)
        for name, value in usual.to_dict().items()
        if type(value) is int and value > 0
    }
    for name in kind.sub_configs or {}:
        part = getattr(usual, name, None)
        if part is not None and type(part).model_type:
            fields[name] = small_config(type(part)).to_dict()
    return kind(**{**fields, **FIELDS.get(kind.model_type, {})})


def write_base(name: str, reads: Reads, folder: Path) -> None:
    """A model with random weights, and a tokenizer of its tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    torch.manual_seed(0)
    config = small_config(CONFIG_MAPPING[name])
    model = CLASSES[reads].from_config(config)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS - 20,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<pad>", "<end>"],
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    # As the tokenizers of encoders, and of the encoder of a BART or a T5, do.
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <end>", pair="$A <end> $B <end>", special_tokens=[("<end>", 1)]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", model_max_length=64
    )
    fast.save_pretrained(folder)


def _texts() -> Iterator[str]:
    words = ("the tide was low", "a lamp in the rain", "boats came home", "at dusk they left")
    for row in range(80):
        yield f"{words[row % 4]} {words[row // 7 % 4]} {row}"


def write_project(folder: Path, reads: Reads) -> None:
    """The data and the contract."""
    texts = list(_texts())
    (folder / "text.txt").write_text(". ".join(texts))
    rows = [f"{text},{'yes' if row % 3 else 'no'}" for row, text in enumerate(texts)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]))
    (folder / "contract.yaml").write_text(CONTRACTS[reads])


def check(name: str, reads: Reads, folder: Path) -> tuple[str, str]:
    """How `check` ends on an architecture, and what it says."""
    folder.mkdir(parents=True)
    said = _in_a_child(folder / "making.txt", lambda: write_base(name, reads, folder / "base"))
    if said != 0:
        return "not made", _last_line(folder / "making.txt")
    write_project(folder, reads)

    def run() -> None:
        os.chdir(folder)
        sys.argv = ["trainwright", "check", "contract.yaml"]
        command()

    code = _in_a_child(folder / "said.txt", run)
    text = (folder / "said.txt").read_text(errors="replace")
    if "Traceback" in text or code in (1, 70) or code < 0:
        ended = "no end within the limit" if code == -signal.SIGALRM else "traceback"
        return ended, _last_line(folder / "said.txt")
    if code != 2:
        return "works", ""
    said = text.rpartition("model.architecture: ")[2].splitlines()
    return "refused", " ".join(line.strip() for line in said[:2])


def _last_line(file: Path) -> str:
    return ["", *file.read_text(errors="replace").splitlines()][-1].strip()[:300]


def _in_a_child(output: Path, work: Callable[[], None]) -> int:
    """The exit code of a forked process that does this work, which has everything imported."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    signal.alarm(SECONDS)
    with (
        output.open("w") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        try:
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
    os._exit(code)


def describe(endings: Mapping[str, tuple[str, str]]) -> str:
    """A row for each kind of head, and a line for each architecture that does not work."""
    lines = [
        "| head | architectures checked | work | one clear error | traceback | not made here |"
    ]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    heads: tuple[tuple[Reads, str], ...] = (
        ("texts", "classes of a text"),
        ("tokens", "next token"),
    )
    for reads, head in heads:
        counts = Counter(ending for key, (ending, _) in endings.items() if key.startswith(reads))
        checked = f"{counts.total()} of {len(architectures(reads))}"
        cells = (checked, *(counts[one] for one in ("works", "refused", "traceback")))
        lines.append(f"| {head} | {' | '.join(map(str, cells))} | {counts['not made']} |")
    lines += ["", "| architecture | ends | with |", "| --- | --- | --- |"]
    others = sorted(key for key, (ending, _) in endings.items() if ending != "works")
    for key in others:
        ending, said = endings[key]
        lines.append(f"| {key} | {ending} | {said.replace('|', ' ')[:160]} |")
    return "\n".join(lines)


def main() -> None:
    """Check what is asked for, and write the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=(), help="model types")
    parser.add_argument("--keep", type=Path, help="a file of earlier endings, which are kept")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin none after these")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(given.keep.read_text()) if given.keep and given.keep.exists() else {}
    keys = [(reads, name) for reads in CLASSES for name in architectures(reads)]
    last = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as folder:
        for reads, name in keys:
            is_asked = name in given.only if given.only else f"{reads} {name}" not in kept
            if is_asked and time.monotonic() < last:
                kept[f"{reads} {name}"] = check(name, reads, Path(folder) / reads / name)
                print(reads, name, *kept[f"{reads} {name}"], flush=True)
    if given.keep:
        given.keep.write_text(json.dumps(kept, indent=1))
    text = f"{(__doc__ or '').split(chr(10) * 2)[1]}\n\n{describe(kept)}"
    print(text)
    if given.write:
        page.write_section("architectures", "Architectures of texts", text, ["transformers"])


if __name__ == "__main__":
    main()
