"""What the files of the base of a decoder say. Imports without torch."""

from __future__ import annotations

import json
from typing import Literal

from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.hashing import hash_bytes
from trainwright.model.pretrained.hub_files import BaseFolder, unusable

_TOKENIZER = "tokenizer.json"


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
