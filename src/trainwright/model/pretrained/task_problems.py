"""Settings of a model of transformers that contradict the task or the files of its base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base, Pretrained
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Problem
from trainwright.core.files import hash_bytes
from trainwright.core.formatting import many
from trainwright.data.encoders.text_tokenizer import special_tokens
from trainwright.model.family import LearningTask
from trainwright.model.pretrained.hub_files import BaseFolder, unusable

_MOST_TEXTS = 2
_TOKENIZER = "tokenizer.json"


def problems_with_task(section: Pretrained, task: LearningTask) -> Iterator[Problem]:
    """Of a resolved section: the head has an output for each class, and the table one text or a
    pair of them."""
    yield from _label_problems(section, task)
    if section.base != "auto" and section.base.reads == "images":
        yield from _token_problems(section)
        return
    yield from _column_problems(task)
    yield from _length_problems(section, task)


def _length_problems(section: Pretrained, task: LearningTask) -> Iterator[Problem]:
    base, length = section.base, settled(section.max_length)
    if base == "auto":
        return
    longest = base.longest
    if length > longest:
        yield Problem(
            "the rows are longer than the base reads",
            path="model.max_length",
            found=f"{length:,}",
            expected=f"at most {longest:,} tokens",
            fix=f"change it to {longest}, or remove it",
        )
    if not base.tokenizer_json:
        return
    texts = sum(kind == "text" for kind in task.columns.values())
    special = special_tokens(base.tokenizer_json, is_paired=texts > 1)
    if length <= special:
        yield Problem(
            "the special tokens of the base leave no room for a text",
            path="model.max_length",
            found=f"{length:,}, of which {special:,} are special",
            expected=f"at least {special + 1:,} tokens",
            fix="raise it, or remove it",
        )


def _token_problems(section: Pretrained) -> Iterator[Problem]:
    if section.max_length != "auto":
        yield Problem(
            "images have no tokens",
            path="model.max_length",
            found=str(section.max_length),
            fix="remove it",
        )


def _label_problems(section: Pretrained, task: LearningTask) -> Iterator[Problem]:
    wanted = task.classes if task.task == "classification" else task.targets
    if section.num_labels != wanted:
        has = f"the target has {many(wanted, 'class')}" if wanted > 1 else "the target is a number"
        has = f"there are {task.targets} targets" if task.targets > 1 else has
        yield Problem(
            f"the model has {section.num_labels} labels, but {has}",
            path="model.num_labels",
            found=str(section.num_labels),
            expected=str(wanted),
            fix=f"change it to {wanted}, or remove it",
        )


def _column_problems(task: LearningTask) -> Iterator[Problem]:
    texts = [name for name, kind in task.columns.items() if kind == "text"]
    others = [name for name, kind in task.columns.items() if kind != "text"]
    if not texts or len(texts) > _MOST_TEXTS:
        yield Problem(
            "an encoder of texts needs one column of texts, or two that form a pair",
            path="data.exclude" if texts else "data.columns",
            found=", ".join(texts) or f"no text among {', '.join(others) or 'the columns'}",
            expected="one or two columns of kind: text",
            fix="write data.columns: {NAME: {kind: text}} for the text"
            if not texts
            else f"exclude as well: {', '.join(texts[1:])}",
        )
    elif others:
        yield Problem(
            "an encoder of texts reads no other columns",
            path="data.exclude",
            found=", ".join(others),
            expected="columns of texts alone",
            fix=f"exclude as well: {', '.join(others)}",
        )


def describe_base(
    found: BaseFolder,
    section: Gpt | CausalLm,
    longest: int,
    reads: Literal["texts", "tokens"] = "texts",
) -> Base:
    """The base in these files, with as many positions as `longest`, 0 for any number.

    Raises:
        Mistake: a run began with other files.
    """
    tokenizer = found.path / _TOKENIZER
    base = Base(
        reads=reads,
        config=json.dumps(found.config(), sort_keys=True),
        weights="" if section.weights == "none" else found.weights_hash(),
        tokenizer=hash_bytes(tokenizer.read_bytes()) if tokenizer.is_file() else "",
        longest=longest,
        licence=found.licence(),
        commit=found.commit,
        folder=str(found.path),
    )
    if section.base not in ("none", base.model_copy(update={"folder": ""})):
        raise unusable(
            "the files of the base have changed", found=str(found.path), expected="the same"
        )
    return base
