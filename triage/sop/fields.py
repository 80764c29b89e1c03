"""Field types that the SOP file and the sites file share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$"
NAME_PATTERN = r"^\S(.*\S)?$"
MAX_TEXT = 8192  # characters
MAX_NAME = 256  # characters of an alarm, a site or an asset: they come from other systems


class FileModel(BaseModel):
    """A mapping in a file. Nothing is converted: `"7"` is no number, and no key goes unread."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _scalar(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    raise PydanticCustomError("scalar_type", "must be a number, text, `true` or `false`")


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Id = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=MAX_NAME)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT)]
Unit = Annotated[str, StringConstraints(strip_whitespace=True, max_length=64)]
Scalar = Annotated[
    Any,
    AfterValidator(_scalar),
    WithJsonSchema({"type": ["number", "string", "boolean"]}),
]
References = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    BeforeValidator(_one_or_many, json_schema_input_type=str | list[str]),
    Field(json_schema_extra={"uniqueItems": True}),
]
"""Names of other entries: a list, or one name alone. Whether they exist is checked elsewhere."""
