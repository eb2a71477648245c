"""Classes of images as texts, for a zero-shot classification: a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from trainwright.contract.sections.metric import Metric, Slice
from trainwright.contract.sections.section import Section
from trainwright.core.errors import Problem

BLANK = "{}"
"""Where a template has the name of a class."""


class ZeroShot(Section):
    """Classes that a dual encoder of images and texts tells apart by their names, and what it must
    reach (Radford et al. 2021, arXiv:2103.00020, section 3.1)."""

    classes: Annotated[tuple[str, ...], Field(min_length=2)]
    """The classes, as the labels name them. Of two the second is the positive one."""

    names: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """How a class is called in words, where it is not by its label; several names are averaged."""

    templates: Annotated[tuple[str, ...], Field(min_length=1)] = (BLANK,)
    """Texts with {} for the name of a class, such as `a photo of a {}.`. The embeddings of a class
    by all templates and names are averaged (section 3.1.4)."""

    label: str = "label"
    """The column with the class of each image; unused for a folder with a folder for each class."""

    group: str = ""
    """The column whose equal values count as one unit in the intervals. Empty: equal images do."""

    metric: Metric = Metric()
    """As in a contract; `auto` is `accuracy`."""

    slices: tuple[Slice, ...] = ()
    """As in a contract, by the columns of the table."""

    def texts_of(self, label: str) -> tuple[str, ...]:
        """The texts of a class: each template with each of its names."""
        names = self.names.get(label, (label,))
        return tuple(one.replace(BLANK, name) for one in self.templates for name in names)

    def own_problems(self) -> Iterator[Problem]:
        """Classes, names and templates fit each other."""
        twice = sorted({one for one in self.classes if self.classes.count(one) > 1})
        if twice:
            yield Problem("a class is listed twice", path="classes", found=", ".join(twice))
        for label, names in self.names.items():
            if label not in self.classes:
                yield Problem(
                    f"names of {label!r}, which is no class",
                    path=f"names.{label}",
                    found=label,
                    expected=", ".join(self.classes[:10]),
                )
            if not all(one.strip() for one in names) or not names:
                yield Problem(
                    f"the class {label!r} has no name", path=f"names.{label}", found="an empty name"
                )
        for at, template in enumerate(self.templates):
            if BLANK not in template:
                yield Problem(
                    "a template says the same of every class",
                    path=f"templates.{at}",
                    found=template,
                    expected="a text with {} where the name of the class stands",
                    fix="write {} into it",
                )
