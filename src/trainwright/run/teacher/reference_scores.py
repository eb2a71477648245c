"""Log-probabilities of answers by the base of a model, computed once for a version of the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.objective import Dpo
from trainwright.core.files import Json, hash_value
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.base.token_inputs import PreferenceInputs, TokenInputs
from trainwright.data.chats.prepare_preferences import keep_short_pairs
from trainwright.data.sources.cache import cache_value, open_cache
from trainwright.data.types import Prepared
from trainwright.model.input_shape import shape_of


def with_reference(contract: Contract, prepared: Prepared, folder: Path) -> Prepared:
    """Data whose pairs know what the base of a resolved contract says of them, and how much a
    difference to it counts. Others are unchanged.

    The numbers are kept in the cache by the hash of the base, of the template and of the data. A
    part has the pairs that fit into a window.
    """
    loss = contract.training.loss
    if not contract.data.is_paired or not isinstance(loss, Dpo):
        return prepared
    context = contract.model.context_length
    parts = [
        keep_short_pairs(part, context)
        for part in (prepared.train, prepared.validation, prepared.test)
    ]
    key = hash_value(
        {
            "scheme": 1,
            "data": prepared.version,
            "model": contract.model.without_adapter().model_dump(mode="json"),
            "rows": [len(part) for part in parts],
        }
    )

    def score() -> Json:
        return {"of_parts": _by_base(contract, prepared, parts)}

    cache = open_cache(contract.data.cache_folder, folder)
    found = cache_value(cache, key, f"what the base says of {contract.name}", score)["of_parts"]
    train, validation, test = (
        _known(part, np.array(one), loss) for part, one in zip(parts, found, strict=True)
    )
    version = hash_value({"pairs": prepared.version, "reference": key, "beta": loss.beta})
    return replace(prepared, train=train, validation=validation, test=test, version=version)


def _known(part: Part, reference: Floats, loss: Dpo) -> Part:
    inputs = PreferenceInputs.of_kind(part.inputs)
    lengths = inputs.answers.lengths if loss.length_normalised else np.ones(len(reference))
    known = replace(inputs, reference=reference, scale=loss.beta / lengths)
    return replace(part, inputs=known)


def _by_base(contract: Contract, prepared: Prepared, parts: list[Part]) -> list[list[float]]:
    """Log-probabilities of the answers of each part, two for each pair."""
    import torch

    from trainwright.model.families import network_family
    from trainwright.predictor.network_scorer import NetworkScorer

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    section, shape = contract.model.without_adapter(), shape_of(prepared)
    base = network_family(section).build(section, shape).to(device).eval()
    scorer = NetworkScorer(section, shape, prepared.target, base)
    with torch.no_grad():
        nll = [
            scorer.segment_nll(TokenInputs.of_kind(part.inputs.segments))[:, 0] for part in parts
        ]
    return [(-one).tolist() for one in nll]
