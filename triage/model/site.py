"""Facts about a place that the procedure runs at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ParamValue = float | int | bool | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`zone` is an IANA time zone name; `units` maps a metric to the unit this site reports it
    in; `facts` is whatever else the sites file states."""

    name: str
    zone: str
    units: Mapping[str, str]
    facts: Mapping[str, Any]
