"""Learner of trees, with resumable training, stop rules and the job of a library."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any, final

from trainwright.checkpoint.kept_trees import FoundTrees, KeptTrees
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.run_settings import Resume
from trainwright.contract.sections.training.training import Checkpointing
from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.progress import Progress
from trainwright.core.threads import usable_cores
from trainwright.data.types import Prepared
from trainwright.engine.save_interval import (
    BestSpacing,
    ByClock,
    FixedSpacing,
    ShareSpacing,
    Spacing,
)
from trainwright.model.library_family import LibraryFit, LibraryJob, TreeFamily
from trainwright.model.tree_growth import NOTHING_GROWN, Grown, OtherTrees, RuleEnding, Watching
from trainwright.planner.budget_allotment import EndingDelay
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.library_fit import Fitted, job_of
from trainwright.run.request import Additions
from trainwright.run.run_context import RunContext, build_spacing
from trainwright.run.screen import labelled
from trainwright.tracking.clock import SystemClock
from trainwright.tracking.events import (
    Event,
    Noted,
    Observers,
    Resumed,
    Saved,
    SaveMissed,
    Validated,
)
from trainwright.tracking.run_folder import RunFolder

_SHARE = 0.02

_LEAST_SECONDS = 10.0
"""Trees are saved at intervals that take at most this share of the time."""


@final
class TreeRules:
    """Tells the caller's observers the validation value of each tree, as `val_<metric>` with the
    tree as the step, and asks the caller's stop rules.

    `metric` is the loss or error that LightGBM watches: less is better. `ending` is that by a rule.
    """

    def __init__(self, added: Additions, metric: str) -> None:
        self._added = added
        self._metric = f"val_{metric}"
        self._progress = Progress()
        self._best = math.inf
        self._before = NOTHING_GROWN
        self._asked = 0
        self.ending: RuleEnding | None = None

    def resume(self, before: Grown) -> None:
        """Go on from kept trees. A rule's ending stays, whatever the rules are now: trees that must
        be grown again end after as many rounds."""
        self._before = before
        if before.is_provable:
            self.ending = before.ended_by
            self._best = math.inf if math.isnan(before.best_value) else before.best_value

    def restart(self) -> None:
        """The kept trees are grown again from the first."""
        self.ending, self._best = None, math.inf

    def observe(self, trees: int, value: float) -> None:
        """Take notice of the newest tree."""
        self._progress = Progress(step=trees, attempted=trees)
        improved = value < self._best
        self._best = min(value, self._best)
        event = Validated(self._progress, {self._metric: value}, 0.0, improved)
        for observer in self._added.observers:
            observer.observe(event)

    def must_stop(self) -> bool:
        """Does a rule complete the training after this tree? Every rule is asked each time."""
        self._asked += 1
        if (kept := self._before.ended_by) is not None:
            self.ending = kept if self._asked >= self._before.rounds else None
        else:
            asked = [rule.reason(self._progress) for rule in self._added.stop_rules]
            reasons = [reason for reason in asked if reason is not None]
            self.ending = RuleEnding(*reasons[0]) if reasons else None
        return self.ending is not None and self.ending.is_final

    @property
    def is_interrupted(self) -> bool:
        """Has a rule ended the training here, to be resumed?"""
        return self.ending is not None and not self.ending.is_final


@final
class TreeLearner:
    """Trees that grow in rounds. An interrupted run continues from its saved trees, to the same
    final trees. With `rounds` each of several targets has so many."""

    def __init__(
        self,
        section: ModelSection,
        family: TreeFamily[Any],
        plan: Plan,
        rounds: tuple[int, ...] = (),
    ) -> None:
        self._section = section
        self._family = family
        self._plan = plan
        self._rounds = rounds
        self._environment = family.environment()

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Grow trees until the validation rows show no improvement."""
        name = run.folder.full_name
        with run.spent.training(name):
            delay = EndingDelay(self._plan.allotment)
            budget = _Budget(self._plan.training_seconds - run.spent.used(name), delay)
            job = replace(job_of(self._plan.contract, prepared), rounds=self._rounds)
            rules = TreeRules(run.added, self._family.watched(self._section, job))
            with self._share(job, prepared, run) as shared:
                fitted = self._grow(shared, run, budget, rules)
        predictor = Predictor(prepared.features, prepared.target, fitted.scorer)
        trees, history, kept = many(fitted.trees, "tree"), fitted.history, fitted.trees
        if run.flag.is_up:
            return Fitted(predictor, "interrupted", run.flag.why)
        if budget.has_ended_it:
            reason = f"{trees} within the budget"
            return Fitted(predictor, "budget", reason, (), 0, history, kept, fitted.rounds)
        said = fitted.warnings
        if ending := rules.ending:
            reason = f"{ending.text}, {trees} kept"
            return Fitted(predictor, ending.kind, reason, said, 0, history, kept, fitted.rounds)
        rounds = fitted.rounds
        return Fitted(predictor, "finished", fitted.reason, said, 0, history, kept, rounds)

    def _share(
        self, job: LibraryJob, prepared: Prepared, run: RunContext
    ) -> AbstractContextManager[LibraryJob]:
        """The job on the rows of this process, while others grow the same trees on the rest."""
        if self._plan.contract.distributed.strategy == "single":
            return nullcontext(job)
        # Imported here: only several processes need torch.
        from trainwright.run.ranks.follow import share_trees

        return share_trees(self._section, self._plan, prepared, run, job)

    def _grow(
        self, job: LibraryJob, run: RunContext, budget: _Budget, rules: TreeRules
    ) -> LibraryFit:
        begun = _saved_before(run.folder) if run.goes_on else ""
        store = KeptTrees(run.folder.checkpoints, run.identity, self._family.read_grown, begun)
        kept = store.newest_valid(job.outputs)
        tell = Observers(run.observers, run.screen.say).observe
        section = self._plan.contract.training.checkpointing
        if kept.name:
            # Another number of threads would sum the validation values in another order.
            before = int(kept.grown_with.get("threads", job.threads))
            job = replace(job, threads=min(before, usable_cores()))
            if self._family.threads_change_bits and not kept.grown.is_done:
                _check_threads(before, job.threads, self._plan.contract.resume)
        grown_with = {**self._environment, "threads": job.threads}
        keeper = _Keeper(store, section, run, tell, grown_with, rules)
        with closing(run.screen.count(self._family.most_rounds(self._section))) as progress:

            def show(trees: int, value: float) -> None:
                progress.count(trees, "tree", value)
                rules.observe(trees, value)

            watching = Watching(
                show,
                lambda: budget.is_used_up() or rules.must_stop(),
                lambda: run.flag.is_up or rules.is_interrupted,
                keeper,
            )
            if kept.name:
                _say_resumed(kept, grown_with, run, tell)
                rules.resume(kept.grown)
                budget.has_ended_it = self._has_budget_ended(kept.grown)
            try:
                self._check_end(kept.grown, has_budget_ended_it=budget.has_ended_it)
                return self._family.grow(self._section, job, watching, kept.grown)
            except OtherTrees as error:
                _say_other_trees(str(error), _changed(kept, grown_with), run, tell)
                keeper.begins_anew, budget.has_ended_it = True, False
                rules.restart()
                return self._family.grow(self._section, job, watching, NOTHING_GROWN)

    def _check_end(self, grown: Grown, *, has_budget_ended_it: bool) -> None:
        """Refuse an ending that only a budget could have caused, without a budget.

        Raises:
            OtherTrees: so it is.
        """
        if has_budget_ended_it and math.isinf(self._plan.training_seconds):
            raise OtherTrees(f"the end of {grown.trees:,} kept trees")

    def _has_budget_ended(self, grown: Grown) -> bool:
        """Did it end neither by a stop rule nor by its own length or patience?"""
        waited = grown.rounds - grown.best_round
        has_waited = bool(grown.best_trees) and waited >= self._family.patience(self._section)
        is_complete = has_waited or grown.rounds >= self._family.most_rounds(self._section)
        return grown.is_done and grown.ended_by is None and not is_complete


