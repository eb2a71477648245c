"""Scorer protocol, between fitting and use of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from trainwright.data.base.table import Floats, Inputs


class Scorer(Protocol):
    """Fitted model without its features.

    Implementations return finite scores for any inputs of the shape they were fitted on, 0 rows
    included, and the same scores for the same rows regardless of the other rows and of earlier
    calls. `testing/scorer_conformance.py` checks this.
    """

    @property
    def kind(self) -> str:
        """One of `predictor.bundle.bundle_kinds`: it decides who reads its files."""
        ...

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C] (C = 2 for two classes), values [N, 1] in the target's own
        unit, or of a text the negative log-likelihood (nats) of each segment, [N, 1]."""
        ...

    def write(self, folder: Path) -> None:
        """Write its own files into an existing folder; none of them is a pickle."""
        ...


@runtime_checkable
class AttributingScorer(Protocol):
    """A scorer whose library says what each input adds to a score."""

    def contributions(self, inputs: Inputs) -> Floats:
        """SHAP values [N, K, M + 1] of the M columns of the inputs (numbers, terms, codes) for the
        K raw outputs, and last the expected output, to which they add up: the log-odds of the
        second of two classes, the raw score of each of several, or a value before the objective's
        link."""
        ...
