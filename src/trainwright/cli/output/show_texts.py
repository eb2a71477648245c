"""Texts of a decoder, as the verb shows them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.predictor.text_generation import Continuation
    from trainwright.run.after.generate_text import Asked


def tell_doubts(found: Continuation, what: str) -> None:
    """What of a prompt was not read, on stderr."""
    from trainwright.run.summary import labelled

    if found.unread:
        text = f"the first {found.unread:,} tokens of {what} are not read: the context is full"
        sys.stderr.write(labelled("warning", text) + "\n")
    if found.unknown:
        text = f"{found.unknown:,} characters of {what} are in no training text"
        sys.stderr.write(labelled("warning", text) + "\n")


def describe_text(prompt: Asked, found: Continuation) -> dict[str, object]:
    """A text with its prompt, as JSON."""
    return {
        "prompt": prompt.given,
        "text": found.text,
        "tokens": found.tokens,
        "ended_by": found.ended_by,
    }
