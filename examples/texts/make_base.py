"""Writes a small encoder for the texts of a table: a tokenizer of word pieces trained on them, and
the configuration of a BERT, without weights.

    python make_base.py TABLE COLUMN FOLDER [LAYERS WIDTH]

TABLE should hold training rows alone: what is learned of a test text would be known beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MOST_PIECES, MOST_TOKENS, HEAD_WIDTH = 8000, 128, 32


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Word pieces (Schuster and Nakajima 2012) of lower-case texts, as those of BERT."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=MOST_PIECES, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    begin, end = (tokenizer.token_to_id(one) for one in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", begin), ("[SEP]", end)],
    )
    return tokenizer


def write_base(texts: list[str], folder: Path, layers: int = 2, width: int = 64) -> None:
    """Write the tokenizer and the configuration."""
    tokenizer = train_tokenizer(texts)
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=MOST_TOKENS,
        **{f"{name}_token": token for name, token in names.items()},
    ).save_pretrained(folder)
    BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // HEAD_WIDTH),
        intermediate_size=4 * width,
        max_position_embeddings=MOST_TOKENS,
    ).save_pretrained(folder)


if __name__ == "__main__":
    table, column, folder, *size = sys.argv[1:]
    write_base(pl.read_csv(table)[column].to_list(), Path(folder), *map(int, size))
    print(f"a base in {folder}")
