"""The section of a decoder for the files of a base: ours where it has a place for the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.files import Json
from trainwright.model.causal_lm.causal_lm_family import CausalLmFamily
from trainwright.model.gpt.decoder_config import KNOWN
from trainwright.model.gpt.gpt_family import GptFamily


def decoder_section(base: str, folder: Path, fields: Mapping[str, Json]) -> ModelSection:
    """Section of the base of a path in `folder`, with these fields and what its files say.

    Raises:
        Mistake: the files cannot be used. MissingExtra: what reads them is not installed.
    """
    values = {"architecture": base, **fields}
    if _model_type(folder / base) in ("", *KNOWN):
        return GptFamily().read_files(Gpt.model_validate({"kind": "gpt", **values}), folder)
    section = CausalLm.model_validate({"kind": "causal_lm", **values})
    return CausalLmFamily().read_files(section, folder)


def base_of_decoder(section: ModelSection) -> Base:
    """What was found in the files of its base."""
    assert isinstance(section, Gpt | CausalLm), "a section of `decoder_section`"
    assert section.base != "none", "its files were read"
    return section.base


def _model_type(base: Path) -> str:
    """Empty where it cannot be read, which the reader of the base says."""
    try:
        return str(json.loads((base / "config.json").read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
