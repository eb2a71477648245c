"""How likely a label is wrong where classes overlap: disagreement alone is no error.

Among rows of which the models are surest that they are of no class j, labels j are errors or nearly
all errors; how common they are is the noise floor of j, r. Where a model leaves a label j a chance
q, of 100 such rows 100 q have it, of which 100 r are wrong: a share r / q of them. In a class that
overlaps with others most disagreements have a large q, and are honest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwright.data.table import Floats, Integers

_SUREST = 4
_DOUBT = 0.01
_TIMES_THE_PUREST = 2.0
_MOST_NOISE = 0.2
_DEVIATIONS = 2.0
_MOST_APART = 10
_ROWS_OF_A_GROUP = 20


def chances_wrong(given: Integers, chances: Floats) -> Floats:
    """The chance [N] that each of the labels int64 [N] is wrong, at most, by out-of-sample
    probabilities [N, K]; 0 for a label that is the likeliest.

    The noise floor of a class is the share of its labels in the quarter of the rows of which it is
    least likely, as high as 1 in 100 such quarters leaves open. Where the share rises already in
    the next quarter or is more than a fifth, rows of the class lie there too, and the floor is at
    most twice that of the class with the lowest. q is the share of the label among rows of about
    the same probability: of groups of 20, made to rise with it. Of more than 10 classes all are
    taken together.
    """
    classes = chances.shape[1]
    is_label = np.arange(classes) == given[:, None]
    unlike = np.arange(classes) != chances.argmax(axis=1)[:, None]
    parts = [unlike] if classes > _MOST_APART else [unlike & (np.arange(classes) == j)
                                                   for j in range(classes)]  # fmt: skip
    parts = [part for part in parts if part.any()]
    floors = [_floor(chances[part], is_label[part]) for part in parts]
    least = min(floor for floor, _ in floors)
    wrong = np.zeros(chances.shape)
    for part, (floor, flat) in zip(parts, floors, strict=True):
        most = floor if flat else min(floor, _TIMES_THE_PUREST * least)
        usual = _shares(chances[part], is_label[part])
        wrong[part] = np.minimum(1.0, most / np.maximum(usual, 1e-12))
    of_labels: Floats = wrong[np.arange(len(given)), given]
    return of_labels


def _floor(chances: Floats, is_label: npt.NDArray[np.bool_]) -> tuple[float, bool]:
    """The noise floor by chances [M] of a class and whether rows have its label, and whether the
    share stays the same in the next quarter of the rows."""
    from scipy.special import betaincinv

    order = np.argsort(chances, kind="stable")
    rows = max(1, len(order) // _SUREST)
    first, second = int(is_label[order[:rows]].sum()), int(is_label[order[rows : 2 * rows]].sum())
    share = (first + second) / (2 * rows)
    deviation = np.sqrt(2 * share * (1 - share) / rows)
    flat = (second - first) / rows <= _DEVIATIONS * deviation and first / rows <= _MOST_NOISE
    # Clopper and Pearson's upper end.
    floor = 1.0 if first == rows else float(betaincinv(first + 1, rows - first, 1 - _DOUBT))
    return floor, flat


def _shares(chances: Floats, is_label: npt.NDArray[np.bool_]) -> Floats:
    """How many of about 20 rows of about the same chance have the label, rising with the chance."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(chances, kind="stable")
    groups = np.arange(len(order)) * max(1, len(order) // _ROWS_OF_A_GROUP) // len(order)
    sizes = np.bincount(groups)
    means = np.bincount(groups, is_label[order]) / sizes
    rising = isotonic_regression(means, weights=sizes).x
    shares = np.empty(len(order))
    shares[order] = rising[groups]
    return shares
