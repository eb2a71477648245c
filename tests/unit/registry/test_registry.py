"""Versions, aliases and the log of a registry, with several processes that write and die."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from faults.tiers import in_test
from promotions import promote_at_once, version_of
from trainwright.core.errors import Mistake
from trainwright.registry.audit_log import find_broken_links
from trainwright.registry.gate import GateClause, decide_gate
from trainwright.registry.registry import Registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(str(tmp_path / "registry"))


def test_versions_are_numbered_by_model_and_found_by_number_and_alias(registry: Registry) -> None:
    added = [registry.add(version_of(model), "") for model in ("income", "churn", "income")]
    assert [one.label for one in added] == ["income:1", "churn:1", "income:2"]
    registry.record_gate(added[2], "promoted", [], "better")
    assert (
        registry.read().find("income")
        == registry.read().find("registry:income@champion")
        == added[2]
    )
    assert registry.read().find("income:1") == added[0]
    for wrong, known in (("income:3", "income:1, income:2"), ("incomes", "churn, income")):
        with pytest.raises(Mistake, match=known):
            registry.read().find(wrong)


def test_a_model_goes_back_to_what_was_in_use_before(registry: Registry) -> None:
    first, second = (registry.add(version_of("income"), "") for _ in range(2))
    for version in (first, second):
        registry.record_gate(version, "promoted", [], "")
    assert registry.roll_back("income", "it was worse") == first
    assert registry.read().find("income") == first
    with pytest.raises(Mistake, match="no version of income was in use before"):
        registry.roll_back("income", "")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update trainwright_log set user = 'someone' where number = 2", "line 2 was changed"),
        ("update trainwright_log set gate = '[1]' where number = 1", "line 1 was changed"),
        ("delete from trainwright_log where number = 2", "line 2 is missing"),
    ],
)
def test_a_changed_line_of_the_log_is_found(
    change: str, found: str, registry: Registry, tmp_path: Path
) -> None:
    for _ in range(3):
        registry.add(version_of("income"), "")
    assert find_broken_links(registry.read().log) == []
    with sqlite3.connect(tmp_path / "registry" / "registry.db") as database:
        database.execute(change)
    assert find_broken_links(registry.read().log)[0].startswith(found)


def test_a_gate_that_is_not_passed_is_undecided_only_if_nothing_is_missed() -> None:
    clauses = [GateClause("a clause", status, "") for status in ("met", "undecided", "missed")]
    assert [decide_gate(clauses[:count]) for count in (1, 2, 3)] == [
        "promoted",
        "undecided",
        "refused",
    ]


@pytest.mark.row("F-43")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("processes", "times"), in_test(2, [(4, 10), (16, 50)]))
def test_promotions_of_many_processes_that_die_leave_one_champion_and_a_whole_log(
    processes: int, times: int, tmp_path: Path
) -> None:
    promote_at_once(str(tmp_path / "registry"), processes, times)
