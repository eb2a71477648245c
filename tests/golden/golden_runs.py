"""Small runs of every family and kind of data, and digests of what they write.

Two checkouts that train the same runs on one machine must write the same bits: weights, trees,
predictions and scores. Digests are not stored, as bits differ between processors and versions of
torch: `compare.py` trains both checkouts.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from made_texts import write_base

Digests = Mapping[str, str]
"""File in the run folder -> digest."""

TABLE = "data: {kind: table, path: t.csv, target: y, exclude: [z]}\n"
REGRESSION = (
    "data: {kind: table, path: t.csv, target: z, exclude: [y]}\nmetric: {name: rmse, target: 100}\n"
)
FOLDS = (
    "data: {kind: table, path: t.csv, target: y, exclude: [z], split: {kind: random, folds: 3}}\n"
)
TEXT_COLUMN = "data: {kind: table, path: texts.csv, target: y}\n"
IMAGES = "data: {kind: images, path: img}\n"
PAIRS = "task: retrieval\ndata: {kind: pairs, path: captions.csv, image: image, caption: caption}\n"
CAPTIONS = "data: {kind: captions, path: captions.csv, image: image, caption: caption}\n"
TEXT_PAIRS = "task: retrieval\ndata: {kind: text_pairs, path: questions.csv}\n"
CHARACTERS = "data: {kind: tokens, path: corpus.txt}\n"
WORD_PIECES = "data: {kind: tokens, path: corpus.txt, vocabulary: bpe, vocabulary_size: 300}\n"


def training(precision: str = "fp32", more: str = "") -> str:
    """A short training by the loop."""
    return (
        f"training: {{effective_batch_size: 64, num_epochs: 2, mixed_precision: {precision}, "
        f"compute: {{compile: off}}{more}}}\n"
    )


def model(kind: str, settings: str) -> str:
    return f"model: {{kind: {kind}, {settings}}}\n"


MLP = model("mlp", "hidden: [16]")
TREES = model("boosting", "max_trees: 30")
CONTRACTS: Mapping[str, str] = {
    "boosting": TABLE + TREES,
    "boosting_regression": REGRESSION + TREES,
    "xgboost": TABLE + model("xgboost", "max_trees: 30"),
    "catboost": TABLE + model("catboost", "max_trees: 30"),
    "forest": TABLE + model("forest", "trees: 10"),
    "neighbours": TABLE + "model: {kind: neighbours}\n",
    "linear": TABLE + "model: {kind: linear}\n",
    "linear_text": TEXT_COLUMN + "model: {kind: linear}\n",
    "mlp": TABLE + MLP + training(),
    "mlp_accumulated": REGRESSION + MLP + training("bf16", ", batch_size: 16"),
    "mlp_ema": TABLE
    + MLP
    + training(more=", average: {kind: ema}, gradient_clipping: {max_norm: 1.0}"),
    "tabular_resnet": TABLE + model("tabular_resnet", "width: 16, blocks: 1") + training(),
    "ft_transformer": TABLE
    + model("ft_transformer", "width: 16, layers: 1, heads: 2")
    + training(),
    "encoder": TEXT_COLUMN.replace("y}", "y, columns: {text: {kind: text}}}")
    + model("pretrained", "architecture: base, max_length: 12")
    + training(),
    "resnet": IMAGES + model("resnet", "width: 8, blocks: [1, 1]") + training(),
    "dual_encoder": PAIRS
    + model(
        "dual_encoder",
        "width: 16, image: {kind: resnet, width: 8, blocks: [1]}, text: {kind: bag, width: 16}",
    )
    + training(),
    "vision_language": CAPTIONS
    + model(
        "vision_language",
        "image: {kind: resnet, width: 8, blocks: [1]}, projector: {grid: 2}, "
        "decoder: {kind: gpt, layers: 1, heads: 2, width: 16, context: 48}",
    )
    + training(),
    "bi_encoder": TEXT_PAIRS
    + model("bi_encoder", "width: 16, text: {kind: transformer, width: 16, layers: 1, heads: 2}")
    + training(),
    "gpt": CHARACTERS + model("gpt", "context: 16, width: 16, layers: 1, heads: 2") + training(),
    "gpt_word_pieces": WORD_PIECES
    + model("gpt", "context: 16, width: 16, layers: 2, heads: 2")
    + training("bf16"),
    "causal_lm": CHARACTERS.replace("}", ", vocabulary: bytes}")
    + model("causal_lm", "architecture: decoder, weights: none, context: 16")
    + training(),
    "folds": FOLDS + model("mlp", "hidden: [8]") + training(),
    "seeds": TABLE + model("mlp", "hidden: [8]") + training(more=", seeds: 2"),
    "files": TABLE.replace("}\n", ", reading: {rows_in: files}}\n") + MLP + training(),
}
"""A name for each run and its contract. Add one line for a new family or kind of data."""

WORDS = (
    *("model", "data", "loss", "train", "step", "rate", "score", "test"),
    *("batch", "epoch", "seed", "layer", "head", "token", "text"),
)
DECODER = {
    "model_type": "gpt_neox",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "vocab_size": 256,
}
FITTED = frozenset({"bundle", "baselines"})
"""Folders whose files are compared, but for the manifest, which holds versions and times."""

CHANGING = frozenset({"time", "seconds"})
"""Keys of an evaluation whose numbers differ from run to run."""


def write_data(folder: Path) -> None:
    """A table, a column of texts, an encoder for it, a corpus and folders of images with captions,
    each from one seed."""
    write_base(folder / "base")
    (folder / "decoder").mkdir()
    (folder / "decoder" / "config.json").write_text(json.dumps(DECODER))
    random = np.random.default_rng(3)
    lines = ["a,b,city,when,y,z"]
    for row in range(600):
        a, b = random.normal(size=2)
        city = ("Bern", "Basel", "Chur", "Genf")[random.integers(4)]
        score = a + 0.5 * b + (city == "Chur") + random.normal() * 0.7
        known = "" if row % 17 == 0 else round(b, 3)
        day = f"2021-{1 + row % 12:02d}-{1 + row % 28:02d}"
        label = "yes" if score > 0 else "no"
        lines.append(f"{a:.4f},{known},{city},{day},{label},{score * 10 + 50:.3f}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    corpus = " ".join(WORDS[random.integers(len(WORDS))] for _ in range(6000))
    (folder / "corpus.txt").write_text(corpus)
    texts = ["text,y"]
    for row in range(400):
        step = 3 if row % 2 else 1
        words = " ".join(WORDS[(row * 7 + at * step) % 15] for at in range(6))
        texts.append(f"{words} {row % 9},{'p' if row % 2 else 'q'}")
    (folder / "texts.csv").write_text("\n".join(texts) + "\n")
    for label in range(3):
        images = folder / "img" / f"c{label}"
        images.mkdir(parents=True)
        for at in range(30):
            pixels = random.integers(0, 80, size=(16, 16, 3), dtype=np.uint8)
            pixels[:, :, label] += random.integers(60, 120, dtype=np.uint8)
            pixels[at % 16, (at * 5) % 16] = at * 7
            Image.fromarray(pixels).save(images / f"{at}.png")
    captions = [f"img/c{at % 3}/{at // 3}.png,{WORDS[at % 3]} {at}" for at in range(90)]
    (folder / "captions.csv").write_text("\n".join(["image,caption", *captions]) + "\n")
    asked = [
        f"where is {WORDS[at % 15]} {at},{WORDS[at % 15]} by {WORDS[at * 4 % 15]} {at}"
        for at in range(90)
    ]
    (folder / "questions.csv").write_text("\n".join(["query,passage", *asked]) + "\n")


def train(source: Path, folder: Path, name: str) -> Digests | str:
    """Train one contract in `folder` with the package in `source`: its digests, or the end of what
    it printed if it cannot be trained."""
    contract = folder / f"{name}.yaml"
    contract.write_text(CONTRACTS[name])
    environment = os.environ | {
        "PYTHONPATH": str(source),
        "OMP_NUM_THREADS": "1",
        "TRAINWRIGHT_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "trainwright", "train", contract.name, "--run", name]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if ended.returncode not in (0, 3, 4):
        return f"exit code {ended.returncode}: {(ended.stdout + ended.stderr)[-800:]}"
    return digests_of(folder / "runs" / name)


def digests_of(run: Path) -> Digests:
    """Digests of weights, trees, predictions and scores of a run folder."""
    found = {}
    for file in sorted(run.rglob("*")):
        name = file.relative_to(run).as_posix()
        if file.is_file() and "checkpoint" not in name and (content := _content(file)) is not None:
            found[name] = hashlib.sha256(content).hexdigest()[:16]
    return found


def _content(file: Path) -> bytes | None:
    """What a file says without what differs from run to run; None for one that is not compared."""
    if file.suffix == ".safetensors":
        # The tensors, without the header and its metadata.
        raw = file.read_bytes()
        return raw[8 + int.from_bytes(raw[:8], "little") :]
    if FITTED.intersection(file.parts) and file.name != "bundle.json":
        return file.read_bytes()
    if file.name == "predictions.parquet":
        return pl.read_parquet(file).write_csv().encode()
    if file.name == "evaluation.json":
        return json.dumps(_numbers(json.loads(file.read_bytes())), sort_keys=True).encode()
    return None


def _numbers(value: Any) -> Any:
    """The numbers of an evaluation, without texts, times and names."""
    if isinstance(value, dict):
        return {key: _numbers(part) for key, part in value.items() if key not in CHANGING}
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    return value if isinstance(value, int | float) else None
