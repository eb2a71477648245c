"""What the rule keeps commit by commit is what it keeps of the whole, at the cost of few looks."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from trainwright.checkpoint.keeping.kept_by_rule import KeptByRule
from trainwright.checkpoint.keeping.retention import (
    NOT_SCORED,
    Entry,
    NotScored,
    Retention,
    kept_names,
    with_abandoned,
)

SCORES = (NOT_SCORED, NOT_SCORED, math.nan, math.inf, 0.5, 0.25)


def with_commit(
    by_rule: Mapping[str, Entry], commit: Entry, retention: Retention
) -> dict[str, Entry]:
    """The definition: the rule over all that it has kept until now and one more commit."""
    entries = with_abandoned([*by_rule.values(), commit])
    planned = {n: entry for n, entry in entries.items() if retention.planned(entry.step)}
    stay = kept_names(list(planned.values()), retention, ()) if planned else set()
    return {name: entry for name, entry in planned.items() if name in stay}


def entry(sequence: int, step: int, score: float | NotScored = NOT_SCORED) -> Entry:
    return Entry(sequence, f"step-{step}", score, step)


def drawn_rule(draw: random.Random) -> Retention:
    every = draw.choice([1, 1, 2, 3])
    return Retention(
        best=draw.randint(1, 3),
        newest=draw.randint(1, 4),
        every_n_steps=draw.choice(["off", 1, 3, 7]),
        direction=draw.choice(["min", "max"]),
        planned=lambda step: step % every == 0,
        rollback_steps=draw.choice([0, 1, 4, 9]),
    )


def drawn_commits(draw: random.Random) -> list[Entry]:
    """A run that goes on, and goes back a little, or far, or to where it is; some checkpoints were
    left already, and some come late, as copies do."""
    commits: list[Entry] = []
    step = 0
    for place in range(draw.randint(1, 40)):
        score = draw.choice([*SCORES, draw.random()])
        one = entry(2 * place + 10, step, score)
        if draw.random() < 0.05:
            one = Entry(one.sequence, one.name, score, step, abandoned=True)
        if draw.random() < 0.1:
            one = Entry(one.sequence - 5, one.name, score, step)
        commits.append(one)
        back = draw.random() < 0.2
        step = draw.randint(0, step) if back else step + draw.randint(1, 4)
    return commits


def test_it_keeps_what_the_definition_keeps() -> None:
    most = went_back = removed = 0
    for seed in range(800):
        draw = random.Random(seed)
        rule = drawn_rule(draw)
        found, expected = KeptByRule(rule), dict[str, Entry]()
        for commit in drawn_commits(draw):
            found.take(commit)
            expected = with_commit(expected, commit, rule)
            assert found.names == expected.keys(), f"seed {seed}"
            if expected and draw.random() < 0.05:
                lost = draw.choice(sorted(expected))
                found.remove(lost)
                del expected[lost]
                removed += 1
            most = max(most, len(expected))
            went_back += any(one.abandoned for one in expected.values())
    assert (most > 20, went_back > 500, removed > 300) == (True, True, True)


def test_two_of_one_number_are_both_kept_and_both_go() -> None:
    """A copy that does not verify stays in its place while the run makes another of its number."""
    found = KeptByRule(Retention(best=1))
    for commit in (entry(5, 50), entry(5, 40), entry(6, 60), entry(6, 60)):
        found.take(commit)
    assert found.names == {"step-50", "step-60"}
    found.take(entry(7, 70))
    assert found.names == {"step-60", "step-70"}
    found.remove("step-70")
    found.remove("step-70")
    assert found.names == {"step-60"}


class Looks:
    """How often anything is asked of an entry."""

    count = 0


class Watched(Entry):
    def __getattribute__(self, name: str) -> object:
        Looks.count += 1
        return super().__getattribute__(name)


@pytest.mark.extended
@pytest.mark.parametrize("every", ["off", 1, 10])
@pytest.mark.parametrize("rollback_steps", [0, 54])
def test_a_commit_costs_no_more_when_many_are_kept(every: int, rollback_steps: int) -> None:
    """Ten times the commits are ten times the work, but for the search among those kept."""
    costs = []
    for commits in (200, 2_000):
        Looks.count = 0
        found = KeptByRule(Retention(3, 3, every, rollback_steps=rollback_steps))
        for number in range(1, commits + 1):
            score = 1 / number if number % 3 else NOT_SCORED
            found.take(Watched(number, f"step-{number}", score, number))
        costs.append(Looks.count)
        assert every == "off" or len(found.names) >= commits // every
    assert costs[1] < 15 * costs[0]
