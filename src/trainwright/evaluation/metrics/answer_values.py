"""What an answer to a question is worth: of choices by their likelihood, of written answers by
their references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from trainwright.contract.sections.metric import OF_ANSWERS, OF_CHOICES
from trainwright.data.base.inputs import Floats
from trainwright.data.questions.question_file import ReadQuestion, normalise_answer

Values = Mapping[str, Floats]
"""The value of each question [N] by metric."""

CHANCE, LONGEST, PLACE = "chance", "longest_choice", "commonest_place"
FREQUENT = "most_frequent_answer"


def choose(log_probabilities: Floats, tokens: Floats, choices: Sequence[str]) -> dict[str, int]:
    """The number of the chosen one of C choices by each metric, from their log-probabilities [C]
    and tokens [C]; -1, which is never right, where one of them is not a number."""
    sizes = {
        "acc": np.ones(len(choices)),
        "acc_norm": np.array([len(one) for one in choices], np.float64),
        "acc_bytes": np.array([len(one.encode()) for one in choices], np.float64),
        "acc_tokens": tokens,
    }
    if np.isnan(log_probabilities).any():
        return dict.fromkeys(sizes, -1)
    return {name: int(np.argmax(log_probabilities / size)) for name, size in sizes.items()}


def values_of_choices(
    chosen: Sequence[Mapping[str, int]], questions: Sequence[ReadQuestion]
) -> Values:
    """1 where the chosen one is right."""
    pairs = list(zip(chosen, questions, strict=True))
    return {
        name: np.array([float(each[name] == one.right) for each, one in pairs])
        for name in OF_CHOICES
    }


def values_of_answers(written: Sequence[str], questions: Sequence[ReadQuestion]) -> Values:
    """Of each written answer its best value against any of its references."""
    return {
        name: np.array(
            [
                max(_VALUES[name](text, answer) for answer in one.answers)
                for text, one in zip(written, questions, strict=True)
            ]
        )
        for name in OF_ANSWERS
    }


def exact_match(text: str, answer: str) -> float:
    """1 if both are the same once normalised."""
    return float(normalise_answer(text) == normalise_answer(answer))


def token_f1(text: str, answer: str) -> float:
    """Harmonic mean of precision and recall over the words of both, once normalised, each counted
    as often as it occurs (Rajpurkar et al. 2016, section 6.1)."""
    found, wanted = (normalise_answer(one).split() for one in (text, answer))
    shared = sum((Counter(found) & Counter(wanted)).values())
    return 2 * shared / (len(found) + len(wanted)) if shared else 0.0


_VALUES: Mapping[str, Callable[[str, str], float]] = MappingProxyType(
    {"exact_match": exact_match, "token_f1": token_f1}
)


def baselines_of(questions: Sequence[ReadQuestion]) -> dict[str, Values]:
    """What needs no model: by name, the first of them chance or its like.

    The commonest place of the right choice and the most frequent reference are those of the
    questions themselves, which favours the baseline.
    """
    if not questions[0].choices:
        counts = Counter(
            name
            for one in questions
            for name in dict.fromkeys(normalise_answer(answer) for answer in one.answers)
        )
        ((frequent, _),) = counts.most_common(1)
        return {FREQUENT: values_of_answers([frequent] * len(questions), questions)}
    place = Counter(one.right for one in questions).most_common(1)[0][0]
    found = {
        CHANCE: [1 / len(one.choices) for one in questions],
        LONGEST: [_longest(one) for one in questions],
        PLACE: [float(one.right == place) for one in questions],
    }
    return {who: dict.fromkeys(OF_CHOICES, np.array(each)) for who, each in found.items()}


def _longest(question: ReadQuestion) -> float:
    """Probability that the right choice is drawn from the longest ones in bytes."""
    sizes = [len(one.encode()) for one in question.choices]
    longest = [at for at, size in enumerate(sizes) if size == max(sizes)]
    return float(question.right in longest) / len(longest)
