"""Imported by the server that trials are forked from: what each trial would build again.

No thread is started and no tensor is made here.
"""

from __future__ import annotations

import gc

from sklearn.metrics import roc_auc_score

import trainwright.run.learners.tree_learner
import trainwright.tune.trial  # noqa: F401
from trainwright.contract.document import Contract
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.run_settings import Tune
from trainwright.tracking.environment import list_packages, modules_of_packages

for section in (Contract, TableData, Tune):
    # Their validators are built when they are first used.
    section.model_rebuild()
list_packages()
modules_of_packages()
# At its first metric scikit-learn searches all installed packages for plugins.
roc_auc_score([0, 1], [0.0, 1.0])
# Else the first garbage collection of each trial copies all of the memory that it shares.
gc.freeze()
