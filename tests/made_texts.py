"""Tiny bases of encoders with random weights, each with a tokenizer trained on a few lines, and
rows whose class is told by a word."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

GOOD = ("great", "lovely", "wonderful", "fine")
BAD = ("awful", "terrible", "poor", "sad")
FILL = ("the", "film", "book", "day", "was", "it", "we", "saw", "and", "then", "quite", "very")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LONGEST = 48

TINY: dict[str, dict[str, Any]] = {
    "bert": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": LONGEST,
    },
    "distilbert": {
        "dim": 16,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 24,
        "max_position_embeddings": LONGEST,
    },
    "roberta": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": LONGEST + 1,
        "pad_token_id": 0,
    },
}


def sentences(count: int, seed: int = 0) -> list[tuple[str, bool]]:
    """Lines of 4 to 26 words, and whether the word that tells is a good one."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        words = draw.choices(FILL, k=draw.randint(3, 25))
        is_good = number % 2 == 0
        words.insert(draw.randrange(len(words)), draw.choice(GOOD if is_good else BAD))
        made.append((f"{' '.join(words)} {number}", is_good))
    return made


def write_base(folder: Path, kind: str = "bert", *, weights: bool = True, **changes: Any) -> Path:
    """A base as transformers saves it, its encoder without a head."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    lines = [line for line, _ in sentences(60)]
    tokenizer.train_from_iterator(
        lines, trainers.WordPieceTrainer(vocab_size=120, special_tokens=SPECIAL)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{key}_token": value for key, value in names.items()}
    ).save_pretrained(folder)
    settings = {"vocab_size": tokenizer.get_vocab_size(), **TINY[kind], **changes}
    config = transformers.AutoConfig.for_model(kind, **settings)
    if weights:
        torch.manual_seed(0)
        transformers.AutoModel.from_config(config).save_pretrained(folder)
    else:
        config.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# A base\n")
    return folder


def write_rows(path: Path, count: int = 160, labels: tuple[str, str] = ("good", "bad")) -> Path:
    """A table with a text and a label."""
    lines = [f"{line},{labels[not is_good]}" for line, is_good in sentences(count)]
    path.write_text("\n".join(["line,label", *lines]) + "\n")
    return path


def write_columns(path: Path, count: int = 120) -> Path:
    """A table with three texts, a number and a label."""
    made = sentences(count)
    lines = [
        f"{line},{line[::-1]},{line.upper()},{len(line) * 1.5},{'no' if is_good else 'yes'}"
        for line, is_good in made
    ]
    path.write_text("\n".join(["line,second,third,size,label", *lines]) + "\n")
    return path


CONTRACT = """\
name: texts
data: {path: rows.csv, target: label}
model: {architecture: base}
training:
  num_epochs: 3
  batch_size: 16
  optimizer: {learning_rate: 0.005}
  early_stopping: "off"
  mixed_precision: fp32
metric: {name: accuracy, target: 0.6}
"""


def write_text_project(folder: Path, kind: str = "bert", contract: str = CONTRACT) -> Path:
    """A contract with its rows and its base."""
    write_base(folder / "base", kind)
    write_rows(folder / "rows.csv")
    path = folder / "contract.yaml"
    path.write_text(contract)
    return path
