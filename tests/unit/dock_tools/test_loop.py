"""The loop and what stands around it: speed, laps, tunnels, gaps, air and drives."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

import pytest

from tests.unit.dock_tools.dock_series import each, grown, points, world_of
from tests.unit.dock_tools.dock_world import NOW, WEEKS, Case, World, check, of, params_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from triage.model.query import Series

FOOT_PER_MIN = 60 / 0.3048  # of one m/s


def speeds(*ratios: float, scale: float = 1.0, setpoint: float = 2.0) -> list[Series]:
    return [
        points("sorter_speed", "LS-1", [one * setpoint * scale for one in ratios]),
        points("sorter_setpoint", "LS-1", [setpoint * scale] * len(ratios)),
    ]


def loop(*some: Series | Sequence[Series], entity: str = "LS-1", site: str = "FC1") -> World:
    return world_of(*some, entity=entity, site=site)


SLOW = of(
    "obs_sorter_slow",
    ("at the limit", loop(speeds(*[0.9] * 12)), "false", "LS-1"),
    ("under it", loop(speeds(*[0.899] * 12)), "true", "LS-1"),
    ("the middle decides", loop(speeds(*[0.1] * 5, *[1.0] * 7)), "false", "LS-1"),
    ("in feet", loop(speeds(*[0.89] * 12, scale=FOOT_PER_MIN), site="FC4"), "true", "LS-1"),
    ("just enough pairs", loop(speeds(*[0.5] * 8)), "true", "LS-1"),
    ("too few", loop(speeds(*[0.5] * 7)), "no_data", "LS-1"),
    (
        "pairs need both",
        loop(
            points("sorter_speed", "LS-1", [1.0] * 12),
            points("sorter_setpoint", "LS-1", [2.0] * 7),
        ),
        "no_data",
        "LS-1",
    ),
    (
        "sentinels",
        loop(
            points("sorter_speed", "LS-1", [*[1.0] * 7, -1, 9999, nan]),
            points("sorter_setpoint", "LS-1", [2.0] * 10),
        ),
        "no_data",
        "LS-1",
    ),
    ("meant to stand", loop(speeds(*[0.5] * 12, setpoint=0.0)), "no_data", "LS-1"),
    ("the window's open end", loop(speeds(*[0.85] * 31, *[1.0] * 30)), "false", "LS-1"),
    ("another alert's entity", loop(speeds(*[0.5] * 12), entity="CH-007"), "true", "LS-1"),
    ("nothing", loop(), "no_data", "LS-1"),
)


def laps(
    now: float | Sequence[float], *weeks: float, inducted: float = 500, site: str = "FC1"
) -> World:
    """Percent repeated, now and so many weeks ago."""
    values = [now] * 15 if isinstance(now, int | float) else now
    return loop(
        points("recirc_pct", "LS-1", values),
        *(
            points("recirc_pct", "LS-1", [week] * 15, end=end)
            for week, end in zip(weeks, WEEKS, strict=False)
        ),
        grown("inducted_total", "LS-1", inducted),
        site=site,
    )


RECIRCULATION = of(
    "obs_recirc_elevated",
    ("at the limit", laps(6), "true", "LS-1"),
    ("under it", laps(5.99), "false", "LS-1"),
    ("half as much again as usual", laps(9, 6, 6, 6), "true", "LS-1"),
    ("less than that", laps(8.99, 6, 6, 6), "false", "LS-1"),
    ("two weeks are no baseline", laps(8.99, 6, 6), "true", "LS-1"),
    ("the middle of the weeks", laps(9, 5, 6, 6, 90), "true", "LS-1"),
    ("as a fraction", laps(0.07, site="FC2"), "true", "LS-1"),
    ("a fraction of a percent", laps(0.05, site="FC2"), "false", "LS-1"),
    ("just enough samples", laps([7] * 9), "true", "LS-1"),
    ("too few", laps([7] * 8), "no_data", "LS-1"),
    ("null while it stood", laps([7] * 8 + [nan] * 7), "no_data", "LS-1"),
    ("sentinels", laps([7] * 13 + [-1, 9999]), "true", "LS-1"),
    ("the window's open end", laps([900] + [5] * 15), "false", "LS-1"),
    ("little inducted", laps(7, inducted=499), "no_data", "LS-1"),
    (
        "a restart",
        loop(
            points("recirc_pct", "LS-1", [7] * 15),
            points("inducted_total", "LS-1", [90_000, 90_100, 400]),
        ),
        "true",
        "LS-1",
    ),
    (
        "one sample of the counter",
        loop(points("recirc_pct", "LS-1", [7] * 15), points("inducted_total", "LS-1", [900])),
        "no_data",
        "LS-1",
    ),
)


def tunnel(name: str, scans: float, no_reads: float, end: datetime = NOW) -> list[Series]:
    return each("tunnel_scans,no_reads", name, scans, no_reads, end=end)


def usual(percent: float, weeks: int = 4) -> list[Series]:
    return [one for end in WEEKS[:weeks] for one in tunnel("ST-1", 1000, 10 * percent, end)]


NO_READS = of(
    "obs_no_read_elevated",
    ("three weeks are one", loop(tunnel("ST-1", 1000, 20), usual(0.5, 3)), "true", "LS-1"),
    ("at the limit", loop(tunnel("ST-1", 1000, 25)), "true", "LS-1"),
    ("under it", loop(tunnel("ST-1", 1000, 24)), "false", "LS-1"),
    ("both tunnels", loop(tunnel("ST-1", 500, 10), tunnel("ST-2", 500, 15)), "true", "LS-1"),
    (
        "its own tunnel",
        loop(tunnel("ST-1", 500, 5), tunnel("ST-2", 500, 50), entity="tunnel 1"),
        "false",
        "ST-1",
    ),
    ("just enough scans", loop(tunnel("ST-1", 300, 9)), "true", "LS-1"),
    ("too few", loop(tunnel("ST-1", 299, 9)), "no_data", "LS-1"),
    ("above a usual day", loop(tunnel("ST-1", 1000, 20), usual(0.5)), "true", "LS-1"),
    ("hardly above it", loop(tunnel("ST-1", 1000, 20), usual(0.6)), "false", "LS-1"),
    ("two weeks are no baseline", loop(tunnel("ST-1", 1000, 20), usual(0.5, 2)), "false", "LS-1"),
    (
        "a restart",
        loop(
            points("tunnel_scans_total", "ST-1", [90_000, 90_500, 500]),
            grown("tunnel_no_reads_total", "ST-1", 25),
        ),
        "true",
        "LS-1",
    ),
    (
        "the window's open end",
        loop(
            points("tunnel_scans_total", "ST-1", range(0, 610, 10)),
            points("tunnel_no_reads_total", "ST-1", [0] + [100] * 60),
        ),
        "false",
        "LS-1",
    ),
    (
        "one counter is missing",
        loop(tunnel("ST-1", 1000, 10), grown("tunnel_no_reads_total", "ST-2", 900)),
        "false",
        "LS-1",
    ),
    ("nothing", loop(entity="ST-1"), "no_data", "ST-1"),
)

LENS = of(
    "rc_scan_lens_dirty",
    ("at both limits", loop(tunnel("ST-1", 1000, 25), tunnel("ST-2", 800, 10)), "true", "ST-1"),
    (
        "under the percentage",
        loop(tunnel("ST-1", 1000, 24), tunnel("ST-2", 1000, 1)),
        "false",
        "ST-1",
    ),
    (
        "under twice its twin",
        loop(tunnel("ST-1", 1000, 20), tunnel("ST-2", 1000, 39)),
        "false",
        "ST-2",
    ),
    ("just enough scans", loop(tunnel("ST-1", 500, 5), tunnel("ST-2", 500, 50)), "true", "ST-2"),
    ("too few", loop(tunnel("ST-1", 499, 5), tunnel("ST-2", 900, 90)), "no_data", "LS-1"),
    ("one tunnel", loop(tunnel("st2", 900, 90), entity="st2"), "no_data", "ST-2"),
    ("both alike", loop(tunnel("ST-2", 1000, 10), tunnel("ST-1", 1000, 10)), "false", "ST-1"),
    ("none unread there", loop(tunnel("ST-1", 1000, 0), tunnel("ST-2", 1000, 25)), "true", "ST-2"),
)


def gaps(*mm: float, doubles: Sequence[float] = ()) -> World:
    return loop(
        points("merge_gap", "SG-1", mm), points("double_pct", "SG-1", doubles), entity="INF-2"
    )


GAPS = of(
    "rc_gap_loss",
    ("at the limit", gaps(*[150] * 200), "false", "SG-1"),
    ("under it", gaps(*[149] * 200), "true", "SG-1"),
    ("one in ten", gaps(*[100] * 21, *[400] * 180), "true", "SG-1"),
    ("one in eleven", gaps(*[100] * 20, *[400] * 200), "false", "SG-1"),
    ("an empty belt", gaps(*[100] * 199, -1, -1), "no_data", "SG-1"),
    ("the window's open end", gaps(*[100] * 31, *[400] * 270), "false", "SG-1"),
    ("the older ones are out", gaps(*[100] * 300, *[400] * 300), "false", "SG-1"),
    ("doubles at the limit", gaps(doubles=[3] * 15), "true", "SG-1"),
    ("doubles under it", gaps(doubles=[2.9] * 15), "false", "SG-1"),
    ("doubles, just enough", gaps(doubles=[3] * 9), "true", "SG-1"),
    ("doubles, too few", gaps(doubles=[3] * 8 + [nan] * 7), "no_data", "SG-1"),
    ("gaps are fine, doubles are not", gaps(*[400] * 200, doubles=[4] * 15), "true", "SG-1"),
    ("gaps unknown, doubles fine", gaps(*[9] * 9, doubles=[1] * 15), "false", "SG-1"),
    ("nothing", gaps(), "no_data", "SG-1"),
)


def slipped(
    encoder: Sequence[float], drive: Sequence[float], *more: Series, **params: float
) -> World:
    return world_of(
        points("encoder_speed", "LS-1", encoder),
        points("sorter_speed", "LS-1", drive),
        more,
        entity="LS-1",
        params=params,
    )


def lost(parcels: float, of_inducted: float) -> list[Series]:
    return [
        grown("tracking_lost_total", "LS-1", parcels),
        grown("inducted_total", "LS-1", of_inducted),
    ]


SLIP = of(
    "rc_tracking_slip",
    (
        "in feet, moving",
        World(
            site="FC4",
            series=[
                points("encoder_speed", "LS-1", [15.0] * 120),
                points("sorter_speed", "LS-1", [20.0] * 120),
            ],
        ),
        "true",
        "LS-1",
    ),
    (
        "the encoder's sentinels",
        slipped([9999] * 30 + [-1] * 30 + [2.0] * 60, [2.0] * 120),
        "no_data",
        "LS-1",
    ),
    ("at the limit", slipped([2.125] * 72, [2.0] * 72, slip_pct=6.25), "true", "LS-1"),
    ("hardly under it", slipped([2.125] * 72, [2.0] * 72, slip_pct=6.26), "false", "LS-1"),
    ("under it", slipped([2.09] * 120, [2.0] * 120), "false", "LS-1"),
    ("it lags", slipped([1.8] * 120, [2.0] * 120), "true", "LS-1"),
    ("both ways count", slipped([1.8, 2.2] * 60, [2.0] * 120), "true", "LS-1"),
    ("too few pairs", slipped([2.5] * 71, [2.0] * 71), "no_data", "LS-1"),
    ("standing", slipped([2.5] * 120, [0.1] * 120), "no_data", "LS-1"),
    ("creeping", slipped([0.2] * 120, [0.11] * 120), "true", "LS-1"),
    ("sentinels", slipped([2.5] * 120, [-1] * 49 + [2.0] * 71), "no_data", "LS-1"),
    (
        "in feet",
        World(
            site="FC4",
            series=[
                points("encoder_speed", "LS-1", [15.0] * 120),
                points("sorter_speed", "LS-1", [19.0] * 120),
            ],
        ),
        "no_data",
        "LS-1",
    ),
    ("lost at the limit", loop(lost(5, 1000)), "true", "LS-1"),
    ("lost under it", loop(lost(4, 1000)), "false", "LS-1"),
    ("few inducted", loop(lost(50, 499)), "no_data", "LS-1"),
    ("just enough", loop(lost(5, 500)), "true", "LS-1"),
    (
        "a wrap is no loss",
        loop(
            points("tracking_lost_total", "LS-1", [65_530, 0]),
            grown("inducted_total", "LS-1", 2000),
        ),
        "false",
        "LS-1",
    ),
    ("speeds unknown, lost known", slipped([], [], *lost(9, 1000)), "true", "LS-1"),
    (
        "speeds fine, lost unknown",
        slipped([2.0] * 120, [2.0] * 120, *lost(9, 100)),
        "false",
        "LS-1",
    ),
    ("nothing", loop(), "no_data", "LS-1"),
)

BAR = 1 / 0.0689475729  # psi


def air(*bars: float, site: str = "FC1") -> World:
    return loop(points("air_pressure", "AIR-1", bars), site=site, entity="CH-001")


AIR = of(
    "rc_air_pressure_low",
    ("at the limit", air(*[5.3] * 60), "false", "AIR-1"),
    ("under it", air(*[5.29] * 60), "true", "AIR-1"),
    ("a tenth of the time", air(*[4.0] * 7, *[6.0] * 53), "true", "AIR-1"),
    ("less than that", air(*[4.0] * 5, *[6.0] * 55), "false", "AIR-1"),
    ("just enough", air(*[5.0] * 36), "true", "AIR-1"),
    ("too few", air(*[5.0] * 35, -1, 9999, nan), "no_data", "AIR-1"),
    ("in psi", air(*[5.4 * BAR] * 60, site="FC4"), "true", "AIR-1"),
    ("in psi above that site's limit", air(*[5.6 * BAR] * 60, site="FC4"), "false", "AIR-1"),
    ("nothing", air(), "no_data", "AIR-1"),
)


def driven(
    drive: str,
    load: Sequence[float] = (),
    temp: Sequence[float] = (),
    *,
    entity: str = "",
    site: str = "FC1",
) -> World:
    return loop(
        points("drive_load", drive, load),
        points("drive_temp", drive, temp),
        entity=entity,
        site=site,
    )


OVERLOAD = of(
    "rc_drive_overload",
    ("heat, just enough samples", driven("DRV-0", [], [80] * 30), "true", "DRV-0"),
    (
        "an eye's infeed is its first digit",
        driven("DRV-1", [99] * 60, entity="PE-11"),
        "true",
        "DRV-1",
    ),
    ("sentinels", driven("DRV-0", [99] * 29 + [-1] * 9), "no_data", "DRV-0"),
    ("load at the limit", driven("DRV-0", [95] * 30), "true", "DRV-0"),
    ("load under it", driven("DRV-0", [94.9] * 60), "false", "DRV-0"),
    ("the window's open end", driven("DRV-0", [9000] + [94] * 60), "false", "DRV-0"),
    ("too few samples", driven("DRV-0", [99] * 29), "no_data", "DRV-0"),
    ("off", driven("DRV-0", [99] * 29 + [9999] * 31), "no_data", "DRV-0"),
    ("heat at the limit", driven("DRV-0", [], [80] * 60), "true", "DRV-0"),
    ("heat under it", driven("DRV-0", [], [79.9] * 60), "false", "DRV-0"),
    ("hot for a while", driven("DRV-0", [], [50] * 55 + [90] * 5), "true", "DRV-0"),
    ("hot for a moment", driven("DRV-0", [], [50] * 58 + [90] * 2), "false", "DRV-0"),
    ("in fahrenheit", driven("DRV-0", [], [176.1] * 60, site="FC4"), "true", "DRV-0"),
    ("warm in fahrenheit", driven("DRV-0", [], [175.9] * 60, site="FC4"), "false", "DRV-0"),
    ("load fine, hot", driven("DRV-0", [50] * 60, [90] * 60), "true", "DRV-0"),
    ("an infeed's", driven("DRV-2", [99] * 60, entity="Infeed 2"), "true", "DRV-2"),
    ("an eye's", driven("drv3", [99] * 60, entity="PE-34"), "true", "DRV-3"),
    ("a robot's", driven("DRV-12", [99] * 60, entity="rc2"), "true", "DRV-12"),
    ("its own", driven("DRV-4", [99] * 60, entity="Drive 04"), "true", "DRV-4"),
    ("a chute's is the loop's", driven("DRV-0", [99] * 60, entity="CH-001"), "true", "DRV-0"),
    ("another's", driven("DRV-1", [99] * 60, entity="INF-2"), "no_data", "DRV-2"),
)

CASES = [*SLOW, *RECIRCULATION, *NO_READS, *LENS, *GAPS, *SLIP, *AIR, *OVERLOAD]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
