"""`generate` with adapters of several runs on one base."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.cli.output.render import show_json
from trainwright.cli.output.show_texts import describe_text, tell_doubts
from trainwright.core.terminal import show_safely
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.cli.texts.asked_texts import AskedTexts
    from trainwright.predictor.text_generation import DecodingOptions


def generate_beside(
    folders: Sequence[RunFolder], asked: AskedTexts, decoding: DecodingOptions
) -> None:
    """Continue a prompt with each adapter, below the name of its run, and with the base."""
    # Imported here: it needs torch.
    from trainwright.run.after.generate_text import open_generators

    texts = []
    found = open_generators(folders, decoding, is_chat=asked.is_chat, with_base=asked.with_base)
    for name, generator, reader in found:
        prompt = reader.read(asked.prompt)
        said = generator.generate(prompt.pieces)
        texts.append({"run": name, **describe_text(prompt, said)})
        if not asked.as_json:
            sys.stdout.write(f"== {show_safely(name)}\n{show_safely(said.text)}\n")
        tell_doubts(said, f"the prompt by {name}")
    if asked.as_json:
        show_json(texts)
