"""What `init --tune` proposes to search for each family: few values that matter, with ranges of
published searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

from trainwright.contract.sections.model.traits import ModelSection


@final
@dataclass(frozen=True, slots=True)
class ProposedAxis:
    """A path of the contract, the values that are tried, in YAML, and why."""

    path: str
    values: str
    reason: str


_STEP = "a larger one needs fewer trees"
_SHARE = "share of the columns"
_WEIGHTS = "training.optimizer.weight_decay"
_RATE = "training.optimizer.learning_rate"


def _rate(low: str, high: str, reason: str) -> ProposedAxis:
    return ProposedAxis(_RATE, f"{{low: {low}, high: {high}, scale: log}}", reason)


_DECAY = ProposedAxis(_WEIGHTS, "{low: 1.0e-6, high: 1.0e-1, scale: log}", "pulls weights to 0")
_NEW_NETWORK = _rate("1.0e-4", "1.0e-2", "for weights that start at random")
_TABLE_NETWORK = (
    _rate("1.0e-4", "1.0e-2", "Gorishniy et al. 2021"),
    _DECAY,
)
_FINE_TUNING = (
    _rate("1.0e-5", "1.0e-4", "around Devlin et al. 2019"),
    ProposedAxis("training.num_epochs", "[2, 3, 4]", "Devlin et al. 2019"),
)
_ADAPTER = (_rate("1.0e-4", "3.0e-3", "ten times that of its base"),)

SEARCH_SPACES: Mapping[str, tuple[ProposedAxis, ...]] = {
    "boosting": (
        ProposedAxis("model.learning_rate", "{low: 0.01, high: 0.2, scale: log}", _STEP),
        ProposedAxis("model.num_leaves", "{low: 4, high: 128, scale: log}", "size of a tree"),
        ProposedAxis(
            "model.min_data_in_leaf", "{low: 2, high: 100, scale: log}", "rows; few follow noise"
        ),
        ProposedAxis("model.feature_fraction", "{low: 0.4, high: 1.0}", _SHARE),
    ),
    "xgboost": (
        ProposedAxis("model.learning_rate", "{low: 0.01, high: 0.2, scale: log}", _STEP),
        ProposedAxis("model.max_depth", "{low: 2, high: 10}", "depth of a tree"),
        ProposedAxis(
            "model.min_child_weight", "{low: 0.5, high: 50.0, scale: log}", "weight of a leaf"
        ),
        ProposedAxis("model.feature_fraction", "{low: 0.4, high: 1.0}", _SHARE),
    ),
    "catboost": (
        ProposedAxis("model.learning_rate", "{low: 0.01, high: 0.2, scale: log}", _STEP),
        ProposedAxis("model.depth", "{low: 4, high: 8}", "depth of its symmetric trees"),
        ProposedAxis("model.lambda_l2", "{low: 1.0, high: 10.0, scale: log}", "shrinks leaves"),
    ),
    "forest": (
        ProposedAxis("model.method", "[random_forest, extra_trees]", "best or random thresholds"),
        ProposedAxis(
            "model.min_data_in_leaf", "{low: 1, high: 20, scale: log}", "Probst et al. 2019"
        ),
        ProposedAxis("model.feature_fraction", "{low: 0.1, high: 1.0}", _SHARE),
    ),
    "neighbours": (
        ProposedAxis("model.neighbours", "{low: 3, high: 100, scale: log}", "fewer follow noise"),
        ProposedAxis("model.weighting", "[uniform, distance]", "whether near ones count more"),
    ),
    "linear": (
        ProposedAxis(
            "model.penalty", "{low: 1.0e-4, high: 1.0e+2, scale: log}", "pulls weights to 0"
        ),
    ),
    "mlp": (
        *_TABLE_NETWORK,
        ProposedAxis("model.dropout", "{low: 0.0, high: 0.5}", "more for few rows"),
        ProposedAxis("model.numeric_embedding", "[none, periodic]", "Gorishniy et al. 2022"),
    ),
    "ft_transformer": (
        replace(_TABLE_NETWORK[0], values="{low: 3.0e-5, high: 1.0e-3, scale: log}"),
        _DECAY,
        ProposedAxis("model.layers", "{low: 1, high: 4}", "depth"),
        ProposedAxis("model.hidden_dropout", "{low: 0.0, high: 0.5}", "more for few rows"),
    ),
    "tabular_resnet": (
        *_TABLE_NETWORK,
        ProposedAxis("model.blocks", "{low: 1, high: 6}", "depth"),
        ProposedAxis("model.hidden_dropout", "{low: 0.0, high: 0.5}", "more for few rows"),
    ),
    "resnet": (_NEW_NETWORK, _DECAY),
    "gpt": (
        _NEW_NETWORK,
        ProposedAxis("model.dropout", "{low: 0.0, high: 0.3}", "more where texts repeat"),
        ProposedAxis(_WEIGHTS, "{low: 1.0e-3, high: 0.3, scale: log}", "0.1 is usual"),
    ),
    "causal_lm": _FINE_TUNING,
    "pretrained": _FINE_TUNING,
    "dual_encoder": (
        _NEW_NETWORK,
        ProposedAxis("model.temperature", "{low: 0.01, high: 0.2, scale: log}", "at the start"),
    ),
    "bi_encoder": (
        _NEW_NETWORK,
        ProposedAxis("model.temperature", "{low: 0.01, high: 0.2, scale: log}", "of the loss"),
    ),
    "vision_language": (_NEW_NETWORK, _DECAY),
    "imported": (_NEW_NETWORK, _DECAY),
}
"""By the kind of the family. Boosted trees: Grinsztajn et al. 2022, arXiv:2207.08815; Salinas and
Erickson 2023, arXiv:2311.02971. Networks of tables: Gorishniy et al. 2021, arXiv:2106.11959."""


def propose_space(model: ModelSection) -> tuple[ProposedAxis, ...]:
    """The space of a model; none for one that selects among families itself."""
    if model.has_adapter:
        return _ADAPTER
    return SEARCH_SPACES.get(str(getattr(model, "kind", "")), ())
