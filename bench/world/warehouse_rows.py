"""The warehouse's rows as a database holds them: local times, nulls, rows written twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import Times
from bench.world.catalogue import TABLES, TableSpec
from bench.world.chance import stream, uniforms
from bench.world.floor import Columns
from bench.world.layout import SITES
from bench.world.local_time import DAY_S, NULL, local_text, utc_text

Range = tuple[int, int]
Row = tuple[Any, ...]

TWICE = 0.01  # of the rows are written twice
CHUNK = 50_000  # rows that are spelled at once

HISTORY_S: Mapping[str, int] = {
    "ticket": 4 * DAY_S,
    "roster": DAY_S,
    "break_plan": DAY_S,
    "departure": DAY_S,
    "loading": 7200,
    "item_mix": 28 * DAY_S + 7200,
}
"""How long before a range rows still matter in it; two hours for the other tables. Only the mix
is compared with that of four weeks before."""
AHEAD_S: Mapping[str, int] = {"departure": DAY_S, "forecast": 7200, "labor_slot": 7200}
"""How long after a range."""
WHOLE = frozenset(("spare_stock", "yard_trailer"))
"""Whatever the range: the latest row may be an old one."""
MARGIN_S = 7200

NULLABLE = frozenset(("actual", "reserved"))
"""Integers of which -1 is null."""


def served_rows(
    columns: Mapping[str, NDArray[Any]], table: str, site: int, within: Range | None
) -> Iterator[list[Row]]:
    """Chunks of rows in the order of the table's columns: by `at`, and behind them those that
    were written once more. `within` is (start, end) in seconds since the epoch."""
    spec = TABLES[table]
    at = columns[canonical_name(spec.at)]
    chosen = np.arange(len(at), dtype=np.int64)
    if within is not None and table not in WHOLE:
        first = within[0] - HISTORY_S.get(table, MARGIN_S)
        last = within[1] + AHEAD_S.get(table, 0)
        chosen = chosen[(at >= first) & (at <= last)]
    # By the row's place in its whole table, so that a range has the same duplicates.
    again = chosen[uniforms(stream(site, "written twice", table), chosen) < TWICE]
    chosen = np.concatenate((chosen, again))
    zone = SITES[site].facts.zone
    for begin in range(0, len(chosen), CHUNK):
        part = {name: values[chosen[begin : begin + CHUNK]] for name, values in columns.items()}
        yield list(zip(*_spelled(spec, part, zone), strict=True))


def canonical_name(column: str) -> str:
    """The canonical column that a served one tells."""
    return column.removesuffix("_utc").removesuffix("_local")


def _spelled(spec: TableSpec, columns: Columns, zone: str) -> list[list[Any]]:
    told: dict[str, list[Any]] = {}
    for column, kind in spec.columns.items():
        if column in told:
            continue
        if column.endswith("_local"):
            name = canonical_name(column)
            fold = f"{name}_fold" if f"{name}_fold" in spec.columns else "fold"
            told[column], told[fold] = local_text(columns[name], zone)
        elif column.endswith("_utc"):
            told[column] = utc_text(columns[canonical_name(column)])
        elif kind == "text":
            told[column] = _texts(columns[column])
        else:
            told[column] = _integers(columns[column], nullable=column in NULLABLE)
    return [told[column] for column in spec.columns]


def _texts(values: NDArray[np.str_]) -> list[str | None]:
    known = {text: text or None for text in np.unique(values).tolist()}
    return [known[text] for text in values.tolist()]


def _integers(values: Times, *, nullable: bool) -> list[int | None]:
    found: list[int | None] = values.tolist()
    if nullable and (values == NULL).any():
        return [None if value == NULL else value for value in found]
    return found
