"""Texts of three sources, each in letters of its own, as a table and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np

from trainwright.contract.sections.data.data_traits import Mixture, Sampling
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.base.inputs import Part
from trainwright.data.base.token_inputs import TokenInputs

Windows = Literal["across", "packed", "padded"]
WINDOWS: tuple[Windows, ...] = ("across", "packed", "padded")
LETTERS = {"books": "abc", "code": "(){}", "web": "xyz"}
DOCUMENTS = {"books": 30, "code": 45, "web": 160}
CONTEXT = 16
EVEN = Mixture(kind="mixture", temperature=2.0)


def made(seed: int = 3) -> list[tuple[str, str]]:
    """Documents of three sources in any order, each in letters of its own."""
    draw = np.random.default_rng(seed)
    names = draw.permutation([name for name, count in DOCUMENTS.items() for _ in range(count)])
    return [
        (str(name), "".join(draw.choice(list(LETTERS[name]), draw.integers(10, 60))))
        for name in names
    ]


def table(folder: Path, windows: Windows = "across", sampling: Sampling = EVEN) -> TokenData:
    lines = [json.dumps({"body": text, "corpus": name}) for name, text in made()]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    if isinstance(sampling, Mixture):
        sampling = sampling.model_copy(update={"column": "corpus"})
    return TokenData(
        kind="tokens",
        path="texts.jsonl",
        text="body",
        windows=windows,
        validation=0.15,
        test=0.15,
        sampling=sampling,
    )


def files(folder: Path) -> TokenData:
    """The same documents as files; those of one source lie deeper, and one is a single file."""
    place = folder / "texts"
    for at, (name, text) in enumerate(made()):
        file = place / name / ("deep" if name == "code" else "") / f"{at:03}.txt"
        if name == "web":
            file = place / "web.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as stream:
            stream.write(text)
    return TokenData(
        kind="tokens", path="texts", validation=0.15, test=0.15, sampling=Mixture(kind="mixture")
    )


def inputs_of(part: Part) -> TokenInputs:
    assert isinstance(part.inputs, TokenInputs)
    return part.inputs


def source_of(text: str) -> set[str]:
    """The sources whose letters a text holds."""
    return {name for name, letters in LETTERS.items() if set(letters) & set(text)}
