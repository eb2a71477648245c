"""The contract's shape as data: what a path may hold, in plain words, and which paths exist."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo

from trainwright.contract.key_paths import join
from trainwright.contract.reading.yaml_reader import Plain
from trainwright.contract.sections.section_union import SectionUnion


@dataclass(frozen=True, slots=True)
class AnnotationShape:
    """A type annotation with the constraints that stand around it."""

    annotation: Any
    limits: tuple[Any, ...] = ()

    @property
    def members(self) -> tuple[AnnotationShape, ...]:
        """The members of a union; of anything else, itself."""
        for limit in self.limits:
            if isinstance(limit, SectionUnion):
                named = limit.members.items()
                return tuple(AnnotationShape(section, (Tag(tag),)) for tag, section in named)
        if get_origin(self.annotation) in (Union, types.UnionType):
            return tuple(annotation_shape(member) for member in get_args(self.annotation))
        return (self,)

    @property
    def tag(self) -> str:
        """What chooses this member of a family; empty outside of families."""
        return next((limit.tag for limit in self.limits if isinstance(limit, Tag)), "")

    @property
    def section(self) -> type[BaseModel] | None:
        """The section that this is, if it is one."""
        is_section = isinstance(self.annotation, type) and issubclass(self.annotation, BaseModel)
        return self.annotation if is_section else None

    @property
    def tags(self) -> Mapping[str, AnnotationShape]:
        """The members of a family by their tags; empty outside of families."""
        return {member.tag: member for member in self.members if member.tag}


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an error is: the contract path, its value, and what is allowed."""

    path: tuple[str | int, ...]
    shape: AnnotationShape
    value: Plain

    @property
    def text(self) -> str:
        """The path in the notation of messages."""
        return join("", *self.path)


def annotation_shape(annotation: Any) -> AnnotationShape:
    """The shape of an annotation, with `Annotated` and its fields unpacked."""
    limits: tuple[Any, ...] = ()
    while get_origin(annotation) is Annotated:
        annotation, *extra = get_args(annotation)
        for item in extra:
            limits += tuple(item.metadata) if isinstance(item, FieldInfo) else (item,)
    return AnnotationShape(annotation, limits)


def shape_of_field(field: FieldInfo) -> AnnotationShape:
    """The shape of a section's field."""
    inner = annotation_shape(field.annotation)
    return AnnotationShape(inner.annotation, (*inner.limits, *field.metadata))


def locate(root: type[BaseModel], location: Sequence[str | int], value: Plain) -> Spot | None:
    """Follow the location of a pydantic error through the contract's types.

    The names of union members, which pydantic puts into its locations, are skipped. None is for an
    error about a member that the value was not meant to be.
    """
    spot = Spot((), AnnotationShape(root), value)
    for part in location:
        if len(spot.shape.members) > 1:
            member = _member(spot, str(part))
            if member is None:
                return None if isinstance(spot.value, dict) and _takes_mapping(spot.shape) else spot
            spot = Spot(spot.path, member, spot.value)
            continue
        inner = _inside(spot, part)
        if inner is None:
            return spot
        spot = inner
    return spot


def _takes_mapping(shape: AnnotationShape) -> bool:
    return any(
        member.section or member.tags or get_origin(member.annotation) in (dict, Mapping)
        for outer in shape.members
        for member in outer.members
    )


def _member(spot: Spot, label: str) -> AnnotationShape | None:
    if spot.shape.tags:
        return spot.shape.tags.get(label)
    if not isinstance(spot.value, dict):
        return None
    if families := [member for member in spot.shape.members if member.tags]:
        # A family beside other types: pydantic names it by its members, and nothing else of it.
        return families[0] if label.startswith("tagged-union") else None
    sections = (m for m in spot.shape.members if m.section and m.section.__name__ == label)
    return next(sections, None)


def _inside(spot: Spot, part: str | int) -> Spot | None:
    path = (*spot.path, part)
    section = spot.shape.section
    if section is not None and isinstance(part, str):
        value = spot.value.get(part) if isinstance(spot.value, dict) else None
        field = section.model_fields.get(part)
        # Of a key that the section does not have, the section itself says what there is.
        return Spot(path, shape_of_field(field) if field else spot.shape, value)
    arguments = get_args(spot.shape.annotation)
    if isinstance(spot.value, dict) and isinstance(part, str):
        return Spot(path, annotation_shape(arguments[1]), spot.value.get(part))
    if isinstance(spot.value, list) and isinstance(part, int) and part < len(spot.value):
        return Spot(path, annotation_shape(arguments[0]), spot.value[part])
    return None


def expected(shape: AnnotationShape) -> str:
    """What a shape accepts, in plain words."""
    if shape.tags:
        return f"a mapping with one of: {', '.join(shape.tags)}"
    if words := choices(shape):
        others = [m for m in shape.members if get_origin(m.annotation) is not Literal]
        listed = words[0] if len(words) == 1 else f"one of: {', '.join(words)}"
        return ", or ".join([listed, *(expected(member) for member in others)])
    if len(shape.members) > 1:
        return ", or ".join(expected(member) for member in shape.members)
    annotation = shape.annotation
    if shape.section is not None:
        return f"a mapping with keys of: {', '.join(shape.section.model_fields)}"
    if get_origin(annotation) is tuple:
        return _expected_list(shape)
    if get_origin(annotation) in (dict, Mapping):
        return "a mapping"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return " ".join(
        part for part in (names.get(annotation, "another value"), _range(shape.limits)) if part
    )


def _expected_list(shape: AnnotationShape) -> str:
    arguments = get_args(shape.annotation)
    item = expected(annotation_shape(arguments[0]))
    if arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} items, each {item}"
    least = any(isinstance(limit, MinLen) and limit.min_length for limit in shape.limits)
    return f"a list{' of at least one item' if least else ''}, each item {item}"


def _range(limits: tuple[Any, ...]) -> str:
    """The tightest limit at each end."""
    low: list[tuple[Any, bool]] = []
    high: list[tuple[Any, bool]] = []
    for limit in limits:
        match limit:
            case Ge(ge=end):
                low.append((end, False))
            case Gt(gt=end):
                low.append((end, True))
            case Le(le=end):
                high.append((end, True))
            case Lt(lt=end):
                high.append((end, False))
    parts = []
    if low:
        least, is_open = max(low)
        parts.append(f"above {least}" if is_open else f"of at least {least}")
    if high:
        most, is_closed = min(high)
        parts.append(f"of at most {most}" if is_closed else f"below {most}")
    return " and ".join(parts)


def choices(shape: AnnotationShape) -> tuple[str, ...]:
    """The words that a shape accepts, of all its members."""
    return tuple(
        str(value)
        for member in shape.members
        if get_origin(member.annotation) is Literal
        for value in get_args(member.annotation)
    )


@cache
def known_paths(root: type[BaseModel]) -> tuple[str, ...]:
    """Every key of the contract, as a path. Items of lists and of mappings have none."""
    return tuple(dict.fromkeys(_paths(root, "")))


def _paths(section: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        path = f"{prefix}{name}"
        yield path
        for member in shape_of_field(field).members:
            for inner in member.members:
                if inner.section is not None:
                    yield from _paths(inner.section, f"{path}.")
