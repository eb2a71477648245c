"""Questions in whole runs: clauses, contamination, few-shot prompts, other runs, refusals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from command import command, inside, tree
from trainwright.core.files import read_json
from trainwright.predictor.text_generation import DecodingOptions, TextGenerator

pytestmark = pytest.mark.torch

COLOURS = {"grass": "green", "snow": "white", "coal": "black", "blood": "red", "sky": "blue"}
CONTRACT = """
name: facts
task: generation
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 48, context: 48}
training: {batch_size: 16, early_stopping: off, stop: {max_steps: STEPS},
           optimizer: {learning_rate: 0.01}}
metric: {name: perplexity, target: dummy, resamples: 200}
questions:
  - {path: asked.jsonl, prompt: "{question}", slice_by: [thing]}
  - {path: seen.jsonl, name: seen, prompt: "{question}", target: 0.5}
"""


def sentences(count: int, seed: int) -> str:
    drawn, said = random.Random(seed), ("it rained.", "a boat came.", "we slept.")
    things = list(COLOURS)
    return " ".join(
        f"the colour of {thing} is {COLOURS[thing]}. {drawn.choice(said)}"
        for thing in drawn.choices(things, k=count)
    )


def rows(prompt: str, count: int = 50) -> list[dict[str, Any]]:
    drawn, found = random.Random(1), []
    for number in range(count):
        thing = list(COLOURS)[number % len(COLOURS)]
        others = [one for one in COLOURS.values() if one != COLOURS[thing]]
        choices = [*drawn.sample(others, 2), COLOURS[thing]]
        drawn.shuffle(choices)
        right = choices.index(COLOURS[thing])
        text = prompt.format(number=number, thing=thing)
        found.append({"question": text, "choices": choices, "answer": right, "thing": thing})
    return found


def write(path: str, lines: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in lines))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run that knows the colours, and one that hardly does."""
    with inside(tmp_path_factory.mktemp("questions")) as folder:
        Path("text.txt").write_text(sentences(900, 0))
        write("asked.jsonl", rows("{number} say: the colour of {thing} is"))
        write("seen.jsonl", rows("the colour of {thing} is"))
        write("shots.jsonl", rows("{number} others say: the colour of {thing} is"))
        plain = [
            {"question": row["question"], "answer": COLOURS[row["thing"]]}
            for row in rows("the colour of {thing} is")
        ]
        write("written.jsonl", plain)
        for name, steps in (("good", 160), ("poor", 12)):
            Path("c.yaml").write_text(CONTRACT.replace("STEPS", str(steps)))
            ran = command("train", "c.yaml", "--run", name)
            assert ran.code == 3, ran.err
        yield folder


def judged(*words: str) -> dict[str, Any]:
    ran = command("evaluate", *words, "--json")
    assert ran.code in (0, 3), ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


BARE = ("--set", 'questions.prompt="{question}"', "--set", "questions.target=0.5")


@pytest.mark.extended
def test_a_run_has_a_clause_for_each_set_and_baseline(runs: Path) -> None:
    stored = read_json(runs / "runs/good/evaluation.json")
    named = {one["name"]: one for one in stored["verdict"]["clauses"]}
    against = ("chance", "longest_choice", "commonest_place")
    asked = [named[f"acc minus {who} > 0 on asked"] for who in against]
    assert [one["against"] for one in asked] == list(against)
    first, seen = stored["questions"]
    assert first["metrics"]["acc"]["value"] > 0.7
    assert first["baselines"]["chance"]["acc"]["value"] == pytest.approx(1 / 3)
    assert asked[0]["value"] == pytest.approx(first["metrics"]["acc"]["value"] - 1 / 3)
    assert [one["name"] for one in first["slices"]] == [f"thing={one}" for one in sorted(COLOURS)]
    assert first["contaminated"] == 0
    assert seen["contaminated"] == 50


def test_questions_of_the_training_text_make_the_verdict_invalid(runs: Path) -> None:
    """The clause is met, and rests on questions that were learned by heart."""
    stored = read_json(runs / "runs/good/evaluation.json")
    met = next(one for one in stored["verdict"]["clauses"] if one["name"] == "acc >= 0.5 on seen")
    assert met["status"] == "met"
    assert stored["verdict"]["status"] == "invalid"
    (finding,) = stored["verdict"]["findings"]
    assert (finding["finding"], finding["columns"]) == ("contamination", ["seen"])
    assert finding["outcome"] == "changes_decision"
    shown = command("evaluate", "good")
    line = "data: {audit: {accept: [{finding: contamination, columns: [seen], reason:"
    assert line in shown.out


@pytest.mark.extended
def test_contamination_is_accepted_by_name(runs: Path) -> None:
    accept = 'data.audit.accept=[{finding: contamination, columns: [seen], reason: "recall"}]'
    ran = command(
        "train",
        "c.yaml",
        "--run",
        "accepted",
        "--set",
        accept,
        "--set",
        "training.stop.max_steps=160",
        "--json",
    )
    found = json.loads(ran.out)
    assert (ran.code, found["verdict"]) == (0, "met")
    assert found["findings"][0]["outcome"] == "accepted"
    assert any("accepted: recall" in one for one in found["warnings"])


def test_the_command_gives_what_the_run_was_judged_by(runs: Path) -> None:
    stored = read_json(runs / "runs/good/evaluation.json")["questions"][0]
    found = judged("good", "--questions", "asked.jsonl", *BARE[:2])
    asked = found["questions"]
    for key in ("metrics", "baselines", "gains", "contaminated", "clean", "samples"):
        assert asked[key] == stored[key], key
    assert found["verdict"] == "met"


