"""Work that a run with a budget does before its training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from trainwright.contract.sections.data.data import Data
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import Baselines
from trainwright.planner.budget_shares import Rows
from trainwright.run.audit_data import Looked, look_at_data
from trainwright.run.folder.baseline_bundles import fit_beside
from trainwright.run.prepare.ready_run import Ready


@final
@dataclass(frozen=True, slots=True)
class Beforehand:
    """Work that a run with a budget does before training, so that its time is known: data checks
    and baselines. Empty without a budget, or on a resume."""

    found: tuple[Looked, ...] = ()
    fitted: tuple[Baselines, ...] = ()

    def look(self, ready: Ready) -> Looked:
        """Findings of the data checks."""
        return self.found[0] if self.found else look_at_data(ready)

    def baselines(self, prepared: Prepared, data: Data, rows: Rows) -> Baselines:
        """Baselines of the run."""
        return self.fitted[0] if self.fitted else fit_beside(prepared, data, rows)
