"""The lm-evaluation-harness asks a run: its figures are ours, and log-probabilities those of
transformers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
pytest.importorskip("lm_eval")

import trainwright as tw  # noqa: E402
from command import command, inside  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

COLOURS = {"grass": "green", "snow": "snow white", "coal": "black", "blood": "deep red"}
CONTRACT = """
name: facts
task: generation
data: {kind: tokens, path: text.txt, vocabulary: bpe, vocabulary_size: 300}
model: {kind: gpt, layers: 1, heads: 2, width: 32, context: 32, norm: rms, feed_forward: swiglu,
        tied: false}
training: {batch_size: 16, early_stopping: off, stop: {max_steps: 40},
           optimizer: {learning_rate: 0.01}}
metric: {name: perplexity, target: dummy, resamples: 100}
"""
TASK = """
task: colours
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list:
  - {metric: acc}
  - {metric: acc_norm}
  - {metric: acc_bytes}
metadata: {version: 1}
"""
WRITTEN = """
task: written
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: " {{choices[answer]}}"
generation_kwargs: {until: ["."], max_gen_toks: 12}
metric_list: [{metric: exact_match}]
metadata: {version: 1}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch, inside(tmp_path_factory.mktemp("harness")) as made:
        for name in ("HF_HOME", "HF_DATASETS_CACHE"):
            patch.setenv(name, str(made / "cache"))
        patch.setattr("datasets.config.HF_DATASETS_CACHE", made / "cache")
        drawn, things = random.Random(0), list(COLOURS)
        said = [
            f"the colour of {thing} is {COLOURS[thing]}." for thing in drawn.choices(things, k=700)
        ]
        Path("text.txt").write_text("\n".join(said))
        rows = []
        for number in range(60):
            thing = things[number % len(things)]
            choices = list(COLOURS.values())
            drawn.shuffle(choices)
            right = choices.index(COLOURS[thing])
            question = f"{drawn.choice(['', 'so ', 'now '])}the colour of {thing} is"
            rows.append({"question": question, "choices": choices, "answer": right})
        Path("asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, text in (("colours", TASK), ("written", WRITTEN)):
            Path(name).mkdir()
            file = Path(name, f"{name}.yaml")
            file.write_text(text.replace("FILE", str(Path("asked.jsonl").resolve())))
        Path("c.yaml").write_text(CONTRACT)
        assert command("train", "c.yaml", "--run", "facts").code in (0, 3)
        assert command("weights", "export", "facts", "--to", "huggingface", "-o", "hub").code == 0
        yield made


def requests(*pairs: tuple[Any, ...]) -> list[Any]:
    return [SimpleNamespace(args=pair) for pair in pairs]


PAIRS = (
    ("the colour of snow is", " snow white"),
    ("the colour of coal is ", "black"),
    ("the colour of snow is" * 12, " snow white."),
    ("Question: what?\nAnswer:", " deep red and more"),
)


def test_log_probabilities_are_those_of_transformers(runs: Path) -> None:
    """Of the exported folder, with pairs tokenised as `TemplateLM._encode_pair` does."""
    network = transformers.AutoModelForCausalLM.from_pretrained("hub").eval()
    words = tokenizers.Tokenizer.from_file("hub/tokenizer.json")
    found = tw.harness_model("runs/facts").loglikelihood(requests(*PAIRS))
    for (context, continuation), mine in zip(PAIRS, found, strict=True):
        whole = words.encode(context + continuation).ids
        count = len(whole) - len(words.encode(context.rstrip()).ids)
        seen = torch.tensor([whole[-33:]])
        with torch.no_grad():
            log_q = torch.log_softmax(network(seen[:, :-1]).logits[0], dim=-1)[-count:]
        target = seen[0, -count:]
        assert mine[0] == pytest.approx(float(log_q.gather(1, target[:, None]).sum()), abs=1e-4)
        assert mine[1] == bool((log_q.argmax(dim=-1) == target).all())


@pytest.mark.extended
def test_accuracies_are_ours(runs: Path) -> None:
    ran = command(
        "evaluate", "facts", "--harness", "colours/colours.yaml", "--allow-code", "--json"
    )
    assert ran.code == 0, ran.err
    harness = json.loads(ran.out)["tasks"]["colours"]
    own = json.loads(command("evaluate", "facts", "--questions", "asked.jsonl", "--json").out)
    assert harness["rows"] == own["questions"]["questions"] == 60
    for name in ("acc", "acc_norm", "acc_bytes"):
        mine, other = own["questions"]["metrics"][name], harness["metrics"][name]
        assert mine["value"] == pytest.approx(other["value"], abs=1e-12), name
        assert other["low"] < other["value"] < other["high"]
    values = [own["questions"]["metrics"][name]["value"] for name in ("acc", "acc_norm")]
    assert values[0] != values[1], "choices of one length would hide the norm"


@pytest.mark.slow
def test_written_answers_are_ours(runs: Path) -> None:
    ran = command(
        "evaluate", "facts", "--harness", "written/written.yaml", "--allow-code", "--json"
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["tasks"]["written"]["metrics"]["exact_match"]["value"]
    rows = [json.loads(line) for line in Path("asked.jsonl").read_text().splitlines()]
    right = 0
    for row in rows:
        words = ["generate", "facts", row["question"], "--temperature", "0", "--stop", "."]
        text = json.loads(command(*words, "--tokens", "12", "--json").out)["text"]
        # The harness does not strip answers.
        right += text == " " + row["choices"][row["answer"]]
    assert found == pytest.approx(right / len(rows))


def test_a_text_is_the_sum_of_its_windows(runs: Path) -> None:
    """By the chain rule, each token once, after a line break."""
    model = tw.harness_model("runs/facts")
    short = "the colour of coal is black."
    (rolled,) = model.loglikelihood_rolling(requests((short,)))
    ((alone, _),) = model.loglikelihood(requests(("", short)))
    assert rolled == pytest.approx(alone, abs=1e-4)
    (long,) = model.loglikelihood_rolling(requests((short * 20,)))
    assert long < rolled


def test_a_task_runs_with_the_permission_alone(runs: Path) -> None:
    ran = command("evaluate", "facts", "--harness", "colours/colours.yaml")
    assert ran.code == 2
    assert "--allow-code" in ran.err
    Path("none.yaml").write_text("output_type: multiple_choice\n")
    ran = command("evaluate", "facts", "--harness", "none.yaml", "--allow-code")
    assert ran.code == 2
    assert "no task of the harness" in ran.err


def test_other_ways_of_decoding_are_refused(runs: Path) -> None:
    model = tw.harness_model("runs/facts")
    with pytest.raises(tw.NotAvailable, match="num_beams"):
        model.generate_until(requests(("the colour", {"until": ["."], "num_beams": 4})))
