"""`model` of kind `auto`: several kinds of models are trained, and one, or an ensemble, is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from trainwright.contract.sections.model.linear import Linear
from trainwright.contract.sections.model.neighbours import Neighbours
from trainwright.contract.sections.model.table_networks import FtTransformer, Mlp, TabularResNet
from trainwright.contract.sections.model.traits import ModelSection, TableDefaults, Traits
from trainwright.contract.sections.model.trees import Boosting, CatBoost, Forest, XGBoost
from trainwright.contract.sections.section import Auto
from trainwright.core.errors import Problem

Candidate = Literal[
    "dummy",
    "linear",
    "boosting",
    "xgboost",
    "catboost",
    "forest",
    "extra_trees",
    "neighbours",
    "mlp",
    "tabular_resnet",
    "ft_transformer",
]

DUMMY_CANDIDATE = "dummy"
"""Class shares, or the mean: the one candidate that is no family."""

CANDIDATES: Mapping[str, ModelSection] = MappingProxyType(
    {
        "linear": Linear(kind="linear"),
        "boosting": Boosting(kind="boosting"),
        "xgboost": XGBoost(kind="xgboost"),
        "catboost": CatBoost(kind="catboost"),
        "forest": Forest(kind="forest"),
        "extra_trees": Forest(kind="forest", method="extra_trees"),
        "neighbours": Neighbours(kind="neighbours"),
        "mlp": Mlp(kind="mlp"),
        "tabular_resnet": TabularResNet(kind="tabular_resnet"),
        "ft_transformer": FtTransformer(kind="ft_transformer"),
    }
)
"""Section of each candidate that is a family, from the simplest on: a sum of columns, few trees,
many deep trees, the training rows themselves, networks by their number of operations."""

USUAL_CANDIDATES = tuple(
    name for name in (DUMMY_CANDIDATE, *CANDIDATES) if name != "ft_transformer"
)
"""Those of `auto`: attention over columns takes many times as long as the other networks."""

_ANY_SCALE = "each candidate encodes the columns in its own way"


class ModelSelection(ModelSection):
    """Trains several kinds of models with their defaults, one after another, within the budget, and
    keeps one, or an ensemble of them. They are compared on validation rows, or on rows that folds
    have held out; the test rows stay closed until the kept model is judged."""

    traits: ClassVar[Traits] = Traits(
        reads=("table",),
        trained_by="selection",
        predicts=frozenset({"targets", "labels"}),
        unit="candidate",
        weighs_rows=False,
        reads_missing=True,
        reads_files=False,
        table=TableDefaults(
            numeric=("none", _ANY_SCALE),
            impute=("none", _ANY_SCALE),
            categorical=("by_count", _ANY_SCALE),
            reduce=("none", _ANY_SCALE),
            terms=(2000, _ANY_SCALE),
        ),
    )

    kind: Literal["auto"]

    candidates: Auto | tuple[Candidate, ...] = "auto"
    """Kinds of models to train, whatever their order here: they are trained from the simplest on.
    `dummy` always predicts the class shares or the mean, `extra_trees` is `forest` with
    `method: extra_trees`. `auto`: all but `ft_transformer`. What is not installed, cannot read the
    data or does not fit into the budget is named, and skipped."""

    ensemble: bool | Literal["weighted", "stacked", "always"] = "weighted"
    """Whether several candidates together may be the model. `weighted`, or `true`: their weighted
    mean (Caruana et al. 2004, doi:10.1145/1015330.1015432), cross-fitted. `stacked`: that, or a
    second level fitted to their held-out scores (Wolpert 1992,
    doi:10.1016/S0893-6080(05)80023-1). `always`: the weighted mean in any case. Several targets
    share the weights, and have no second level."""

    choice: Literal["simplest", "best"] = "best"
    """What is kept: the `best` value of candidates and ensembles, or the `simplest` within noise:
    the first candidate whose paired interval reaches the best one, and an ensemble only if its
    interval is above the best candidate, a second level only above the mean."""

    bagging: Auto | Literal["off"] | Annotated[int, Field(ge=2, le=20)] = "auto"
    """Folds of the training and validation rows together: each candidate is then the mean of as
    many models, each of which was trained without one fold and is compared on that. `off`: one
    model a candidate, compared on the validation rows. `auto`: 5 where an ensemble is allowed and
    rows are not divided by time, of at least 100 training rows and as many as the budget has time
    for, without one 50,000; else off."""

    @classmethod
    def of(cls, model: ModelSection) -> Self:
        """The same section where its kind is settled; another one is a programmer's mistake."""
        assert isinstance(model, cls), f"{model.kind} is no selection"
        return model

    @property
    def chosen_names(self) -> tuple[str, ...]:
        """The candidates, from the simplest on."""
        if self.candidates == "auto":
            return USUAL_CANDIDATES
        return tuple(name for name in (DUMMY_CANDIDATE, *CANDIDATES) if name in self.candidates)

    @property
    def stacks(self) -> bool:
        """Is a second level among the ensembles?"""
        return self.ensemble == "stacked"

    @property
    def bagging_folds(self) -> Literal["auto", "off"] | int:
        """See `bagging`."""
        return self.bagging

    @property
    def may_be_linear(self) -> bool:
        """As the linear baseline, if that is kept."""
        return "linear" in self.chosen_names

    def own_problems(self) -> Iterator[Problem]:
        """Candidates that are none, or twice the same."""
        names = self.candidates
        if names == "auto" or (names and len(set(names)) == len(names)):
            return
        yield Problem(
            "there are no candidates to choose from" if not names else "a candidate is named twice",
            path="model.candidates",
            found=", ".join(names) or "none",
            expected="different kinds of models, or auto",
            fix="write for example candidates: [linear, boosting]",
        )
