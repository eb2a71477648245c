"""`check`: everything that can be known without training."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.showing import say, say_whole, screen_on_stderr, show_json
from trainwright.doctor.preflight import preflight
from trainwright.run.auditing import look_at_data
from trainwright.run.ready import Request, make_ready
from trainwright.run.stages import Stages


def check_contract(contract: Path, overrides: Sequence[str], runs: Path, *, as_json: bool) -> None:
    """Print what was decided and what the checks found; mistakes are raised, all at once."""
    request = Request(contract, overrides, runs)
    ready = make_ready(request, Stages(), screen_on_stderr())
    found = look_at_data(ready)
    findings = preflight(ready.plan, ready.prepared, found.faults, found.audited, runs)
    if as_json:
        show_json(
            {
                "plan": ready.plan.to_json(),
                "split": ready.prepared.split.to_json(),
                "audit": [one.to_json() for one in found.audited],
                "findings": [finding.to_json() for finding in findings],
            }
        )
        return
    for number, choice in enumerate(ready.plan.choices):
        say("" if number else "decided", f"{choice.path} = {choice.value} ({choice.reason})")
    for path in ready.plan.open_paths:
        say("", f"{path} = auto (measured when a run starts)")
    for number, one in enumerate(found.audited):
        say("" if number else "audit", f"{one.verdict} · {one.test} · {one.message}")
    for finding in findings:
        say(finding.severity, f"{finding.kind.replace('_', ' ')} · {finding.message}")
    say_whole("next", shlex.join(["trainwright", "train", str(contract), *_again(request)]))


def _again(request: Request) -> list[str]:
    words = [word for override in request.overrides for word in ("--set", override)]
    return words if request.runs == Path("runs") else [*words, "--runs", str(request.runs)]