@final
class _Budget:
    """Remaining seconds of a training's budget."""

    def __init__(self, seconds: float, delay: EndingDelay) -> None:
        self._deadline = time.monotonic() + seconds
        self._delay = delay
        self.has_ended_it = False

    def is_used_up(self) -> bool:
        """Must training end?"""
        self.has_ended_it = time.monotonic() + self._delay.seconds >= self._deadline
        return self.has_ended_it


@final
class _Keeper:
    """Saves trees when they are due by the clock, or requested by a signal. With `begins_anew`, its
    first save removes the older files."""

    def __init__(
        self,
        store: KeptTrees,
        section: Checkpointing,
        run: RunContext,
        tell: Callable[[Event], None],
        grown_with: Mapping[str, Json],
        rules: TreeRules,
    ) -> None:
        self._store = store
        self._rules = rules
        self._grown_with = dict(grown_with)
        self._by_clock = ByClock(_spacing(section), SystemClock())
        self._is_tolerant = section.on_failure == "continue"
        self._missed = 0
        self.begins_anew = False
        self._run = run
        self._tell = tell

    def is_due(self) -> bool:
        """Has enough time passed, or was a save requested?"""
        return self._run.flag.take_save() or self._by_clock.due(Progress())

    def keep(self, grow: Callable[[], Grown]) -> None:
        """Save the trees.

        Raises:
            StorageFailed: the save failed, and failures end the run.
        """
        started = time.monotonic()
        grown = grow()
        if grown.is_done:
            grown = replace(grown, ended_by=self._rules.ending)
        try:
            name, size = self._store.save(grown, self._grown_with, alone=self.begins_anew)
        except StorageFailed as error:
            if not self._is_tolerant or self._run.flag.is_up or self._rules.is_interrupted:
                raise
            self._missed += 1
            where = f"tree {grown.trees:,} is not kept ({self._missed} missed so far)"
            self._run.screen.say(labelled("storage", f"{where}: {error}"))
            self._tell(SaveMissed(_progress(grown), str(error), self._missed))
        else:
            self.begins_anew = False
            seconds = time.monotonic() - started
            self._tell(Saved(_progress(grown), name, seconds, size, math.nan, seconds))
        self._by_clock.stalled(time.monotonic() - started)


