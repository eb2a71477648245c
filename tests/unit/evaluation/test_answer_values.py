"""Values of answers, against other implementations, and what needs no model."""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from types import MappingProxyType

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric, QuestionSet
from trainwright.data.questions.question_file import ReadQuestion, normalise_answer
from trainwright.evaluation.metrics.answer_values import (
    baselines_of,
    choose,
    exact_match,
    token_f1,
    values_of_answers,
    values_of_choices,
)
from trainwright.evaluation.question_scores import AnsweredSet, clauses_of, score_questions

WORDS = ["The", "a", "cat", "cat,", "Dog.", "dog", "sat!", "1,000", "an", "U.S.", "  ", "été"]


def question(choices: tuple[str, ...], right: int, row: int = 0) -> ReadQuestion:
    cells = MappingProxyType({"question": "?"})
    return ReadQuestion("?", choices, right, (choices[right],), cells, row)


def asked(*answers: str) -> ReadQuestion:
    return ReadQuestion("?", (), 0, answers, MappingProxyType({"question": "?"}), 0)


def official(text: str) -> str:
    """`normalize_answer` of the script that the authors of SQuAD publish, evaluate-v1.1.py."""
    exclude = set(string.punctuation)
    lower = "".join(ch for ch in text.lower() if ch not in exclude)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", lower).split())


def official_f1(prediction: str, truth: str) -> float:
    """`f1_score` of it."""
    found, wanted = official(prediction).split(), official(truth).split()
    num_same = sum((Counter(found) & Counter(wanted)).values())
    if num_same == 0:
        return 0.0
    precision, recall = num_same / len(found), num_same / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def test_answers_are_compared_as_for_squad() -> None:
    drawn = random.Random(0)
    for _ in range(300):
        one, other = (" ".join(drawn.choices(WORDS, k=drawn.randint(1, 6))) for _ in range(2))
        assert normalise_answer(one) == official(one)
        assert exact_match(one, other) == float(official(one) == official(other))
        assert token_f1(one, other) == pytest.approx(official_f1(one, other), abs=1e-15)


def test_the_nearest_reference_counts() -> None:
    values = values_of_answers(["The red cat"], [asked("dog", "red cat")])
    assert values["exact_match"].tolist() == [1.0]
    assert values["token_f1"].tolist() == [1.0]
    assert token_f1("red cat", "red dog") == 0.5


def test_choices_are_chosen_by_sum_character_byte_and_token() -> None:
    choices = ("ab", "abcdef", "ééé", "x y z")
    sums, tokens = np.array([-2.0, -4.2, -3.3, -3.2]), np.array([1.0, 3.0, 6.0, 2.0])
    assert choose(sums, tokens, choices) == {
        "acc": 0,  # -2
        "acc_norm": 3,  # -3.2 / 5
        "acc_bytes": 2,  # -3.3 / 6
        "acc_tokens": 2,
    }


def test_baselines_of_choices() -> None:
    rows = [question(("no", "yes"), 1), question(("aa", "bb", "c"), 0), question(("q", "ww"), 1)]
    found = {who: each["acc"].tolist() for who, each in baselines_of(rows).items()}
    assert found == {
        "chance": [0.5, pytest.approx(1 / 3), 0.5],
        "longest_choice": [1.0, 0.5, 1.0],
        "commonest_place": [1.0, 0.0, 1.0],
    }


def test_the_most_frequent_answer_is_one_of_the_references() -> None:
    rows = [asked("Paris"), asked("the paris", "Rome"), asked("Oslo")]
    found = baselines_of(rows)["most_frequent_answer"]
    assert found["exact_match"].tolist() == [1.0, 1.0, 0.0]


def answered(right: list[int], contaminated: list[int], units: list[int]) -> AnsweredSet:
    values = np.array(right, np.float64)
    return AnsweredSet(
        "set",
        {"acc": values},
        {"chance": {"acc": np.full(len(values), 0.25)}},
        np.array(units),
        np.array(contaminated, np.bool_),
    )


def test_intervals_are_those_of_questions_or_of_their_groups() -> None:
    right = [1, 1, 1, 1, 1, 0] * 20
    section, metric = QuestionSet(path="q"), Metric()
    alone = answered(right, [0] * 120, list(range(120)))
    together = answered(right, [0] * 120, np.repeat(np.arange(20), 6).tolist())
    scores, every, _ = score_questions(alone, section, metric, 0)
    value, low, high = (getattr(scores.metrics["acc"], name) for name in ("value", "low", "high"))
    assert value == pytest.approx(5 / 6)
    # The standard error of a share: 1.96 sqrt(p q / n).
    assert high - low == pytest.approx(2 * 1.96 * (5 / 36 / 120) ** 0.5, rel=0.1)
    (clause,) = clauses_of(section, "set", "acc", every, ["chance"])
    assert clause.status == "met"
    assert clause.interval.value == pytest.approx(5 / 6 - 0.25)
    # Each group has the same share, so that drawing groups changes nothing.
    whole = score_questions(together, section, metric, 0)[0].metrics["acc"]
    assert whole.low == pytest.approx(whole.high)


def test_a_target_is_held_against_the_whole_interval() -> None:
    _, every, _ = score_questions(
        answered([1, 1, 0] * 30, [0] * 90, list(range(90))), QuestionSet(path="q"), Metric(), 0
    )
    for target, status in ((0.5, "met"), (0.66, "undecided"), (0.9, "missed")):
        section = QuestionSet(path="q", target=target)
        (clause,) = clauses_of(section, "set", "acc", every, ["chance"])
        assert clause.status == status
    assert clauses_of(QuestionSet(path="q", target="none"), "set", "acc", every, ["chance"]) == ()


def test_scores_survive_json() -> None:
    one = answered([1, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0], list(range(6)))
    scores, _, clean = score_questions(one, QuestionSet(path="q"), Metric(), 0)
    assert type(scores).from_json(scores.to_json()) == scores
    assert scores.contaminated == 1
    assert clean.metric("acc").interval.value == pytest.approx(3 / 5)


def test_a_likelihood_that_is_no_number_answers_nothing_rightly() -> None:
    choices = ("one", "two", "three")
    found = choose(np.array([-1.0, np.nan, -2.0]), np.ones(3), choices)
    assert set(found.values()) == {-1}
    (value,) = {
        float(one[0]) for one in values_of_choices([found], [question(choices, 1)]).values()
    }
    assert value == 0.0
    impossible = choose(np.array([-1.0, -np.inf, -2.0]), np.ones(3), choices)
    assert set(impossible.values()) == {0}
