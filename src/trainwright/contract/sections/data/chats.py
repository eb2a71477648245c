"""`data` of `kind: chats`, conversations and instructions whose answers are learned; and of `kind:
preferences`, pairs of answers of which one is preferred."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.tokens import TokenFeeding
from trainwright.contract.sections.section import Fraction

Role = Literal["system", "user", "assistant", "function_call", "observation"]
"""Who wrote a message."""


class ChatData(TokenFeeding):
    """Chats, a row each, divided by their prompts: chats with the same messages before the first
    answer are in one part. The loss and the metrics count the answers alone, each to the mark that
    ends it."""

    kind: Literal["chats"]

    path: str
    """A table of chats (JSON Lines, Parquet and whatever else `data.path` of a table may be),
    relative to the contract's folder. A row has a list of messages, each with `role` and `content`,
    or with `from` and `value` as in ShareGPT; or an instruction, an input and an output, which are
    two messages. Every other column can be sliced by."""

    messages: str = ""
    """The column of messages. Empty: `messages` or `conversations`, or the columns `instruction`,
    `input` and `output`, whichever the table has."""

    system: str = ""
    """A column of system messages, which stand before the chats that have none."""

    tools: str = ""
    """A column of descriptions of tools, which follow the system message."""

    template: Literal["chatml", "llama3", "plain", "tokenizer"] = "chatml"
    """How messages become a text: as in ChatML (Qwen), as in Llama 3, or `plain`, with a heading
    for each. The marks of a template are tokens of their own where the vocabulary is `bpe`, or
    where the tokenizer has them. `tokenizer`: the jinja template beside `data.tokenizer`, in
    `chat_template.jinja` or `tokenizer_config.json`; it is a program, so it runs in the sandbox of
    jinja, and only with `--allow-code`."""

    loss_on: tuple[Role, ...] = ("assistant", "function_call")
    """The roles whose messages are answers."""

    windows: Literal["packed", "padded"] = "packed"
    """How chats become rows: `packed` into windows, none of which sees another, or each a row of
    its own, `padded` to the longest of its batch."""

    long_documents: Literal["cut", "exclude"] = "cut"
    """What happens to a training chat that is longer than `model.context`: `cut` keeps its
    beginning, `exclude` leaves it out. Answers that lose their end are reported."""

    validation: Fraction = 0.1
    """Share of the chats that steers the training."""

    test: Fraction = 0.1
    """Share of the chats that is opened once, for the verdict."""

    samplings: ClassVar[tuple[str, ...]] = ("uniform",)
    sampling_limits: ClassVar[str] = "chats are packed or padded, and have no classes"

    split_fix: ClassVar[str] = ""

    @property
    def source(self) -> str:
        """The path of its rows; empty where they are named otherwise."""
        return self.path


class PreferenceData(Feeding):
    """Pairs of answers to prompts, a row each, divided by their prompts. A decoder that starts from
    a base learns to prefer the chosen ones, measured against the base (`training.loss: dpo`)."""

    kind: Literal["preferences"]

    path: str
    """A table (JSON Lines, Parquet and whatever else `data.path` of a table may be), relative to
    the contract's folder, with a prompt and two answers a row; see `prompt`. Every other column
    can be sliced by."""

    prompt: str = "prompt"
    """The column of prompts: a text, which a user says, or a list of messages."""

    chosen: str = "chosen"
    """The column of the preferred answers: a text, or a list of messages whose last one is the
    answer. Where the table has no prompts, the messages before it are the prompt."""

    rejected: str = "rejected"
    """The column of the other answers, in the same form."""

    tokenizer: str
    """The `tokenizer.json` of the base, relative to the contract's folder."""

    template: Literal["chatml", "llama3", "plain", "tokenizer"] = "chatml"
    """How messages become a text, as of `kind: chats`; the one that the base was trained with."""

    long_documents: Literal["refuse", "exclude"] = "refuse"
    """What happens to a pair of which an answer with its prompt is longer than `model.context`;
    `exclude` leaves the pair out of every part."""

    validation: Fraction = 0.1
    """Share of the pairs that steers the training."""

    test: Fraction = 0.1
    """Share of the pairs that is opened once, for the verdict."""

    reading: Reading = Reading()
    """How the table is read, and how far its file is trusted."""

    form: ClassVar[str] = "tokens"
    tasks: ClassVar[tuple[str, ...]] = ("generation",)
    samplings: ClassVar[tuple[str, ...]] = ("uniform",)
    sampling_limits: ClassVar[str] = "pairs have no classes"
    usual_metric: ClassVar[tuple[str, str]] = (
        "preference_accuracy",
        "of two answers one is preferred",
    )

    @property
    def source(self) -> str:
        """The path of its rows; empty where they are named otherwise."""
        return self.path

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """The section where the shares of the parts stand, and those that are divided off."""
        return "data", {"validation": self.validation, "test": self.test}

    @property
    def file_reading(self) -> Reading:
        """How its files are read."""
        return self.reading

    @property
    def is_paired(self) -> bool:
        """Is each row a pair of answers, of which one is preferred?"""
        return True
