"""Scorers of bundles, by kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainwright.model.families import library_of_bundle
from trainwright.model.family import Scorer
from trainwright.predictor.predictor import Predictor


def read_scorer(kind: str, folder: Path, read_member: Callable[[Path], Predictor]) -> Scorer:
    """The scorer of a bundle; `read_member` reads the models of an ensemble.

    Raises:
        KeyError: no scorer is of this kind. Further errors as those of its reader.
    """
    # Imported here: each kind needs its library, and a bundle needs one kind.
    match kind:
        case "constant":
            from trainwright.model.baselines.dummy import read_constant

            return read_constant(folder)
        case "frequencies":
            from trainwright.model.baselines.ngram_baseline import read_frequencies

            return read_frequencies(folder)
        case "answer_lengths":
            from trainwright.model.answer_lengths import AnswerLengths

            return AnswerLengths()
        case "ridge_match":
            from trainwright.model.baselines.ridge_match import read_ridge_match

            return read_ridge_match(folder)
        case "okapi_bm25":
            from trainwright.model.baselines.okapi_bm25 import read_okapi_bm25

            return read_okapi_bm25(folder)
        case "ensemble":
            from trainwright.predictor.ensemble_scorer import read_ensemble

            return read_ensemble(folder, read_member)
        case "network" | "encoder" | "image_encoder" | "adapter":
            from trainwright.predictor.network_scorer import read_network

            return read_network(folder)
        case _:
            return library_of_bundle(kind).read(folder)
