"""Tasks of the lm-evaluation-harness, answered by the decoder of a run.

The harness is `lm_eval` (Gao et al. 2021). Needs torch and the extra harness.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol, final

import numpy as np

from trainwright.core.errors import Mistake, NotAvailable, Problem
from trainwright.core.files import Json, hash_value
from trainwright.core.lazy_imports import need_package
from trainwright.core.process import is_code_allowed
from trainwright.data.encoders.vocabulary import UNKNOWN, TokenEncoding
from trainwright.data.questions.prompts import encode_continuation
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.predictor.continuation_likelihood import likelihood_scorer
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DOCUMENT_END, DecodingOptions, text_generator
from trainwright.run.after.generate_text import read_writer
from trainwright.run.folder.planned_contract import read_planned
from trainwright.tracking.run_folder import RunFolder

_BEGIN = "\n"
"""What stands before a text without a context: our texts have no token for a beginning."""

_TOKENS = 256
"""Most tokens of an answer where a task does not say, as the harness has it."""

_DECODING = frozenset({"until", "max_gen_toks", "do_sample", "temperature", "top_k", "top_p"})
_KEY = "task: "


class HarnessRequest(Protocol):
    """`lm_eval.api.instance.Instance`."""

    args: tuple[Any, ...]


class RunAnswers:
    """What the harness asks of a model; the class that it wants is mixed in by `harness_model`."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self._predictor = predictor
        self._encoding = TokenEncoding.of_kind(predictor.features)
        self._scorer = likelihood_scorer(predictor)

    def loglikelihood(self, requests: Sequence[HarnessRequest]) -> list[tuple[float, bool]]:
        """Log-probability of each continuation after its context, and whether it is greedy. A
        context that does not fit loses its beginning; an empty one is a line break.

        Raises:
            Mistake: a continuation is longer than the model reads.
        """
        words = self._encoding.vocabulary
        asked = [
            encode_continuation(words, [context or self._begin()], continuation)
            for context, continuation in (one.args for one in requests)
        ]
        return [(one.log_probability, one.is_greedy) for one in self._scorer.score(asked)]

    def loglikelihood_rolling(self, requests: Sequence[HarnessRequest]) -> list[float]:
        """Log-probability of each text after a line break, in windows as the harness cuts them."""
        utils: Any = import_module("lm_eval.utils")
        words = self._encoding.vocabulary
        (begin,) = words.encode(self._begin()).tolist()
        found = []
        for (text,) in (one.args for one in requests):
            windows = utils.get_rolling_token_windows(
                token_list=words.encode(text).tolist(),
                prefix_token=begin,
                max_seq_len=self._scorer.context,
                context_len=1,
            )
            pairs = [utils.make_disjoint_window(one) for one in windows]
            asked = [(np.array(a, np.uint32), np.array(b, np.uint32)) for a, b in pairs]
            found.append(sum(one.log_probability for one in self._scorer.score(asked)))
        return found

    def generate_until(self, requests: Sequence[HarnessRequest]) -> list[str]:
        """What the model writes after each context, before any of `until`; greedily unless a task
        samples.

        Raises:
            NotAvailable: a task decodes otherwise.
        """
        found = []
        for row, (context, asked) in enumerate(one.args for one in requests):
            generator = text_generator(self._predictor, self._encoding, self._decoding(asked))
            found.append(generator.generate(context, row).text)
        return found

    def apply_chat_template(
        self, chat_history: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Messages as the template of the chats writes them, up to the answer.

        Raises:
            Mistake: the model reads no messages. NotAvailable: an answer is to be continued.
        """
        if not add_generation_prompt:
            raise NotAvailable(Problem("an answer that has begun is not continued"))
        return "".join(self._encoding.ask(json.dumps(list(chat_history))))

    @property
    def tokenizer_name(self) -> str:
        """A name for the tokens and the template."""
        return hash_value(self._encoding.to_json())[:16]

    def _begin(self) -> str:
        words = self._encoding.vocabulary
        tokens = words.encode(_BEGIN).tolist()
        if len(tokens) != 1 or (words.kind == "characters" and tokens == [UNKNOWN]):
            raise Mistake(
                Problem(
                    "the model knows no line break, by which a text without a context begins",
                    found=f"{len(tokens)} tokens",
                    expected="one token",
                    fix="give the task a context, or train on a text with line breaks",
                )
            )
        return _BEGIN

    def _decoding(self, asked: Mapping[str, Any]) -> DecodingOptions:
        if others := sorted(set(asked) - _DECODING):
            raise NotAvailable(
                Problem(
                    "a task decodes in a way that there is not",
                    path="generation_kwargs",
                    found=", ".join(others),
                    expected=f"some of: {', '.join(sorted(_DECODING))}",
                )
            )
        until = asked.get("until") or []
        ends = [until] if isinstance(until, str) else list(until)
        turn = self._encoding.turn_end
        samples = bool(asked.get("do_sample", False))
        return DecodingOptions(
            tokens=int(asked.get("max_gen_toks", _TOKENS)),
            temperature=float(asked.get("temperature", 1.0)) if samples else 0.0,
            top_k=int(asked.get("top_k", 0)) if samples else 0,
            top_p=float(asked.get("top_p", 1.0)) if samples else 1.0,
            stop=(DOCUMENT_END, *filter(None, [turn, *ends])),
        )


def harness_model(run: str | Path) -> Any:
    """The decoder of a finished run, by its folder, as an `lm_eval.api.model.LM`:
    `lm_eval.simple_evaluate(model=tw.harness_model("runs/facts-1"), tasks=[...])`.

    Raises:
        MissingExtra: lm_eval is not installed. Mistake: the run has no model that writes texts.
    """
    need_package("lm_eval", "harness", "", "a task of the lm-evaluation-harness")
    base: Any = import_module("lm_eval.api.model").LM
    made: Any = type("HarnessModel", (RunAnswers, base), {})
    return made(read_writer(RunFolder.open(Path(run))))


@final
@dataclass(frozen=True, slots=True)
class HarnessScores:
    """What the harness measured: of each task its rows, and of each metric the value with the
    interval that its standard error gives at a confidence."""

    run: str
    rows: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, Interval]]
    confidence: float

    def to_json(self) -> Json:
        """`run`, `confidence`, and `tasks` with `rows` and `metrics`; bounds that are not given
        are null."""
        return {
            "run": self.run,
            "confidence": self.confidence,
            "tasks": {
                task: {
                    "rows": self.rows[task],
                    "metrics": {name: one.to_json() for name, one in each.items()},
                }
                for task, each in self.metrics.items()
            },
        }


def evaluate_harness(folder: RunFolder, file: Path) -> HarnessScores:
    """The task of a YAML file of the harness, whose data lies in local files.

    Raises:
        Mistake: code is not allowed, the file is no task, or the run has no model that writes
            texts. MissingExtra: lm_eval is not installed.
    """
    need_package("lm_eval", "harness", "--harness", "a task of the lm-evaluation-harness")
    if not is_code_allowed():
        raise Mistake(
            Problem(
                "a task of the harness is a program: its templates and functions are run",
                path="--harness",
                found=str(file),
                expected="the permission to run it",
                fix="look at the file, then add --allow-code",
            )
        )
    task = _task_in(file)
    evaluator: Any = import_module("lm_eval.evaluator")
    tasks: Any = import_module("lm_eval.tasks")
    contract = read_planned(folder)
    manager = tasks.TaskManager(include_path=str(file.parent.resolve()), include_defaults=False)
    found: Any = evaluator.simple_evaluate(
        model=harness_model(folder.path),
        tasks=[task],
        task_manager=manager,
        log_samples=False,
        bootstrap_iters=contract.metric.resamples,
    )
    confidence = contract.metric.confidence
    counts = {name: int(one["effective"]) for name, one in found["n-samples"].items()}
    scores = {name: _intervals(found["results"][name], confidence) for name in counts}
    return HarnessScores(folder.name, counts, scores, confidence)


def _task_in(file: Path) -> str:
    """The name that the file gives its task, without reading the rest of it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise _no_task(file, str(error)) from error
    names = [line.removeprefix(_KEY).strip(" \"'") for line in lines if line.startswith(_KEY)]
    if len(names) != 1:
        raise _no_task(file, f"{len(names)} lines that begin with {_KEY.strip()!r}")
    return names[0]


def _no_task(file: Path, found: str) -> Mistake:
    return Mistake(
        Problem(
            "the file is no task of the harness",
            path="--harness",
            found=f"{file}: {found}",
            expected="YAML with a line such as `task: my_questions`",
            fix="name such a file",
        )
    )


def _intervals(results: Mapping[str, Any], confidence: float) -> dict[str, Interval]:
    """Of each metric the value with its interval by the normal distribution; without a standard
    error none is given."""
    wide = NormalDist().inv_cdf(0.5 + confidence / 2)
    found = {}
    for key, value in results.items():
        name, _, filtered = key.partition(",")
        if not isinstance(value, int | float) or name.endswith("_stderr") or name == "sample_len":
            continue
        error = results.get(f"{name}_stderr,{filtered}")
        half = wide * error if isinstance(error, int | float) else math.inf
        shown = name if filtered in ("", "none") else f"{name} ({filtered})"
        found[shown] = Interval(float(value), value - half, value + half)
    return found
