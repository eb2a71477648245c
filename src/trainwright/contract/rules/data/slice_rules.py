"""Rules about slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem


def slices_are_named(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Each slice says one way which rows it means, and no two have the same name."""
    names = Counter[str]()
    for at, part in enumerate(contract.slices):
        if bool(part.column) == bool(part.where):
            yield Problem(
                "a slice has either a column or a condition",
                path=f"slices.{at}",
                found="both" if part.column else "neither",
                expected="column or where",
                fix="keep one of the two" if part.column else "add for example: column: region",
            )
        if part.name and part.column and not part.where:
            yield Problem(
                "the slices of a column are named by its values",
                path=f"slices.{at}.name",
                found=part.name,
                expected="name only beside where",
                fix="remove name",
            )
        name = (part.name or part.where) if part.where else f"{part.column}=<value>"
        names[name] += 1
        if names[name] == 2 and (part.column or part.where):
            yield Problem(
                f"two slices are called {name!r}",
                path=f"slices.{at}",
                expected="a name for each",
                fix="remove one, or give it a name of its own",
            )
