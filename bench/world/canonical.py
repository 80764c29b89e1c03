"""What truly was at the dock, as arrays: before units, spellings, sentinels, resets and duplicates.

The annotator reads this and nothing else. Site is an index into `sites`, an asset its normalised
id. Times are int64 seconds since the epoch, UTC; windows are (start, end].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Values = NDArray[np.float64]


class Window(NamedTuple):
    """The samples on the grid of (start, end], missing ones too: `valid` says which there are.

    A counter's value is what was counted since the sample before on the grid, whether that one is
    valid or not: between two valid samples the increase is the sum of all values behind the first
    up to and with the second.
    """

    times: Times
    values: Values
    valid: NDArray[np.bool_]


class Changes(NamedTuple):
    """Changes of a state in (start, end], in order; `values` are 0 or 1."""

    times: Times
    values: NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """`layout` counts: infeeds, eyes_per_infeed, cells, stations, tunnels, chutes, lanes, doors,
    zones, chutes_per_lane, lanes_per_zone, doors_per_lane, printers. `outbound_areas`,
    `donor_areas` as in labor_slot; `spare_parts` maps an id's prefix to a part."""

    name: str
    zone: str
    layout: Mapping[str, int]
    outbound_areas: tuple[str, ...]
    donor_areas: tuple[str, ...]
    spare_parts: Mapping[str, str]


class Equipment(Protocol):
    """The controllers of one site, at an instant, as `EQUIPMENT_CALLS` describes them, but with
    times as int seconds, codes as int, and -1 where a link was lost. `as_of` <= at."""

    def safety_inputs(self, asset: str, at: int) -> Mapping[str, Any]: ...
    def fault_code(self, asset: str, at: int) -> Mapping[str, Any]: ...
    def resets(self, asset: str, at: int) -> Mapping[str, Any]: ...
    def carriers(self, asset: str, at: int) -> Mapping[str, Any]: ...
    def doors(self, asset: str, at: int) -> Mapping[str, Any]: ...
    def eye_margin(self, asset: str, at: int) -> Mapping[str, Any]: ...
    def routes(self, at: int) -> Mapping[str, Any]: ...


class Canonical(Protocol):
    """Everything that a rule may look at."""

    @property
    def sites(self) -> tuple[SiteFacts, ...]: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def window(self, site: int, series: str, asset: str, start: int, end: int) -> Window:
        """`series` is a key of `SERIES` of kind gauge or counter. Raises KeyError for an asset
        that has no such series."""

    def changes(self, site: int, series: str, asset: str, start: int, end: int) -> Changes:
        """`series` is a key of `SERIES` of kind state."""

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]:
        """The whole table of one site, columns as `TABLES` says of canonical ones."""

    def equipment(self, site: int) -> Equipment: ...
