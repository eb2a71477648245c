"""`check`: everything that can be known without training."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.showing import screen_on_stderr, show_json
from trainwright.doctor.preflight import preflight
from trainwright.run.ready import Request, make_ready
from trainwright.run.stages import Stages


def check_contract(contract: Path, overrides: Sequence[str], runs: Path, *, as_json: bool) -> None:
    """Print what was decided and what the checks found; mistakes are raised, all at once."""
    request = Request(contract, overrides, runs)
    ready = make_ready(request, Stages(), screen_on_stderr())
    findings = preflight(ready.plan, ready.prepared, runs)
    if as_json:
        show_json(
            {
                "plan": ready.plan.to_json(),
                "split": ready.prepared.split.to_json(),
                "findings": [finding.to_json() for finding in findings],
            }
        )
        return
    for choice in ready.plan.choices:
        sys.stdout.write(f"{choice.path} = {choice.value}  ({choice.reason})\n")
    for finding in findings:
        sys.stdout.write(f"{finding.status:8} {finding.check}: {finding.message}\n")
    sys.stdout.write(f"next:    trainwright train {contract}\n")
