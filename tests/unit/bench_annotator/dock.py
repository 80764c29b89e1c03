"""A dock of one site whose samples, rows and answers are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.annotator.judge import Judge
from bench.annotator.judged import Judged
from bench.annotator.settings import Settings, load_settings
from bench.world.canonical import Changes, Equipment, SiteFacts, Times, Window
from bench.world.catalogue import SERIES, TABLES, Kind
from bench.world.layout import ASSETS, EPOCH, SITES

DAY_S = 86_400
T = EPOCH + 40 * DAY_S + 15 * 3600  # a Sunday, 11:00 in New York
LAG_S = 120
T2 = T - LAG_S

Value = float | Callable[[Times], NDArray[np.float64]]


@cache
def settings() -> Settings:
    return load_settings()


class Dock:
    """Series hold nothing until they are filled; tables are empty but for the heartbeat; every
    controller is well and was heard just now."""

    def __init__(self) -> None:
        self.sites: tuple[SiteFacts, ...] = (SITES[0].facts,)
        self.start = EPOCH
        self.end = EPOCH + 90 * DAY_S
        self._filled: dict[tuple[str, str], list[tuple[int, int, Value | None]]] = {}
        self._states: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self.answers: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.beat()

    # --- writing ------------------------------------------------------------------------------

    def fill(
        self, series: str, asset: str, value: Value | None, *, last_s: int, end: int = T
    ) -> None:
        """`value` at every instant of the grid in (end-last_s, end]; None: nothing valid."""
        self._filled.setdefault((series, asset), []).append((end - last_s, end, value))

    def count(self, series: str, asset: str, total: int, *, last_s: int, end: int = T) -> None:
        """Counts `total` between the first and the last sample of (end-last_s, end]: all of it
        at the last; the first sample has counted much that lies before the window."""

        def values(times: Times) -> NDArray[np.float64]:
            counted = np.zeros(len(times))
            counted[0], counted[-1] = 999, total
            return counted

        self.fill(series, asset, values, last_s=last_s, end=end)

    def state(self, series: str, asset: str, *changes: tuple[int, int]) -> None:
        """Changes as (seconds before T, state)."""
        self._states[series, asset] = [(T - before, value) for before, value in changes]

    def row(self, table: str, **columns: Any) -> None:
        self._rows.setdefault(table, []).append(columns)

    def beat(self, before_s: int = 0) -> None:
        """The only sign of life of the warehouse, so long before t2."""
        self._rows["feed_heartbeat"] = [{"at": T2 - before_s}]

    def answer(self, call: str, asset: str, as_of: int = T, **content: Any) -> None:
        self.answers[call, asset] = {"as_of": as_of, **content}

    # --- Canonical ----------------------------------------------------------------------------

    def window(self, site: int, series: str, asset: str, start: int, end: int) -> Window:
        spec = SERIES[series]
        assert spec.kind is not Kind.STATE
        if asset not in ASSETS[spec.assets]:
            raise KeyError(asset)
        grain_s = spec.grain_s
        times = np.arange(start // grain_s + 1, end // grain_s + 1, dtype=np.int64) * grain_s
        values, there = np.zeros(len(times)), np.zeros(len(times), np.bool_)
        for from_, to, value in self._filled.get((series, asset), []):
            # Values are laid over the whole stretch, so that they do not depend on the window.
            whole = np.arange(from_ // grain_s + 1, to // grain_s + 1, dtype=np.int64) * grain_s
            inside = (times > from_) & (times <= to)
            there[inside] = value is not None
            if value is not None:
                laid = value(whole) if callable(value) else np.full(len(whole), float(value))
                values[inside] = laid[np.isin(whole, times)]
        return Window(times, values, there)

    def changes(self, site: int, series: str, asset: str, start: int, end: int) -> Changes:
        if asset not in ASSETS[SERIES[series].assets]:
            raise KeyError(asset)
        inside = [
            (at, value) for at, value in self._states.get((series, asset), []) if start < at <= end
        ]
        return Changes(
            np.array([at for at, _ in inside], np.int64),
            np.array([value for _, value in inside], np.int8),
        )

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]:
        spec = TABLES[name]
        at = spec.at.removesuffix("_utc").removesuffix("_local")
        rows = sorted(self._rows.get(name, []), key=lambda row: int(row[at]))
        columns: dict[str, NDArray[Any]] = {}
        for column, kind in spec.columns.items():
            plain = column.removesuffix("_utc").removesuffix("_local")
            if column.endswith("fold"):
                continue
            number = kind == "integer" or plain != column
            held = [row.get(plain, -1 if number else "") for row in rows]
            columns[plain] = np.array(held, np.int64 if number else np.str_)
        return columns

    def equipment(self, site: int) -> Equipment:
        return Controllers(self.answers)


class Controllers:
    def __init__(self, answers: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        self._answers = answers

    def safety_inputs(self, asset: str, at: int) -> Mapping[str, Any]:
        return self._answers.get(("safety_inputs", asset), {"as_of": at, "inputs": []})

    def fault_code(self, asset: str, at: int) -> Mapping[str, Any]:
        well = {"as_of": at, "code": 0, "latched_at": None}
        return self._answers.get(("fault_code", asset), well)

    def resets(self, asset: str, at: int) -> Mapping[str, Any]:
        well = {"as_of": at, "code": 7, "protective": False, "resets": []}
        return self._answers.get(("resets", asset), well)

    def carriers(self, asset: str, at: int) -> Mapping[str, Any]:
        well = {"as_of": at, "total": 480, "disabled": 2}
        return self._answers.get(("carriers", asset), well)

    def doors(self, asset: str, at: int) -> Mapping[str, Any]:
        return self._answers.get(("doors", asset), {"as_of": at, "doors": []})

    def eye_margin(self, asset: str, at: int) -> Mapping[str, Any]:
        return self._answers.get(("eye_margin", asset), {"as_of": at, "eyes": []})

    def routes(self, at: int) -> Mapping[str, Any]:
        return self._answers.get(("routes", "LS-1"), {"as_of": at, "routes": []})


def ask(dock: Dock, node: str, entity: str) -> Judged:
    return Judge(dock, settings()).judge(0, T, entity, node)


def verdict(dock: Dock, node: str, entity: str) -> tuple[str, str]:
    """Value and subject."""
    judged = ask(dock, node, entity)
    return judged.value, judged.subject


def cycled(*values: float) -> Callable[[Times], NDArray[np.float64]]:
    """The values in turn."""

    def laid(times: Times) -> NDArray[np.float64]:
        return np.resize(np.array(values, np.float64), len(times))

    return laid
