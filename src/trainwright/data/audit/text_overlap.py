"""Contamination of held-out text by training text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.row_overlap import verdict_of_share
from trainwright.data.audit.shared_ngrams import COPIED, Overlap, copied_segments
from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.table import Part
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.data.quality.finding import row_numbers_of
from trainwright.data.types import Prepared


def audit_text(prepared: Prepared) -> tuple[AuditResult, ...]:
    """Validation and test segments that repeat training text; `rows` are positions of their first
    tokens."""
    overlap = text_copies(prepared, (prepared.validation, prepared.test))
    rows = np.concatenate([prepared.validation.rows, prepared.test.rows])[overlap.copied]
    compared = int(overlap.compared.sum())
    share = len(rows) / max(1, compared)
    message = (
        f"{len(rows):,} of {many(compared, 'held-out segment')} repeat training text: at least "
        f"{COPIED:.0%} of their tokens are in {overlap.length}-grams of it"
    )
    if compared < len(overlap.compared) or overlap.searched < 1:
        message += (
            f" ({compared / len(overlap.compared):.1%} of all held-out segments were compared with "
            f"{overlap.searched:.1%} of the training text)"
        )
    return (
        AuditResult(
            "text overlap",
            verdict_of_share(share, len(rows)),
            share,
            message,
            "text_overlap",
            len(rows),
            row_numbers_of(rows),
            fix="remove the repeated text from the files",
        ),
    )


def text_copies(prepared: Prepared, parts: Sequence[Part]) -> Overlap:
    """N-gram overlap of the segments of the parts [N] with the training text."""
    train = TokenInputs.of_kind(prepared.train.inputs.segments)
    vocabulary = TokenEncoding.of_kind(prepared.features).vocabulary
    inputs = [TokenInputs.of_kind(part.inputs.segments) for part in parts]
    held_out = replace(
        inputs[0],
        starts=np.concatenate([one.starts for one in inputs]),
        lengths=np.concatenate([one.lengths for one in inputs]),
    )
    return copied_segments(train, held_out, pieces=vocabulary.kind == "subwords")
