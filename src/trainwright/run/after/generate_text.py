"""Texts written by the model of a run. Needs torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from trainwright.core.errors import Mistake, Place, Problem
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.model.token_decoder import TokenDecoder
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.text_generation import DecodingOptions, TextGenerator
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.tracking.run_folder import RunFolder


def open_generator(folder: RunFolder, decoding: DecodingOptions) -> TextGenerator:
    """A generator with the model of a finished run.

    Raises:
        Mistake: its model writes no texts. StorageFailed: its files were changed.
    """
    if not folder.bundle.exists():
        raise _writes_nothing(folder, f"no {folder.bundle.name}: it is not finished")
    predictor = read_own_bundle(folder)
    scorer = predictor.scorer
    if not isinstance(scorer, NetworkScorer) or not isinstance(scorer.network, TokenDecoder):
        raise _writes_nothing(folder, f"a model of kind {scorer.kind}")
    return TextGenerator(scorer.network, TextVocabulary.of_kind(predictor.features), decoding)


def read_prompts(file: Path) -> Iterator[str]:
    """Prompts of a file: of .jsonl the key `prompt` of each line, of others each line.

    Raises:
        Mistake: it is missing, or a line has no prompt.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise Mistake(
            Problem(
                "the prompts cannot be read",
                path="--from",
                found=f"{file}: {error}",
                expected="a text in UTF-8 with a prompt in each line, or .jsonl with prompt keys",
                fix="name such a file",
            )
        ) from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _prompt_of(line, number, file) if file.suffix == ".jsonl" else line


def _prompt_of(line: str, number: int, file: Path) -> str:
    try:
        found = json.loads(line)["prompt"]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if isinstance(found, str) and found:
        return found
    raise Mistake(
        Problem(
            "a line has no prompt",
            path="--from",
            found=line[:80],
            expected='{"prompt": "a text"}',
            fix="repair the line",
            place=Place(str(file), number),
        )
    )


def _writes_nothing(folder: RunFolder, found: str) -> Mistake:
    return Mistake(
        Problem(
            f"run {folder.name} has no model that writes texts",
            found=found,
            expected="a finished run of a decoder, model.kind: gpt",
            fix="train one, or use trainwright predict",
        )
    )
