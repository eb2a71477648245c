"""The decoder of a run as a model of the lm-evaluation-harness (Gao et al. 2021, `lm_eval`). Needs
torch and the extra harness."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trainwright.core.errors import Mistake, NotAvailable, Problem
from trainwright.core.hashing import hash_value
from trainwright.core.optional_dependencies import need_package
from trainwright.data.encoders.vocabulary import UNKNOWN, TokenEncoding
from trainwright.data.questions.prompts import encode_continuation
from trainwright.predictor.continuation_likelihood import likelihood_scorer
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DOCUMENT_END, DecodingOptions, text_generator
from trainwright.run.after.generate_text import read_writer
from trainwright.tracking.run_folder import RunFolder

_BEGIN = "\n"
"""What stands before a text without a context: our texts have no token for a beginning."""

_TOKENS = 256
"""Most tokens of an answer where a task does not say, as the harness has it."""

_DECODING = frozenset({"until", "max_gen_toks", "do_sample", "temperature", "top_k", "top_p"})


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
