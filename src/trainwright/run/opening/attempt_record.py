"""Record of a run at the start of an attempt."""

from __future__ import annotations

from trainwright.core.files import Json
from trainwright.run.prepare.ready_run import Ready
from trainwright.run.request.run_request import Request
from trainwright.tracking.record import RunFacts, RunRecord
from trainwright.tracking.run_folder import RunFolder


def start_record(folder: RunFolder, request: Request, ready: Ready) -> RunRecord:
    """Write the record of an attempt that starts now."""
    facts = RunFacts(
        command=request.command,
        source=ready.document.source.folder,
        data_version=ready.prepared.version,
        seeds={
            "contract": ready.plan.contract.seed,
            "split": ready.plan.contract.split_seed,
        },
        determinism={
            "level": ready.plan.contract.resume.determinism,
            "cost": dict(ready.plan.determinism_cost),
        },
        threads={"cores": ready.device.cores, "torch": ready.device.threads},
        price_per_hour=ready.plan.contract.budget.price_per_hour,
        budget=_budget(ready),
        gpus=[ready.device.name] if ready.device.kind == "cuda" else [],
    )
    return RunRecord.start(folder.record, facts)


def _budget(ready: Ready) -> dict[str, Json]:
    """Record entry of an allotted budget."""
    allotment = ready.plan.allotment
    if not allotment.is_made:
        return {}
    return {
        "limit_seconds": allotment.limit_seconds,
        "seconds_before": ready.seconds_before,
        "planned": dict(allotment.planned),
    }
