"""Result of a run, for programs: the keys of this JSON are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class Result:
    """A judged model: its run, metrics, and verdict."""

    folder: RunFolder
    evaluation: Evaluation
    verdict: Verdict
    seconds: Mapping[str, float]

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.folder.name

    def to_json(self) -> Json:
        """`run`, `verdict`, `clauses`, `metrics`, `slices`, `baselines`, `warnings`, `findings`,
        `report`.

        An unavailable bound is null.
        """
        slices: dict[str, dict[str, Json]] = {}
        for one in self.evaluation.slices:
            entry = slices.setdefault(one.name, {"rows": one.rows})
            entry[one.metric] = one.interval.to_json()
        return {
            "run": self.name,
            "verdict": self.verdict.status,
            "clauses": self.verdict.to_json()["clauses"],
            "metrics": {k: v.to_json() for k, v in self.evaluation.metrics.items()},
            "slices": slices,
            "baselines": {
                name: {k: v.to_json() for k, v in metrics.items()}
                for name, metrics in self.evaluation.baselines.items()
            },
            "warnings": list(self.evaluation.warnings),
            "findings": self.verdict.to_json()["findings"],
            "report": str(self.folder.report),
        }
