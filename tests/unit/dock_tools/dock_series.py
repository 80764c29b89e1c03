"""Series as the dock's metrics source has them; times are before NOW unless `end` says else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.dock_tools.dock_world import NOW, World
from triage.model.query import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from triage.model.site import ParamValue

GRAIN_S = {
    "motor_on": 10,
    "parcels_total": 10,
    "merge_gap": 3,
    "cell_picks_total": 15,
    "cell_fails_total": 15,
    "cell_leak": 20,
    "cell_freeflow": 20,
    "tunnel_scans_total": 15,
    "tunnel_no_reads_total": 15,
    "sorter_speed": 5,
    "sorter_setpoint": 5,
    "encoder_speed": 5,
    "air_pressure": 10,
    "drive_load": 10,
    "drive_temp": 10,
}
"""Seconds between samples, 60 for the others."""


def points(
    metric: str, asset: str, values: Sequence[float], *, end: datetime = NOW, **labels: str
) -> Series:
    """These samples, the last one at `end`."""
    grain, last = GRAIN_S.get(metric, 60), end.timestamp()
    times = tuple(last - grain * place for place in reversed(range(len(values))))
    return Series(
        {"__name__": f"dock_{metric}", "asset": asset, **labels}, times, tuple(map(float, values))
    )


def grown(metric: str, asset: str, by: float, *, end: datetime = NOW, start: float = 100) -> Series:
    """A counter that grew by so much in two samples."""
    return points(metric, asset, (start, start + by), end=end)


def changes(metric: str, asset: str, *told: tuple[float, float]) -> Series:
    """A state: seconds before NOW, and what it became then."""
    now = NOW.timestamp()
    return Series(
        {"__name__": f"dock_{metric}", "asset": asset},
        tuple(now - ago for ago, _ in told),
        tuple(value for _, value in told),
    )


def full(asset: str, seconds: float, *, of: float = 900) -> Series:
    """A chute that was full for the last `seconds`, and known for `of`."""
    return changes("chute_full", asset, (of, 0), (seconds, 1))


def each(metrics: str, asset: str, *by: float, end: datetime = NOW) -> list[Series]:
    """Counters of one asset: `cell_picks,fails` are cell_picks_total and cell_fails_total."""
    kind, _, names = metrics.partition("_")
    return [
        grown(f"{kind}_{name}_total", asset, grew, end=end)
        for name, grew in zip(names.split(","), by, strict=True)
    ]


def picked(cell: str, picks: float, fails: float) -> list[Series]:
    return each("cell_picks,fails", cell, picks, fails)


def world_of(
    *some: Sequence[Series] | Series,
    entity: str = "",
    site: str = "FC1",
    calls: Mapping[str, Mapping[str, Any]] | None = None,
    params: Mapping[str, ParamValue] | None = None,
) -> World:
    series = [one for part in some for one in ([part] if isinstance(part, Series) else part)]
    return World(entity=entity, site=site, series=series, calls=calls or {}, params=params or {})