def _spacing(section: Checkpointing) -> Spacing:
    if section.save_every_minutes == "off":
        return FixedSpacing(math.inf)
    if section.save_every_minutes != "auto":
        return build_spacing(section)
    hours = section.expected_hours_between_failures
    return ShareSpacing(_SHARE, _LEAST_SECONDS) if hours == "off" else BestSpacing(3600 * hours)


def _progress(grown: Grown) -> Progress:
    return Progress(step=grown.trees, attempted=grown.rounds)


def _check_threads(before: int, now: int, section: Resume) -> None:
    """Refuse fewer threads than the trees were begun with, if the contract requires exact bits.

    Raises:
        Mistake: so it does.
    """
    if now == before or section.determinism != "bitwise" or section.numerics_changed == "record":
        return
    raise Mistake(
        Problem(
            "the run cannot resume bit-exactly, which resume.determinism promises",
            path="resume.determinism",
            found=f"the values that end the growing may differ in their last bits: threads "
            f"{before} -> {now}",
            fix=f"resume with the same threads: --set compute.threads={before}, or accept other "
            "last bits: --set resume.numerics_changed=record",
        )
    )


def _changed(kept: FoundTrees, now: Mapping[str, Json]) -> str:
    """Differences in the environment the trees were grown in."""
    before = kept.grown_with
    changed = (
        f"{name} {before.get(name)} -> {now[name]}" for name in now if before.get(name) != now[name]
    )
    return ", ".join(changed)


def _say_resumed(
    kept: FoundTrees, now: Mapping[str, Json], run: RunContext, tell: Callable[[Event], None]
) -> None:
    grown = kept.grown
    what = "all of them are grown" if grown.is_done else "the same as without the interruption"
    run.screen.say(
        labelled("resumed", f"goes on from tree {grown.trees:,}, from {kept.name}: {what}")
    )
    for rejected in kept.rejected:
        run.screen.say(labelled("rejected", rejected))
    tell(Resumed(_progress(grown), kept.name, kept.rejected))
    if (changed := _changed(kept, now)) and not grown.is_done:
        note = (
            f"grown elsewhere until now ({changed}): the trees are checked, and the validation "
            "values that end the growing may differ in their last bits"
        )
        run.screen.say(labelled("note", note))
        tell(Noted("not_exact", note))


def _say_other_trees(
    what: str, changed: str, run: RunContext, tell: Callable[[Event], None]
) -> None:
    why = changed or "nothing that is known has changed"
    note = f"{what} comes out otherwise here ({why}): all are grown again from the first"
    run.screen.say(labelled("note", note))
    tell(Noted("not_exact", note))


def _saved_before(folder: RunFolder) -> str:
    # Imported here: a new run has saved nothing.
    from trainwright.run.folder.interruption import saves_recorded

    return saves_recorded(folder)
