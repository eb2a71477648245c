"""Type checks of a job's fields, before anything is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, get_args

from trainwright.core.errors import Mistake, Problem
from trainwright.engine.job import Job
from trainwright.run.script.same_settings import OnChange


class _Field(NamedTuple):
    """A field, the method that each of its values needs (empty: to be callable), and an example;
    `is_many` if it is a tuple of them."""

    name: str
    method: str
    written: str
    is_many: bool = False


_FIELDS = (
    _Field("stop_rules", "reason", "stop_rules=(tw.StepLimit(1000),)", True),
    _Field("knobs", "", "knobs=(tw.LearningRate(optimizer, schedule),)", True),
    _Field(
        "outcome_observers",
        "take_outcome",
        "outcome_observers=(tw.AverageUpdate(mean),)",
        True,
    ),
    _Field("probes", "around", "probes=tw.StepProbes(windows, [layers])"),
    _Field("observers", "observe", "observers=(observer,), each with a method observe", True),
    _Field("validate", "", "validate=function, without calling it"),
    _Field("checkpoint_every", "due", "checkpoint_every=tw.Every(100)"),
    _Field("checkpoints", "newest_valid", 'checkpoints=tw.Checkpoints("folder", keep_top_k=1)'),
)


def check_fields(job: Job, changed: OnChange) -> None:
    """Refuse fields of the wrong type.

    Raises:
        Mistake: all such fields at once.
    """
    problems = [problem for field in _FIELDS for problem in _of_field(job, field)]
    if changed not in get_args(OnChange):
        problems.append(_problem("changed", changed, 'changed="refuse" or changed="record"'))
    if problems:
        raise Mistake(problems)


def _of_field(job: Job, field: _Field) -> Iterator[Problem]:
    value: object = getattr(job, field.name)
    values = value if field.is_many else (value,)
    fits: Callable[[object], bool] = (
        (lambda one: callable(getattr(one, field.method, None))) if field.method else callable
    )
    if not isinstance(values, tuple | list):
        yield _problem(f"Job.{field.name}", value, field.written)
    else:
        wrong = [one for one in values if not fits(one)]
        yield from (_problem(f"Job.{field.name}", one, field.written) for one in wrong[:1])


def _problem(path: str, found: object, written: str) -> Problem:
    return Problem(
        "this is not what the argument takes",
        path=path,
        found=f"{type(found).__name__} {found!r}"[:160],
        fix=f"write {written}",
    )
