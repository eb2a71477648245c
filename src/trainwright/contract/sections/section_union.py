"""A closed union of sections, told apart by one key; a member is imported when it is first read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union, final

from pydantic import (
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationInfo,
)

from trainwright.contract.sections.section import Section

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue


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
