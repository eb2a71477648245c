"""Confident learning: label errors from out-of-sample probabilities.

Northcutt, Jiang and Chuang 2021, "Confident learning: estimating uncertainty in dataset labels",
JAIR 70, arXiv:1911.00068. Symbols there: given labels are y~ (here `given`), probabilities of row x
for class j are p(j; x) (here `chances`), thresholds t_j (eq. 2), and the rows that the confident
joint C (eq. 1) counts off its diagonal say how many labels are wrong. Those with the lowest
self-confidence p(y~; x) are. On real data with swapped labels this is more precise, at the same
recall, than pruning by noise rate, the default of cleanlab. The selection equals cleanlab's filter
`low_self_confidence` (a test compares them; it needs pandas).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Floats, Integers


def wrong_labels(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Mask [N] of wrong labels, given labels int64 [N] and out-of-sample probabilities [N, K].
    Every class must have a row.
    """
    count = int(confident_errors(given, chances).sum())
    own = chances[np.arange(len(given)), given]
    wrong = np.full(len(given), count == len(given))
    if 0 < count < len(given):
        wrong[own < np.partition(own, count)[count]] = True
    return wrong


def confident_errors(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Mask [N] of rows that confidently belong to another class: among the classes whose
    probability is at least the mean probability in rows of that label (t_j), the likeliest is not
    the given label, and neither is the overall argmax."""
    classes = chances.shape[1]
    thresholds = np.array([chances[given == label, label].mean() for label in range(classes)])
    confident = chances >= thresholds - 1e-6
    which = np.where(confident, chances, -1.0).argmax(axis=1)
    errors: npt.NDArray[np.bool_] = (
        confident.any(axis=1) & (which != given) & (chances.argmax(axis=1) != given)
    )
    return errors
