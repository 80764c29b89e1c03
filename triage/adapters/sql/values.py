"""What a column's value becomes: JSON types only, so that a stored answer equals the live one.

======================  ======================================================================
database                answer
======================  ======================================================================
integer                 int; beyond 64 bits a float
real, numeric           float, finite; otherwise "NaN", "Infinity" or "-Infinity"
text, uuid, inet, enum  str
boolean                 bool (SQLite has none: 0 and 1)
timestamp with zone     ISO 8601 in UTC with "+00:00"
timestamp without       ISO 8601 without an offset: `context.localise` puts it in a zone
date, time, interval    ISO 8601
json, jsonb, arrays     the JSON value
NULL                    None
bytes and the rest      refused, with the column's name: cast in the query
======================  ======================================================================
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # what JSON of orjson holds exactly


class NoJsonForm(Exception):
    """The value cannot be part of an answer; `str()` is the name of its type."""


def json_value(value: Any) -> Any:
    """`value` as JSON types. Raises NoJsonForm."""
    convert = _CONVERT.get(type(value))
    if convert is not None:
        return convert(value)
    # Drivers subclass: asyncpg's UUID is one, and a recursive JSON container may be another.
    for kind, convert in _CONVERT.items():
        if kind is not int and isinstance(value, kind):
            return convert(value)
    raise NoJsonForm(type(value).__name__)


def _itself(value: Any) -> Any:
    return value


def _integer(value: int) -> int | float | str:
    return value if _SMALLEST <= value <= _LARGEST else _real(value)


def _real(value: float | Decimal) -> float | str:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _datetime(value: datetime) -> str:
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()


def _iso(value: date | time) -> str:
    return value.isoformat()


def _sequence(value: Any) -> list[Any]:
    return [json_value(item) for item in value]


def _mapping(value: Any) -> dict[str, Any]:
    return {str(key): json_value(item) for key, item in value.items()}


def _enum(value: Enum) -> Any:
    return json_value(value.value)


_CONVERT: dict[type, Callable[[Any], Any]] = {
    str: _itself,
    type(None): _itself,
    bool: _itself,
    int: _integer,
    float: _real,
    Decimal: _real,
    datetime: _datetime,
    date: _iso,
    time: _iso,
    UUID: str,
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    Enum: _enum,
    **dict.fromkeys(
        (IPv4Address, IPv6Address, IPv4Interface, IPv6Interface, IPv4Network, IPv6Network), str
    ),
}
