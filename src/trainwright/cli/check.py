"""`check`: validate a contract and its data without training."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.data.data_files import exit_code
from trainwright.cli.render import say, say_whole, screen_on_stderr, show_json
from trainwright.contract.reading.read_contract import Document, placed
from trainwright.contract.sections.data.data_traits import DELIVERY
from trainwright.core.errors import ContractMistake
from trainwright.core.lazy_imports import need_torch
from trainwright.core.process import permission_words
from trainwright.core.threads import own_threads
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.modalities.image_modality import MOST_JUDGED
from trainwright.data.quality.finding import one_a_kind
from trainwright.doctor.preflight import preflight
from trainwright.planner.resolve.training_choices import Choice
from trainwright.run.audit_data import look_without_models
from trainwright.run.extend.extendable import describe_start
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes


def check_contract(
    contract: Path,
    overrides: Sequence[str],
    runs: Path,
    start: str = "",
    *,
    every: bool = False,
    as_json: bool = False,
) -> int:
    """Print resolved choices and findings, one line per kind unless `every` finding is requested;
    mistakes are raised, all at once. `start` is that of `train --from`. The exit code is that of
    `data check`."""
    request = Request(contract, overrides, runs, start=start)
    with own_threads():
        ready = _begun(request, make_ready(request, StageTimes(), screen_on_stderr(), MOST_JUDGED))
        _check_search(request, ready.document)
        found = look_without_models(ready)
    findings = preflight(
        ready.plan, ready.raw.facts, ready.prepared, found.faults, found.audited, runs
    )
    if as_json:
        show_json(
            {
                "plan": ready.plan.to_json(),
                "split": ready.prepared.split.to_json(),
                "sample": {**found.sample, "left_to_train": list(found.left_to_train)},
                "audit": [one.to_json() for one in found.audited],
                "findings": [finding.to_json() for finding in findings],
            }
        )
        return exit_code(findings)
    if ready.plan.start:
        say("begins", f"at {describe_start(ready.plan.to_json())}")
    for number, choice in enumerate(_of_interest(ready)):
        say("" if number else "decided", f"{choice.path} = {choice.value} ({choice.reason})")
    for line in _open_strategy(ready):
        say("", line)
    for path in ready.plan.open_paths:
        say("", f"{path} = auto (measured when a run starts)")
    for number, line in enumerate(_audit_lines(found.audited, every=every)):
        say("" if number else "audit", line)
    for finding in findings if every else one_a_kind(findings):
        say(finding.severity, f"{finding.kind.replace('_', ' ')} · {finding.message}")
    say_whole("next", shlex.join(["trainwright", "train", str(contract), *_again(request)]))
    return exit_code(findings)


def _check_search(request: Request, document: Document) -> None:
    """Refuse what `trainwright tune` would refuse of the searched paths."""
    if document.contract.tune == "off":
        return
    # Imported here: few contracts have a search.
    from trainwright.tune.space import problems_of_space

    if problems := list(problems_of_space(request, document, document.contract.tune)):
        raise ContractMistake(placed(problems, document.source))


def _begun(request: Request, ready: Ready) -> Ready:
    """The plan of a run that begins at a checkpoint of another one, if it does."""
    if not request.start:
        return ready
    # Imported here: few runs do.
    need_torch("--from", "a start from a checkpoint")
    from trainwright.run.extend.starting_point import begin_at

    return begin_at(request, ready, ())


def _audit_lines(audited: Sequence[AuditResult], *, every: bool) -> list[str]:
    """Findings of each test; of clean ones only the names, unless `every` one is requested."""
    clean = [one.test for one in audited if one.verdict == "clean" and not every]
    lines = [
        f"{one.verdict} · {one.test} · {one.message}"
        for one in audited
        if every or one.verdict != "clean"
    ]
    return [*lines, f"clean · {', '.join(clean)}"] if clean else lines


def _of_interest(ready: Ready) -> list[Choice]:
    """Resolved choices, without those on loading if nothing is loaded in batches."""
    whole = not ready.plan.contract.model.is_loop_trained
    unused = {f"data.{name}" for name in DELIVERY} if whole else set()
    return [choice for choice in ready.plan.choices if choice.path not in unused]


def _open_strategy(ready: Ready) -> list[str]:
    """What is left to the start of a run of several processes.

    Raises:
        ContractMistake: the model fits into no device, however it is divided.
    """
    if ready.plan.contract.distributed.strategy != "auto":
        return []
    # Imported here: few contracts leave it open.
    from trainwright.planner.choose_strategy import find_fitting
    from trainwright.run.settle_strategy import plan_candidates

    *others, last = find_fitting(plan_candidates(ready))
    names = f"{', '.join(others)} or {last}" if others else last
    return [f"distributed.strategy = auto ({names}: measured when a run starts)"]


def _again(request: Request) -> list[str]:
    words = [word for override in request.overrides for word in ("--set", override)]
    where = [] if request.runs == Path("runs") else ["--runs", str(request.runs)]
    begin = ["--from", request.start] if request.start else []
    return [*words, *where, *begin, *permission_words()]
