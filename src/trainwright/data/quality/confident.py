"""Confident learning: which labels are wrong, from probabilities that never saw them.

Northcutt, Jiang and Chuang 2021, "Confident learning: estimating uncertainty in dataset labels",
JAIR 70, arXiv:1911.00068. Symbols there: given labels are y~ (here `given`), probabilities of row x
for class j are p(j; x) (here `chances`), thresholds t_j (eq. 2), the confident joint C (eq. 1),
pruned by noise rate (section 3.2, PBNR). The numbers agree with the package cleanlab, which needs
pandas; a test holds them together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwright.data.table import Floats, Integers


def wrong_labels(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Which of the labels int64 [N] are wrong, given out-of-sample probabilities [N, K].

    Every class must have a row. A label that is also the likeliest class is never wrong.
    """
    wanted = _off_diagonal_counts(given, chances)
    wrong = np.zeros(len(given), dtype=np.bool_)
    for label in range(chances.shape[1]):
        rows = np.flatnonzero(given == label)
        for other in range(chances.shape[1]):
            count = min(int(wanted[label, other]), len(rows) - 1)
            if other == label or count <= 0:
                continue
            margin = chances[rows, other] - chances[rows, label]
            beyond = -np.partition(-margin, count)[count]
            wrong[rows[margin > beyond]] = True
    likeliest: npt.NDArray[np.bool_] = chances.argmax(axis=1) == given
    return wrong & ~likeliest


def confident_joint(given: Integers, chances: Floats) -> Floats:
    """Rows [K, K] of given label i that are confidently of class j, scaled so that row i sums to
    the rows of label i and all together to N."""
    classes = chances.shape[1]
    sizes = np.bincount(given, minlength=classes).astype(np.float64)
    thresholds = np.array([chances[given == label, label].mean() for label in range(classes)])
    confident = chances >= thresholds - 1e-6
    which = np.where(confident, chances, -1.0).argmax(axis=1)
    counted = confident.any(axis=1)
    joint = np.zeros((classes, classes))
    np.add.at(joint, (given[counted], which[counted]), 1.0)
    np.fill_diagonal(joint, np.maximum(joint.diagonal(), 1.0))
    joint *= (sizes / joint.sum(axis=1))[:, None]
    scaled: Floats = joint / joint.sum() * len(given)
    return scaled


def _off_diagonal_counts(given: Integers, chances: Floats) -> Integers:
    joint = confident_joint(given, chances)
    counts: Integers = np.rint(joint).astype(np.int64)
    return counts