def test_a_moved_training_text_is_told(runs: Path) -> None:
    Path("text.txt").rename("moved.txt")
    try:
        found = judged("good", "--questions", "seen.jsonl", *BARE)
    finally:
        Path("moved.txt").rename("text.txt")
    assert found["questions"]["contaminated"] == 0
    assert any("not looked for in the training text" in one for one in found["warnings"])


def test_another_run_is_a_paired_difference(runs: Path) -> None:
    found = judged("good", "--questions", "asked.jsonl", "--against", "poor", *BARE[:2])
    alone = judged("poor", "--questions", "asked.jsonl", *BARE[:2])
    gain = found["questions"]["gains"]["run poor"]["acc"]
    values = [one["questions"]["metrics"]["acc"]["value"] for one in (found, alone)]
    assert gain["value"] == pytest.approx(values[0] - values[1])
    clause = next(one for one in found["clauses"] if one["against"] == "run poor")
    assert clause["low"] == gain["low"]
    same = judged("poor", "--questions", "asked.jsonl", "--against", "poor", *BARE[:2])
    none = same["questions"]["gains"]["run poor"]["acc"]
    assert (none["value"], none["low"], none["high"]) == (0, 0, 0)


def test_examples_stand_before_each_question(runs: Path) -> None:
    examples = ("--set", "questions.examples={path: shots.jsonl, count: 1}")
    found = judged("good", "--questions", "asked.jsonl", *BARE, *examples)
    prompts = [one["prompt"] for one in found["questions"]["samples"]]
    assert all(one.count("others say: the colour of") == 1 for one in prompts)
    assert len({one.partition("\n\n")[0] for one in prompts}) > 1
    assert found == judged("good", "--questions", "asked.jsonl", *BARE, *examples)
    assert any("lost their beginning" in one for one in found["warnings"])


def test_written_answers_are_those_of_generate(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[DecodingOptions] = []
    before = TextGenerator.generate

    def watched(self: TextGenerator, prompt: Any, *rest: Any) -> Any:
        seen.append(self._decoding)
        return before(self, prompt, *rest)

    monkeypatch.setattr(TextGenerator, "generate", watched)
    found = judged("good", "--questions", "written.jsonl", *BARE, "--set", "questions.stop=['.']")
    assert {(one.temperature, one.stop[1]) for one in seen} == {(0.0, ".")}
    asked = found["questions"]
    assert set(asked["metrics"]) == {"exact_match", "token_f1"}
    assert asked["metrics"]["exact_match"]["value"] > 0.7
    sample = asked["samples"][0]
    words = ["generate", "good", sample["prompt"], "--temperature", "0", "--stop", ".", "--json"]
    text = json.loads(command(*words).out)["text"]
    assert text.strip() == sample["written"]
    assert asked["baselines"]["most_frequent_answer"]["exact_match"]["value"] == 0.2


def test_the_report_shows_questions_and_samples(runs: Path) -> None:
    page = (runs / "runs/good/report.html").read_text()
    for text in ("Questions: asked", "commonest_place", "<h2>Samples</h2>", "say: the colour of"):
        assert text in page
    samples = read_json(runs / "runs/good/evaluation.json")["samples"]
    whole = Path("text.txt").read_text()
    assert len(samples) == 3
    assert all(one["prompt"] + one["reference"] in whole for one in samples)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--questions", "absent.jsonl"), "absent.jsonl"),
        (("--questions", "asked.jsonl", "--set", "data.reading.encoding=cp1252"), "own keys"),
        (("--questions", "asked.jsonl", "--set", "questions.metrics=acc"), "did you mean"),
        (("--questions", "asked.jsonl", "--set", "questions.metric=token_f1"), "no token_f1"),
        (("text.txt", "--questions", "asked.jsonl"), "on rows or on questions"),
        (("--against", "poor"), "on rows or on questions"),
        (("--questions", "long.jsonl"), "longer than the model reads"),
    ],
)
def test_what_cannot_be_asked_is_one_mistake(runs: Path, words: tuple[str, ...], said: str) -> None:
    write("long.jsonl", [{"question": "a?", "choices": ["x", "y" * 60], "answer": 0}])
    before = tree(runs)
    ran = command("evaluate", "good", *words)
    assert ran.code == 2, ran.out
    assert said in ran.err
    assert tree(runs) == before


def test_questions_are_refused_before_the_training(runs: Path) -> None:
    before = set(Path("runs").iterdir())
    asked = 'questions=[{path: asked.jsonl, prompt: "{subject}"}]'
    ran = command("train", "c.yaml", "--set", asked)
    assert ran.code == 2
    assert "questions.0.prompt" in ran.err
    assert set(Path("runs").iterdir()) == before


def test_changed_questions_are_refused_when_the_run_is_judged(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.run.learners.network_learner import NetworkLearner

    text, fit = Path("asked.jsonl").read_text(), NetworkLearner.fit

    def changing(self: Any, *given: Any) -> Any:
        Path("asked.jsonl").write_text(text.replace("say", "said"))
        return fit(self, *given)

    monkeypatch.setattr(NetworkLearner, "fit", changing)
    try:
        ran = command("train", "c.yaml", "--run", "changed")
    finally:
        Path("asked.jsonl").write_text(text)
    assert ran.code == 11
    assert "asked.jsonl" in ran.err


def test_a_model_that_does_not_write_is_judged_without_samples(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.core.errors import Mistake, Problem

    def without_a_cache(*_: Any) -> None:
        raise Mistake(Problem("this architecture has no cache"))

    monkeypatch.setattr(TextGenerator, "go_on", without_a_cache)
    ran = command("train", "c.yaml", "--run", "silent", "--set", "questions=[]")
    assert ran.code in (0, 3), ran.err
    assert read_json(runs / "runs/silent/evaluation.json")["samples"] == []
    assert "<h2>Samples</h2>" not in (runs / "runs/silent/report.html").read_text()
