"""The leakage audit of a contract's data, before budget is spent."""

from __future__ import annotations

from trainwright.contract.data import TableData, fold_count
from trainwright.contract.document import Contract
from trainwright.data.audit.audit import audit
from trainwright.data.audit.audited import Audited
from trainwright.data.kinds import Raw
from trainwright.data.prepare import prepare_fold
from trainwright.data.prepared import Prepared
from trainwright.data.reading import RawTable
from trainwright.run.ready import Ready, task_of


def audit_data(ready: Ready) -> tuple[Audited, ...]:
    """Every test of what is ready to train."""
    return audit_prepared(ready.plan.contract, ready.raw, ready.prepared)


def audit_prepared(contract: Contract, raw: Raw, prepared: Prepared) -> tuple[Audited, ...]:
    """Every test of a table that was prepared as a decided contract says; other data has none. Of
    folds, the first stands for all: they are cut by one rule."""
    if not (isinstance(contract.data, TableData) and isinstance(raw, RawTable)):
        return ()
    if fold_count(contract.data):
        task = task_of(contract)
        assert task != "generation", "the rules refuse it for a table"
        prepared = prepare_fold(raw, contract.data, task, contract.seed, 0)
    return audit(prepared, contract.data)
