"""Evaluated rows of a table that are copies of training rows."""

from __future__ import annotations

import numpy as np

from trainwright.contract.sections.data.data import fold_count
from trainwright.data.audit.near_text_overlap import near_texts_of, text_groups
from trainwright.data.audit.row_overlap import near_rows_of, repeats_of
from trainwright.evaluation.experiments.judged_table import JudgedTable
from trainwright.evaluation.experiments.repeated_rows import Mask, excess
from trainwright.evaluation.experiments.suspects import Suspect


def copied_rows(suspicion: Suspect, judged: JudgedTable) -> Mask:
    """Mask of evaluated rows that duplicate a training row."""
    found = np.zeros(len(judged.folds), dtype=np.bool_)
    if suspicion.trial == "near texts":
        return _near_texts(judged)
    columns, target = judged.columns, judged.section.target_columns[0]
    for train, held, places in judged.splits():
        if suspicion.trial == "near rows":
            found[places] = near_rows_of(train, held, columns, target)
        else:
            repeats = repeats_of(train, held, columns, target)
            found[places] = excess(repeats.equal, repeats.copied, judged.seed)
    return found


def _near_texts(judged: JudgedTable) -> Mask:
    """`copied_rows` for texts, compared once for all folds."""
    columns, target = judged.columns, judged.section.target_columns[0]
    every = judged.every.frame
    groups = text_groups(every, columns)
    if fold_count(judged.section):
        found = np.zeros(len(judged.folds), dtype=np.bool_)
        for fold in np.unique(judged.folds):
            held = judged.folds == fold
            order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
            train = int((~held).sum())
            found[held] = near_texts_of(groups[order], every[order], train, columns, target)
        return found
    train, judged_rows = len(judged.prepared.train), len(judged.scored.part)
    order = np.r_[0:train, len(groups) - judged_rows : len(groups)]
    return near_texts_of(groups[order], every[order], train, columns, target)
