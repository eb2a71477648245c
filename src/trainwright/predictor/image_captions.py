"""Captions of images, token by token. Needs torch."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch

from trainwright.data.base.inputs import Bytes
from trainwright.data.captions.caption_encoding import CaptionEncoding
from trainwright.model.model_call import ImageDescriber
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import Continuation, DecodingOptions, TextGenerator


@final
class CaptionWriter:
    """Writes of images with the vision-language model of a predictor, on its device. A text also
    ends where the captions of the training end."""

    def __init__(self, predictor: Predictor, decoding: DecodingOptions) -> None:
        scorer = predictor.scorer
        assert isinstance(scorer, NetworkScorer), "such a model is a network"
        assert isinstance(scorer.network, ImageDescriber), "the caller has looked"
        self._describer = scorer.network
        self._device = next(scorer.network.parameters()).device
        self._text = CaptionEncoding.of_kind(predictor.features).text
        self._decoding = replace(decoding, stop=(self._text.end, *decoding.stop))

    def write(self, pixels: Bytes, question: str = "", row: int = 0) -> Continuation:
        """The caption of an image, uint8 [C, H, W], or the answer to a question about it. The
        random numbers depend on the seed of the options and `row` alone.

        Raises:
            Mistake: nothing stands before the caption.
        """
        given = torch.from_numpy(pixels[None].copy()).to(self._device)
        decoder = self._describer.about(given)
        generator = TextGenerator(decoder, self._text.words, self._decoding, self._device)
        return generator.go_on(self._text.ask(question), row)
