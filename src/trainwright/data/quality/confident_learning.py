"""Confident learning: which labels are wrong, from probabilities that never saw them.

Northcutt, Jiang and Chuang 2021, "Confident learning: estimating uncertainty in dataset labels",
JAIR 70, arXiv:1911.00068. Symbols there: given labels are y~ (here `given`), probabilities of row x
for class j are p(j; x) (here `chances`), thresholds t_j (eq. 2), and the rows that the confident
joint C (eq. 1) counts off its diagonal say how many labels are wrong. Those with the lowest
self-confidence p(y~; x) are. On labels that we swapped in real data this is more precise, at the
same recall, than pruning by noise rate, which is the default of the package cleanlab. The rows are
those of its filter `low_self_confidence`, which a test holds together; it needs pandas.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Floats, Integers


def wrong_labels(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Which of the labels int64 [N] are wrong, given out-of-sample probabilities [N, K].

    Every class must have a row.
    """
    count = int(confident_errors(given, chances).sum())
    own = chances[np.arange(len(given)), given]
    wrong = np.full(len(given), count == len(given))
    if 0 < count < len(given):
        wrong[own < np.partition(own, count)[count]] = True
    return wrong


def confident_errors(given: Integers, chances: Floats) -> npt.NDArray[np.bool_]:
    """Rows [N] that are confidently of another class than their label: of the classes whose
    probability is at least as high as it is on average in rows of that label, the likeliest one is
    another, and so is the likeliest of all."""
    classes = chances.shape[1]
    thresholds = np.array([chances[given == label, label].mean() for label in range(classes)])
    confident = chances >= thresholds - 1e-6
    which = np.where(confident, chances, -1.0).argmax(axis=1)
    errors: npt.NDArray[np.bool_] = (
        confident.any(axis=1) & (which != given) & (chances.argmax(axis=1) != given)
    )
    return errors
