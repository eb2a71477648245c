"""The scripts that a person would write by hand: read, prepare, train, score the test rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

Stage = Callable[[str], AbstractContextManager[None]]
BATCH, CONTEXT, VOCABULARY = 64, 64, 1024


def table(file: Path, trees: int, stage: Stage) -> None:
    """polars and LightGBM with early stopping."""
    import lightgbm
    import polars as pl
    from sklearn.metrics import roc_auc_score

    with stage("prepare"):
        rows = pl.read_csv(file)
        target = (rows["y"] == "yes").cast(pl.Float32).to_numpy()
        inputs = rows.drop("y")
        words = [name for name, kind in inputs.schema.items() if kind == pl.String]
        coded = inputs.with_columns(pl.col(words).cast(pl.Categorical).to_physical())
        names = coded.columns
        matrix = coded.cast(pl.Float32).to_numpy()
        del rows, inputs, coded
        order = np.random.default_rng(0).permutation(len(target))
        train, held, test = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])
    with stage("train"):
        data = lightgbm.Dataset(
            matrix[train], target[train], feature_name=names, categorical_feature=words
        )
        watched = lightgbm.Dataset(matrix[held], target[held], reference=data)
        parameters = {"objective": "binary", "metric": "binary_logloss", "verbose": -1}
        model = lightgbm.train(
            {**parameters, "learning_rate": 0.1, "num_leaves": 31, "seed": 0},
            data,
            trees,
            valid_sets=[watched],
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )
    with stage("judge"):
        print(roc_auc_score(target[test], np.asarray(model.predict(matrix[test]))))


def text(file: Path, steps: int, stage: Stage) -> None:
    """tokenizers and a small transformer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from trainwright.contract.sections.model.gpt import Gpt
    from trainwright.model.gpt.gpt_network import GptNetwork
    from trainwright.model.input_shape import TokenShape

    with stage("prepare"):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
        tokenizer.train_from_iterator(lines[: int(0.9 * len(lines))], trainer)
        found = tokenizer.encode_batch(lines, add_special_tokens=False)
        tokens = np.concatenate([np.array(one.ids, dtype=np.int64) for one in found])
        del found, lines
    train, held, test = np.split(tokens, [int(0.9 * len(tokens)), int(0.95 * len(tokens))])
    model = GptNetwork(Gpt(kind="gpt", context=CONTEXT), TokenShape(VOCABULARY))

    def loss(part: np.ndarray, starts: np.ndarray) -> Any:
        windows = torch.from_numpy(part[starts[:, None] + np.arange(CONTEXT + 1)])
        scores = model(windows[:, :-1])
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())

    def mean(part: np.ndarray) -> float:
        starts = np.arange(0, len(part) - CONTEXT - 1, CONTEXT)
        with torch.no_grad():
            batches = np.array_split(starts, math.ceil(len(starts) / BATCH))
            return float(np.mean([loss(part, one).item() for one in batches]))

    with stage("train"):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        draw = np.random.default_rng(0)
        for _ in range(steps):
            optimizer.zero_grad()
            loss(train, draw.integers(0, len(train) - CONTEXT - 1, BATCH)).backward()
            optimizer.step()
        mean(held)
    with stage("judge"):
        print(mean(test))


def images(folder: Path, steps: int, stage: Stage) -> None:
    """Pillow and a small residual network."""
    import torch
    from PIL import Image

    from trainwright.contract.sections.model.resnet import ResNet
    from trainwright.model.input_shape import ImageShape
    from trainwright.model.resnet.resnet_network import build_resnet

    with stage("prepare"):
        files = sorted(folder.glob("*/*.jpg"))
        names = sorted({file.parent.name for file in files})
        labels = np.array([names.index(file.parent.name) for file in files])
        pixels = np.stack([np.asarray(Image.open(file)).transpose(2, 0, 1) for file in files])
        order = np.random.default_rng(0).permutation(len(files))
        train, held, test = np.split(order, [int(0.75 * len(order)), int(0.85 * len(order))])
    shape = ImageShape(pixels.shape[1:], (128.0,) * 3, (60.0,) * 3, len(names))
    model = build_resnet(ResNet(kind="resnet", width=8), shape)

    def batch(rows: np.ndarray) -> tuple[Any, Any]:
        return torch.from_numpy(pixels[rows]), torch.from_numpy(labels[rows])

    def right(rows: np.ndarray) -> float:
        model.eval()
        with torch.no_grad():
            batches = (batch(some) for some in np.array_split(rows, math.ceil(len(rows) / BATCH)))
            hits = sum(int((model(x).argmax(1) == y).sum()) for x, y in batches)
        model.train()
        return hits / len(rows)

    with stage("train"):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        draw = np.random.default_rng(0)
        for _ in range(steps):
            inputs, answers = batch(draw.choice(train, BATCH))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), answers).backward()
            optimizer.step()
        right(held)
    with stage("judge"):
        print(right(test))


def peft(folder: Path, steps: int, stage: Stage) -> None:
    """transformers and PEFT."""
    from adapters.by_peft import train

    train(folder, steps, stage)


SCRIPTS: Mapping[str, Callable[[Path, int, Stage], None]] = {
    "table": table,
    "text": text,
    "images": images,
    "peft": peft,
}
