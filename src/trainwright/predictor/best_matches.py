"""Best candidates of images or texts by their embeddings."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.data.base.table import Floats

_BLOCK = 2**22


def best_matches(queries: Floats, candidates: Floats, names: pl.Series, top: int) -> pl.DataFrame:
    """The first `top` candidates of each query: `match_1`, `probability_1`, `cosine_1` and so on.

    Embeddings [N, D] and [M, D] are as a network gives them: the product of two is their logit, so
    that a softmax over all candidates gives the probability of each, were one of them right: with
    texts of classes for candidates that is a zero-shot classification (Radford et al. 2021,
    arXiv:2103.00020, section 3.1.2). Equal scores are in the order of the candidates.
    """
    shown = min(top, len(candidates))
    lengths = np.linalg.norm(candidates, axis=1)
    found: list[list[np.ndarray]] = [[], [], []]
    rows = max(1, _BLOCK // max(1, len(candidates)))
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows]
        logits = block @ candidates.T
        places = np.argsort(-logits, axis=1, kind="stable")[:, :shown]
        most = logits.max(axis=1, keepdims=True)
        total = np.exp(logits - most).sum(axis=1, keepdims=True)
        best = np.take_along_axis(logits, places, axis=1)
        sizes = np.linalg.norm(block, axis=1)[:, None] * lengths[places]
        for kept, one in zip(
            found, (places, np.exp(best - most) / total, best / sizes), strict=True
        ):
            kept.append(one)
    places, chances, cosines = (np.concatenate(one) for one in found)
    columns = []
    for at in range(shown):
        columns += [
            names.gather(places[:, at]).alias(f"match_{at + 1}"),
            pl.Series(f"probability_{at + 1}", chances[:, at]),
            pl.Series(f"cosine_{at + 1}", cosines[:, at]),
        ]
    return pl.DataFrame(columns)
