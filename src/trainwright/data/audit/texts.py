"""Held-out text that stands in the training part too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trainwright.core.units import many
from trainwright.data.audit.audited import Audited
from trainwright.data.audit.overlap import COPIED, Mask, copied_segments
from trainwright.data.audit.rows import verdict_of_share
from trainwright.data.prepared import Prepared
from trainwright.data.quality.finding import positions
from trainwright.data.table import Part, TokenInputs
from trainwright.data.vocabulary import TextVocabulary


def audit_text(prepared: Prepared) -> tuple[Audited, ...]:
    """Validation and test segments that repeat training text; `rows` are positions of their first
    tokens."""
    copied, length = text_copies(prepared, (prepared.validation, prepared.test))
    rows = np.concatenate([prepared.validation.rows, prepared.test.rows])[copied]
    share = len(rows) / max(1, len(copied))
    message = (
        f"{len(rows):,} of {many(len(copied), 'held-out segment')} repeat training text: at least "
        f"{COPIED:.0%} of their tokens are in sequences of {length} that it has too"
    )
    return (
        Audited(
            "text overlap",
            verdict_of_share(share),
            share,
            message,
            "text_overlap",
            len(rows),
            positions(rows),
            fix="remove the repeated text from the files",
        ),
    )


def text_copies(prepared: Prepared, parts: Sequence[Part]) -> tuple[Mask, int]:
    """Which segments of the parts [N] repeat training text, and how long the sequences are that
    were compared."""
    train, vocabulary = prepared.train.inputs, prepared.features
    assert isinstance(train, TokenInputs), "a text"
    assert isinstance(vocabulary, TextVocabulary), "a text"
    inputs = [part.inputs for part in parts if isinstance(part.inputs, TokenInputs)]
    held_out = replace(
        inputs[0],
        starts=np.concatenate([one.starts for one in inputs]),
        lengths=np.concatenate([one.lengths for one in inputs]),
    )
    return copied_segments(train, held_out, pieces=vocabulary.kind == "subwords")
