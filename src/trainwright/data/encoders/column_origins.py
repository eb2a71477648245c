"""The input column that each encoded column comes from."""

from __future__ import annotations

from trainwright.data.encoders.encoding import names_of_kind
from trainwright.data.encoders.table_encoder import TableEncoder


def origins_of(features: TableEncoder) -> tuple[str, ...]:
    """The input column behind each of `numeric_names`, then of `categorical_names`."""
    own = (
        *names_of_kind(features.columns, "numeric"),
        *(date.column for date in features.dates),
        *features.history.origins,
        *(means.vocabulary.name for means in features.means for _ in means.names),
    )
    indicators = (own[i] for i in features.numbers.indicated)
    # Texts that are reduced stand before those that stay terms.
    texts = sorted(features.texts, key=lambda text: not text.is_reduced)
    terms = (text.column for text in texts for _ in text.names)
    return (*own, *indicators, *terms, *features.categorical_names)


def columns_of_origins(features: TableEncoder) -> dict[str, tuple[str, ...]]:
    """For each input column the columns of typed rows that are read: itself, if it is a feature,
    and its past."""
    found: dict[str, list[str]] = {column.name: [column.name] for column in features.columns}
    history = features.history
    for origin, name in zip(history.origins, history.names, strict=True):
        found.setdefault(origin, []).append(name)
    return {origin: tuple(names) for origin, names in found.items()}
