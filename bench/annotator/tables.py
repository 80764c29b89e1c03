"""Rows of one site's canonical tables, found by time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.annotator.ids import Layout
from bench.world.canonical import Canonical
from bench.world.catalogue import TABLES

Rows = Mapping[str, NDArray[Any]]

NULL = -1  # of a time or a count

LIVE = ("open", "assigned", "inprogress")  # a ticket's status, without case and separators
_SEPARATORS = str.maketrans("", "", " _-")


class SiteTables:
    """Each table is asked of the world once. Of bounded size: there are as many as in TABLES."""

    def __init__(self, canonical: Canonical, site: int, layout: Layout) -> None:
        self._canonical = canonical
        self._site = site
        self._layout = layout
        self._tables: dict[str, Rows] = {}
        self._loading: dict[str, NDArray[np.int64]] | None = None
        self._live: NDArray[np.bool_] | None = None
        self._ticket_assets: dict[int, frozenset[str]] = {}

    def whole(self, name: str) -> Rows:
        if name not in self._tables:
            self._tables[name] = self._canonical.table(self._site, name)
        return self._tables[name]

    def between(self, name: str, start: int, end: int) -> Rows:
        """Rows found at (start, end]."""
        table = self.whole(name)
        at = table[at_column(name)]
        first, last = np.searchsorted(at, (start, end), side="right")
        return {column: values[first:last] for column, values in table.items()}

    def at(self, name: str, instant: int) -> Rows:
        return self.between(name, instant - 1, instant)

    def loading_of(self, departure: str, until: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """When, and how much was loaded by then, ascending, up to `until`."""
        table = self.whole("loading")
        if self._loading is None:
            ids = table["departure_id"]
            order = np.argsort(ids, kind="stable")
            names, starts = np.unique(ids[order], return_index=True)
            self._loading = {
                str(name): rows
                for name, rows in zip(names, np.split(order, starts[1:]), strict=True)
            }
        rows = self._loading.get(departure, np.empty(0, np.int64))
        at = table["at"][rows]
        upto = int(np.searchsorted(at, until, side="right"))
        return at[:upto], table["loaded"][rows[:upto]]

    def live_tickets(self, t2: int) -> NDArray[np.int64]:
        """Indices of the tickets that were open at t2."""
        ticket = self.whole("ticket")
        if self._live is None:
            self._live = np.array(
                [status.lower().translate(_SEPARATORS) in LIVE for status in ticket["status"]],
                dtype=np.bool_,
            )
        closed = ticket["closed"]
        live = ((closed == NULL) & self._live) | (closed > t2)
        return np.flatnonzero((ticket["opened"] <= t2) & live)

    def assets_of_ticket(self, index: int) -> frozenset[str]:
        """Every id in the ticket's text, normalised."""
        if index not in self._ticket_assets:
            text = str(self.whole("ticket")["asset_text"][index])
            self._ticket_assets[index] = frozenset(self._layout.ids(text))
        return self._ticket_assets[index]


def at_column(table: str) -> str:
    """The canonical name of the column that a table's rows ascend by."""
    return TABLES[table].at.removesuffix("_utc").removesuffix("_local")
