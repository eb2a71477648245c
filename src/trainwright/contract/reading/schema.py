"""The contract's shape as data and as a JSON schema: what a path may hold, for messages,
completion and documentation."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import join
from trainwright.contract.reading.yaml_reader import Plain
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.section import Section, SectionUnion
from trainwright.core.files import Json

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


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


def field_texts(section: type[Section]) -> dict[str, str]:
    """The text of each field that has one, also of fields that it has from a parent.

    Pydantic can do it (`use_attribute_docstrings`), but does it when a class is made: a quarter of
    the time that it takes to import the contract, which only the schema should wait for.
    """
    found: dict[str, str] = {}
    for parent in reversed(section.__mro__):
        if issubclass(parent, Section):
            for name in inspect.get_annotations(parent):
                found.pop(name, None)
            found |= _texts_of_module(parent.__module__).get(parent.__qualname__, {})
    # Traits (ClassVar) are documented in the same way.
    return {name: text for name, text in found.items() if name in section.model_fields}


@cache
def _texts_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """For each class of a module, the texts of its own fields."""
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {one.name: _texts_of_class(one) for one in tree.body if isinstance(one, ast.ClassDef)}


def _texts_of_class(defined: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(defined.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def contract_schema() -> Json:
    """The JSON schema of a contract, as JSON values. The same for the same version."""
    schema: Json = {
        "$schema": _DIALECT,
        **Contract.model_json_schema(),
        "title": "Trainwright contract",
    }
    sections = schema["$defs"]
    classes = {section.__name__: section for section in _all_sections(Section)}
    for name, section in (("Contract", schema), *sections.items()):
        _document(section["properties"], field_texts(classes[name]))
    sections["Metric"]["properties"]["name"]["enum"] = ["auto", *METRICS]
    sections["Slice"]["properties"]["metric"]["enum"] = ["auto", *METRICS]
    sections["EarlyStopping"]["properties"]["metric"]["enum"] = [
        "auto",
        "val_loss",
        *(f"val_{name}" for name in METRICS),
    ]
    for section in (schema, *sections.values()):
        _describe(section)
    return schema


def schema_text() -> str:
    """The JSON schema as text, in the order of the contract's own documentation."""
    return json.dumps(contract_schema(), indent=2, ensure_ascii=False) + "\n"


def _all_sections(root: type[Section]) -> Iterator[type[Section]]:
    for section in root.__subclasses__():
        yield section
        yield from _all_sections(section)


def _document(properties: Json, texts: Mapping[str, str]) -> None:
    """Put the text of each field where pydantic would put it: keys are in order."""
    for name, text in texts.items():
        properties[name] = dict(sorted({**properties[name], "description": text}.items()))


def _describe(section: Json) -> None:
    """Give the key that chooses a member of a family the member's own description."""
    section["description"] = _one_line(section["description"])
    for described in section["properties"].values():
        described.setdefault("description", section["description"])
        described["description"] = _one_line(described["description"])


def _one_line(text: str) -> str:
    return " ".join(text.split())
