"""`model.adapter`: few weights that are trained beside a frozen base."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Count, Fraction, Positive, Section

Targets = Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)]


class Lora(Section):
    """A product of two narrow matrices beside each adapted one: W x + (alpha / rank) B A x (Hu et
    al. 2021, arXiv:2106.09685, section 4.1). A is drawn at random and B is 0, so that the training
    starts at the base."""

    kind: Literal["lora", "rslora", "dora"]
    """`lora`; `rslora` with alpha / sqrt(rank), so that a higher rank does not learn more slowly
    (Kalajdzievski 2023, arXiv:2312.03732); `dora`, in which the length of each row of the matrix is
    trained apart from its direction (Liu et al. 2024, arXiv:2402.09353)."""

    rank: Count = 16
    """Rows of A, columns of B."""

    alpha: Positive = 32.0
    """Scale of what is added."""

    dropout: Fraction = 0.0
    """Share of the inputs of A that is dropped."""

    targets: Targets = "all"
    """Layers that are adapted, by the last parts of their names in the architecture of the base,
    for example `[q_proj, v_proj]`; `all`: every linear layer but the head."""


Adapter = Lora
