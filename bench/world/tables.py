"""The warehouse as it truly was: every table of the catalogue, canonical columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from bench.world import tables_dock, tables_flow, tables_mix, tables_people, tables_tickets
from bench.world.floor import Columns, Floor
from bench.world.minutes import Minutes

MAKERS: Mapping[str, Callable[[Floor], Columns]] = {
    "feed_heartbeat": tables_flow.feed_heartbeat,
    "flow_minute": tables_flow.flow_minute,
    "no_read": tables_flow.no_read,
    "label_count": tables_flow.label_count,
    "item_mix": tables_mix.item_mix,
    "forecast": tables_flow.forecast,
    "break_plan": tables_flow.break_plan,
    "staging_lane": tables_dock.staging_lane,
    "container_zone": tables_dock.container_zone,
    "departure": tables_dock.departure,
    "loading": tables_dock.loading,
    "yard_trailer": tables_dock.yard_trailer,
    "roster": tables_people.roster,
    "labor_slot": tables_people.labor_slot,
    "ticket": tables_tickets.ticket,
    "spare_stock": tables_people.spare_stock,
}


class CanonicalTables:
    """Made when they are first asked for, and kept: some 60 MB a site of 90 days."""

    def __init__(self, minutes: Minutes, seed: int) -> None:
        self._minutes = minutes
        self._seed = seed
        self._kept: dict[tuple[int, str], Columns] = {}

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]:
        """Columns as `TABLES` says of canonical ones. Raises KeyError for what is no table."""
        found = self._kept.get((site, name))
        if found is None:
            found = MAKERS[name](Floor(self._minutes, self._seed, site))
            for values in found.values():
                values.flags.writeable = False
            self._kept[site, name] = found
        return found

    def forget(self, site: int) -> None:
        """Gives back the memory of a site's tables; they are made again when asked for."""
        for key in [key for key in self._kept if key[0] == site]:
            del self._kept[key]
