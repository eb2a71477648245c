"""What every section of a contract is: frozen values, unknown keys refused; and closed unions
of sections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, final

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationInfo,
)

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

Auto = Literal["auto"]
"""A value that the plan decides; the plan keeps what it chose and why."""

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]

T = TypeVar("T")


class Section(BaseModel):
    """A part of the contract. The text under each field is its reference documentation."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,
    )


def settled(value: T | Auto) -> T:
    """The value of a field that a plan has decided; `auto` here is a programmer's mistake."""
    assert value != "auto", "objects are built from the plan, where nothing is `auto`"
    return value


def tagged_by(key: str, default: str) -> Discriminator:
    """Choose a member of a family by its `key`; a mapping that leaves it out is the `default`."""

    def tag(value: Any) -> str:
        if isinstance(value, Mapping):
            return str(value.get(key, default))
        return str(getattr(value, key, "missing"))

    return Discriminator(tag)


@final
class SectionUnion:
    """Stands in `Annotated` behind the class that all members share.

    Pydantic sees a tagged union: an unknown tag is refused without importing anything, the tag
    stands in the location of a member's errors, and the JSON schema, which imports all of them,
    names each.
    """

    def __init__(self, members: Mapping[str, type[Section]], tag: Discriminator) -> None:
        """`members` are the sections by their tags; `tag` tells the tag of a value."""
        self.members = members
        self._tag = tag

    def __get_pydantic_core_schema__(
        self, _source: object, handler: GetCoreSchemaHandler, /
    ) -> Any:
        """See pydantic's "Custom types"."""
        return handler.generate_schema(
            self._union({tag: Annotated[Any, self._reader(tag)] for tag in self.members})
        )

    def __get_pydantic_json_schema__(
        self, _schema: object, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """See pydantic's "Custom types"."""
        whole: TypeAdapter[Section] = TypeAdapter(self._union(self.members))
        return handler(whole.core_schema)

    def _union(self, members: Mapping[str, Any]) -> Any:
        tagged = tuple(Annotated[one, Tag(tag)] for tag, one in members.items())
        return Annotated[Union[tagged], self._tag]  # noqa: UP007 - of a tuple

    def _reader(self, tag: str) -> PlainValidator:
        def read(value: Any, info: ValidationInfo) -> Section:
            section = self.members[tag]
            if info.mode == "json":
                # In JSON alone a list may become a tuple.
                return section.model_validate_json(json.dumps(value))
            return section.model_validate(value)

        return PlainValidator(read)
