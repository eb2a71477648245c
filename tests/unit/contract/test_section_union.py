"""Sections that are told apart by a key; each is looked up when a contract names it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from trainwright.contract.sections.section import Count, Section, SectionUnion, tagged_by


class Shape(Section):
    kind: str


class Square(Shape):
    kind: Literal["square"] = "square"
    sides: tuple[Count, ...] = ()


class Circle(Shape):
    kind: Literal["circle"]
    square: Square = Square()


class Watched(Mapping[str, type[Section]]):
    """Keeps what is looked up."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, key: str) -> type[Section]:
        self.asked.append(key)
        return {"square": Square, "circle": Circle}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("square", "circle"))

    def __len__(self) -> int:
        return 2


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def shapes(watched: Watched) -> TypeAdapter[Shape]:
    return TypeAdapter(Annotated[Shape, SectionUnion(watched, tagged_by("kind", "square"))])


def test_only_the_section_that_is_named_is_looked_up(
    shapes: TypeAdapter[Shape], watched: Watched
) -> None:
    assert shapes.validate_json('{"sides": [1, 2]}') == Square(sides=(1, 2))
    assert set(watched.asked) == {"square"}


def test_in_json_alone_a_list_becomes_a_tuple(shapes: TypeAdapter[Shape]) -> None:
    square = Square(sides=(1,))
    assert shapes.validate_python(square) is square
    with pytest.raises(ValidationError, match="sides"):
        shapes.validate_python({"sides": [1]})


def test_an_unknown_tag_is_refused_without_looking(
    shapes: TypeAdapter[Shape], watched: Watched
) -> None:
    with pytest.raises(ValidationError, match="'square', 'circle'"):
        shapes.validate_json('{"kind": "oval"}')
    assert watched.asked == []


def test_an_error_has_the_place_that_pydantic_gives_it(shapes: TypeAdapter[Shape]) -> None:
    with pytest.raises(ValidationError) as caught:
        shapes.validate_json('{"kind": "circle", "square": {"sides": [1, 0]}, "radius": 2}')
    found = [(error["type"], error["loc"]) for error in caught.value.errors()]
    assert found == [
        ("greater_than_equal", ("circle", "square", "sides", 1)),
        ("extra_forbidden", ("circle", "radius")),
    ]


def test_it_is_written_as_it_was_set(shapes: TypeAdapter[Shape]) -> None:
    read = shapes.validate_json('{"kind": "circle", "square": {"sides": [3]}}')
    written = {"kind": "circle", "square": {"sides": [3]}}
    assert shapes.dump_python(read, mode="json", exclude_unset=True) == written
    assert shapes.validate_json(shapes.dump_json(read)) == read


def test_its_json_schema_names_every_member(shapes: TypeAdapter[Shape]) -> None:
    schema = shapes.json_schema()
    assert schema["oneOf"] == [{"$ref": "#/$defs/Square"}, {"$ref": "#/$defs/Circle"}]
    assert schema["$defs"]["Circle"]["properties"]["square"]["$ref"] == "#/$defs/Square"


def test_a_contract_imports_the_sections_that_it_names() -> None:
    program = (
        "import sys; from trainwright.contract.document import Contract; "
        """Contract.model_validate_json('{"data": {}, "model": {"kind": "mlp"}}'); """
        "print(sorted(one for one in sys.modules if '.sections.model.' in one))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    here = "trainwright.contract.sections.model"
    assert done.stdout.strip() == str([f"{here}.table_networks", f"{here}.traits"]), done.stderr
