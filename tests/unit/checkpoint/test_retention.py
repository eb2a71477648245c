"""Row F-24: what must survive does, over random histories with crashes, rollbacks and damage.

`Course` is the oracle. It never forgets a checkpoint by itself, so what it says is best is the best
of the whole run, and not only of what retention has left on the disk.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from trainwright.checkpoint.keeping.kept_by_rule import KeptByRule
from trainwright.checkpoint.keeping.retention import (
    NOT_SCORED,
    Entry,
    NotScored,
    Retention,
    abandoned,
    best_first,
    kept_names,
    with_abandoned,
)

HISTORIES = 10_000
SCORES = (NOT_SCORED, math.nan, math.inf, -math.inf, 0.5, 0.5, 0.25, 0.75)


@dataclass
class Course:
    """A run, its disk, and everything that was ever saved on the course that it is on."""

    retention: Retention
    draw: random.Random
    whole: list[Entry] = field(default_factory=list)
    recent: list[Entry] = field(default_factory=list)
    """Those of it that were on the disk when the run last went back, and all later ones."""
    disk: dict[str, Entry] = field(default_factory=dict)
    pins: set[str] = field(default_factory=set)
    resumed_from: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)
    """What was pinned or resumed from at the last save."""
    sequence: int = 0
    since: int = 99
    """Saves since the run last went back."""

    def save(self, step: int, score: float | NotScored) -> None:
        self.sequence += 1
        entry = Entry(self.sequence, f"step-{step}", score, step)
        self.whole = [e for e in self.whole if e.step < step] + [entry]
        self.recent = [e for e in self.recent if e.step < step] + [entry]
        self.disk[entry.name] = entry
        left = abandoned(self.disk.values())
        self.disk = {n: replace(e, abandoned=n in left) for n, e in self.disk.items()}
        going = sorted(set(self.disk) - self.stays())
        self.owed = (self.pins | self.resumed_from) & set(self.disk)
        crashes = self.draw.random() < 0.2
        for name in going[: self.draw.randint(0, len(going))] if crashes else going:
            del self.disk[name]
        if crashes:
            self.resumed_from = {self.newest().name}
        self.since += 1

    def stays(self) -> set[str]:
        return kept_names(list(self.disk.values()), self.retention, self.pins | self.resumed_from)

    def newest(self) -> Entry:
        return self.whole[-1]

    def roll_back(self) -> None:
        """To a checkpoint of the course that is there; it is saved at once, as the loop does."""
        target = self.draw.choice([entry for entry in self.whole if entry.name in self.disk])
        self.go_back(target)
        self.save(target.step, target.score)

    def lose_the_newest(self) -> None:
        """It does not verify, and the run goes on from the one before."""
        self.owed = set()
        if len(self.recent) > 1:
            del self.disk[self.whole.pop().name]
            self.go_back(self.recent[-2])
            self.resumed_from = {self.newest().name}

    def go_back(self, target: Entry) -> None:
        """The newest have beside them what was best at each of them; a run that goes back further,
        or twice in a few saves, may find less."""
        there = [entry for entry in self.whole if entry.name in self.disk]
        newest = self.recent[-self.retention.newest :]
        if target not in newest or self.since < self.retention.newest:
            self.whole = list(there)
        self.recent = there
        self.since = 0

    def pin(self) -> None:
        self.pins ^= {self.draw.choice(list(self.disk))}

    def best(self) -> list[Entry]:
        sign = 1 if self.retention.direction == "min" else -1
        scored = [e for e in self.whole if isinstance(e.score, float) and math.isfinite(e.score)]
        return sorted(scored, key=lambda e: sign * e.score)[: self.retention.best]

    def must_be_there(self) -> dict[str, Sequence[Entry]]:
        every = self.retention.every_n_steps
        stretches: dict[int, Entry] = {}
        if every != "off":
            for entry in self.whole:
                stretches.setdefault(entry.step // every, entry)
            stretches.pop(0, None)
        newest = max(2, self.retention.newest, 0 if self.best() else self.retention.best)
        return {
            "newest": self.recent[-newest:],
            "best": self.best(),
            "every n-th": list(stretches.values()),
        }


def live(draw: random.Random) -> Course:
    retention = Retention(
        best=draw.randint(1, 3),
        newest=draw.randint(2, 3),
        every_n_steps=draw.choice(["off", 3, 7]),
        direction=draw.choice(["min", "max"]),
    )
    course = Course(retention, draw)
    course.save(0, NOT_SCORED)
    return course


def one_event(course: Course) -> None:
    chance = course.draw.random()
    if chance < 0.1:
        course.roll_back()
    elif chance < 0.2:
        course.lose_the_newest()
    elif chance < 0.3:
        course.pin()
    else:
        score = course.draw.choice([*SCORES, course.draw.random()])
        course.save(course.newest().step + course.draw.randint(1, 4), score)


def violations(course: Course) -> list[str]:
    found = [
        f"{what}: {entry.name}"
        for what, entries in course.must_be_there().items()
        for entry in entries
        if course.disk.get(entry.name) != entry
    ]
    found += [f"pinned: {name}" for name in course.owed - set(course.disk)]
    order = best_first(list(course.disk.values()), course.retention.direction)
    if [entry.name for entry in order[:1]] != [entry.name for entry in course.best()[:1]]:
        found.append(f"ranked first: {order[:1]}")
    return found


@pytest.mark.extended
@pytest.mark.row("F-24")
def test_ten_thousand_random_histories(figure: Callable[..., None]) -> None:
    best_was_left = 0
    for seed in range(HISTORIES):
        course = live(random.Random(seed))
        for _ in range(course.draw.randint(3, 10)):
            before = course.best()[:1]
            one_event(course)
            assert not violations(course), f"seed {seed}: {violations(course)}"
            best_was_left += bool(before) and before[0] not in course.whole
    assert best_was_left > 1000, "the histories hold what the test is about"
    figure(histories=HISTORIES, violations=0)


def test_what_needs_not_stay_goes() -> None:
    for seed in range(300):
        course = live(random.Random(seed))
        for _ in range(16):
            one_event(course)
        course.draw = random.Random(0)  # a save that does not crash
        course.pins.clear()
        course.resumed_from.clear()
        course.save(course.newest().step + 1, 0.5)
        retention = course.retention
        milestones = len(course.must_be_there()["every n-th"])
        assert len(course.disk) <= retention.best + 2 * retention.newest + milestones


def entry(sequence: int, step: int, score: float | NotScored = NOT_SCORED) -> Entry:
    return Entry(sequence, f"step-{step}", score, step)


def test_a_course_that_the_run_left_never_ranks() -> None:
    history = [entry(1, 0), entry(2, 10, 0.5), entry(4, 5, 0.7), entry(3, 20, 0.1)]
    assert abandoned(history) == {"step-10", "step-20"}
    left = abandoned(history)
    marked = [replace(e, abandoned=e.name in left) for e in history]
    assert [e.name for e in best_first(marked, "min")] == ["step-5"]
    # The mark outlives the checkpoint that it follows from.
    later = [e for e in marked if e.step != 5] + [entry(9, 40, 0.9)]
    assert abandoned(later) == {"step-10", "step-20"}


def test_what_was_left_fills_up_while_there_is_nothing_better() -> None:
    left = replace(entry(3, 20, 0.1), abandoned=True)
    history = [entry(4, 10, 0.5), left]
    assert kept_names(history, Retention(best=1), ()) == {"step-10", "step-20"}
    assert kept_names([*history, entry(5, 15)], Retention(best=1), ()) == {"step-10", "step-15"}


def test_the_best_before_the_newest_stays_for_the_day_on_which_the_newest_is_lost() -> None:
    history = [entry(1, 1, 0.4), entry(2, 2, 0.5), entry(3, 3, 0.3)]
    assert kept_names(history, Retention(best=1), ()) == {"step-1", "step-2", "step-3"}
    history.append(entry(4, 4, 0.6))
    assert kept_names(history, Retention(best=1), ()) == {"step-3", "step-4"}


@pytest.mark.parametrize("every", [1, 5, 10])
def test_the_first_of_each_stretch_stays_for_ever(every: int) -> None:
    history: list[Entry] = []
    for sequence, step in enumerate(range(0, 41, 4), start=1):
        history.append(entry(sequence, step, float(step)))
        stay = kept_names(history, Retention(best=1, every_n_steps=every), ())
        history = [e for e in history if e.name in stay]
    steps = {e.step for e in history}
    wanted = {
        min(s for s in range(m, m + every) if s % 4 == 0)
        for m in range(every, 41, every)
        if any(s % 4 == 0 and s <= 40 for s in range(m, m + every))
    }
    assert wanted <= steps
    assert 0 in steps  # the best


@dataclass
class Lived:
    """A run with its disk, kept as `Checkpoints` does it."""

    retention: Retention
    disk: dict[str, Entry] = field(default_factory=dict)
    by_rule: KeptByRule = field(init=False)
    pinned: set[str] = field(default_factory=set)
    commits: int = 0

    def __post_init__(self) -> None:
        self.by_rule = KeptByRule(self.retention)

    def save(self, step: int, score: float | NotScored = NOT_SCORED) -> None:
        self.commits += 1
        new = entry(self.commits, step, score)
        self.by_rule.take(new)
        there = with_abandoned([*self.disk.values(), new])
        stay = kept_names(list(there.values()), self.retention, self.pinned) | self.by_rule.names
        self.disk = {name: one for name, one in there.items() if name in stay}

    def target(self, up_to: int, further: int = 0) -> Entry:
        """Where a rollback goes: see `Checkpoints.newest_valid`."""
        fit = [e for e in self.disk.values() if e.step <= up_to and e.name in self.by_rule.names]
        old = [e for e in fit if e.step <= up_to - further]
        return max(old or fit, key=lambda e: (not e.abandoned, e.sequence))

    def best(self) -> list[str]:
        """See `Checkpoints.best_valid`."""
        newest = max(self.disk.values(), key=lambda one: one.sequence).name
        there = [e for e in self.disk.values() if e.name in {*self.by_rule.names, newest}]
        return [one.name for one in best_first(there, self.retention.direction)[:1]]

    def roll_back(self, up_to: int, further: int) -> int:
        """What is put back is saved at once."""
        found = self.target(up_to, further)
        self.pinned.add(found.name)
        self.save(found.step, found.score)
        return found.step


@dataclass
class TwoLives:
    """An unbroken run, and the same one that is stopped now and then; a person has pinned some."""

    draw: random.Random
    retention: Retention
    whole: Lived = field(init=False)
    cut: Lived = field(init=False)

    def __post_init__(self) -> None:
        self.whole, self.cut = Lived(self.retention), Lived(self.retention)

    def pass_step(self, step: int, score: float | NotScored, stops: float) -> None:
        """Both save where it is due; the other is stopped, so often, and saves there."""
        due = self.retention.planned(step)
        if due:
            self.whole.save(step, score)
            self.cut.save(step, score)
        if self.draw.random() < stops:
            if not due:
                self.cut.save(step)
            self.cut.pinned |= {self.draw.choice(list(self.cut.disk))}

    def roll_back(self, up_to: int, further: int = 0) -> int:
        """Both, to the same place."""
        step = self.whole.roll_back(up_to, further)
        assert step == self.cut.roll_back(up_to, further)
        return step


@pytest.mark.parametrize("every", [1, 3, 5, 12])
@pytest.mark.parametrize("rollback_steps", [5, 54])
def test_a_rollback_goes_to_the_same_place_wherever_the_run_was_stopped(
    rollback_steps: int, every: int
) -> None:
    """The stopped run has saves that were asked for, and keeps what it was resumed from."""
    retention = Retention(1, planned=lambda s: s % every == 0, rollback_steps=rollback_steps)
    draw = random.Random(every)
    whole, cut = Lived(retention), Lived(retention)
    for step in range(200):
        is_stopped = draw.random() < 0.1
        score = 1.0 + step if step % (4 * every) == 0 else NOT_SCORED
        if step % every == 0:
            whole.save(step, score)
        if step % every == 0 or is_stopped:
            cut.save(step, score)
        if is_stopped:
            cut.pinned = {f"step-{step}"}
        for back in range(1, rollback_steps + 1):
            up_to = max(0, step + 1 - back)
            found = whole.target(up_to).step
            assert found == cut.target(up_to).step
            oldest = step + 1 - rollback_steps - every - rollback_steps
            assert found > oldest, "not the best of long ago"
    assert len(whole.disk) <= 2 + 2 + 1 + rollback_steps // every


@pytest.mark.parametrize("every", [1, 4, 25])
def test_so_do_the_rollbacks_after_it_though_older_ones_lie_there(every: int) -> None:
    """Those that are due again soon, and later ones."""
    went_further = 0
    for seed in range(60):
        draw = random.Random(seed)
        retention = Retention(
            draw.randint(1, 2), planned=lambda s: s % every == 0, rollback_steps=draw.choice([5, 9])
        )
        lives = TwoLives(draw, retention)
        step = 0
        while step < 20 * every:
            lives.pass_step(step, draw.choice([NOT_SCORED, draw.random() - step]), 1.0 / every)
            rollbacks = draw.randint(1, 3) if draw.random() < 0.3 / every else 0
            further = 0
            for _ in range(rollbacks):
                up_to = step
                step = lives.roll_back(up_to, further)
                went_further += step <= up_to - further < up_to
                further = draw.randint(1, 4)
                step += further - 1
            step += 1
    assert went_further > 5, "the histories hold what the test is about"


@pytest.mark.extended
@pytest.mark.parametrize("every", [1, 4])
def test_the_best_is_that_of_the_unbroken_run(every: int) -> None:
    """Though the stopped one keeps others, which may be better than what is left after going back;
    also of the ending, at a step at which it does not save by itself."""
    better_lay_there = 0
    for seed in range(100):
        draw = random.Random(seed)
        retention = Retention(
            draw.randint(1, 2),
            every_n_steps=draw.choice(["off", 5 * every]),
            planned=lambda s: s % every == 0,
            rollback_steps=draw.choice([0, 5 * every]),
        )
        lives = TwoLives(draw, retention)
        whole, cut = lives.whole, lives.cut
        step = 0
        while step < 20 * every:
            score = draw.choice([NOT_SCORED, draw.random(), draw.random()])
            lives.pass_step(step, score, 0.5 / every)
            if draw.random() < 0.2 / every:
                course = [e for n, e in whole.disk.items() if n in whole.by_rule.names]
                up_to = draw.choice([e.step for e in course if not e.abandoned])
                step = lives.roll_back(up_to)
            assert whole.best() == cut.best(), f"seed {seed}"
            lie_there = best_first(list(cut.disk.values()), retention.direction)
            better_lay_there += [one.name for one in lie_there[:1]] != cut.best()
            step += 1
        score = draw.random()
        for lived in (whole, cut):
            lived.save(step + 1, score)
        assert whole.best() == cut.best(), f"seed {seed}"
    assert better_lay_there > 20, "the histories hold what the test is about"
