"""`data` of `kind: captions`: images, each with a text that a model learns to write."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.data.pairs import PictureTable


class CaptionData(PictureTable):
    """Images with a text each, such as a caption or the answer to a question: a vision-language
    model learns to write it. A row is read as image, question, prompt, caption, end; the loss and
    the metrics count the caption and its end alone."""

    kind: Literal["captions"]

    question: str = ""
    """The column of what is asked of each image; its text stands between the image and the
    `prompt`. Empty: nothing is asked."""

    prompt: str = "\n"
    """Text between the image, or the question, and the caption, the same in every row. No token
    reaches from it into the caption, and a row has at least one token before its caption."""

    end: str = "\x1e"
    """Text behind each caption, by which the model learns to stop; where the tokenizer of a decoder
    has a mark for it, such as `</s>`, that mark. U+001E, as behind the documents of a text."""

    vocabulary: Literal["bytes", "tokenizer"] = "bytes"
    """What a token is: `bytes` are the 256 values of UTF-8, `tokenizer` is the one of a file, which
    the weights of a decoder need. Nothing is fitted to the captions."""

    tokenizer: str = ""
    """A `tokenizer.json` as the tokenizers library writes it, relative to the contract's folder;
    beside `vocabulary: tokenizer`."""

    form: ClassVar[str] = "captions"
    tasks: ClassVar[tuple[str, ...]] = ("generation",)
    is_slow_to_improve: ClassVar[bool] = False
    sampling_limits: ClassVar[str] = "captions are padded, and have no classes"
