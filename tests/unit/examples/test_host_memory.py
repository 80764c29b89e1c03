from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.examples.host_world import NOW_S, World, cut, judge, points, ramp, truth

if TYPE_CHECKING:
    from triage.model.query import Series

GIB = 2.0**30


def memory(available: float, total: float = 16.0) -> list[Series]:
    return [
        ramp("node_memory_MemAvailable_bytes", start=available * GIB),
        ramp("node_memory_MemTotal_bytes", start=total * GIB),
    ]


@pytest.mark.parametrize(
    ("available", "expected"), [(1.0, "true"), (2.0, "false"), (1.9999, "true"), (12.0, "false")]
)
def test_memory_low(available: float, expected: str) -> None:
    world = World(series=memory(available), params={"memory_available_pct": 12.5})
    assert truth("obs_memory_low", world) == expected


def test_memory_low_is_of_the_whole_window() -> None:
    dip = points("node_memory_MemAvailable_bytes", [8 * GIB] * 19 + [0.1 * GIB])
    assert truth("obs_memory_low", World(series=[dip, memory(1)[1]])) == "false"


@pytest.mark.parametrize(
    "series",
    [
        [],
        memory(1)[:1],
        memory(1)[1:],
        [cut(one, after=NOW_S - 60) for one in memory(1)],
        [cut(one, until=NOW_S - 400) for one in memory(1)],
    ],
    ids=["none", "no total", "no available", "too short", "too old"],
)
def test_memory_low_without_figures(series: list[Series]) -> None:
    assert truth("obs_memory_low", World(series=series)) == "no_data"


def growing(pct_per_hour: float, total: float = 16.0) -> list[Series]:
    per_s = pct_per_hour / 100 * total * GIB / 3600
    return [
        ramp("node_memory_AnonPages_bytes", per_s, start=4 * GIB),
        ramp("node_memory_MemTotal_bytes", start=total * GIB),
    ]


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(5.0, "true"), (2.001, "true"), (1.999, "false"), (0.0, "false"), (-9, "false")],
)
def test_memory_leak(rate: float, expected: str) -> None:
    assert truth("rc_memory_leak", World(series=growing(rate))) == expected


def test_memory_that_goes_up_and_down_is_no_leak() -> None:
    saw = [(4 + (i % 20) / 5 + i / 200) * GIB for i in range(241)]
    series = [points("node_memory_AnonPages_bytes", saw), growing(0)[1]]
    verdict = judge("rc_memory_leak", World(series=series))
    assert [clause.holds for clause in verdict.clauses] == [True, False]
    assert verdict.value.value == "false"


def test_cached_files_are_no_leak() -> None:
    cache = ramp("node_memory_Cached_bytes", 4e6, start=1e9)
    assert truth("rc_memory_leak", World(series=[*growing(0.1), cache])) == "false"


def test_memory_leak_names_the_service_that_grows() -> None:
    services = [
        ramp("process_resident_memory_bytes", rate, start=1e8, job=job)
        for job, rate in (("api", 1e5), ("web", 10.0), ("node", 1e9))
    ]
    assert judge("rc_memory_leak", World(series=[*growing(5), *services])).subject == "api"


def test_memory_leak_without_services_names_none() -> None:
    assert judge("rc_memory_leak", World(series=growing(5))).subject == ""


@pytest.mark.parametrize(
    "series",
    [[], growing(5)[:1], growing(5)[1:], [cut(one, after=NOW_S - 1700) for one in growing(5)]],
    ids=["none", "no total", "no pages", "too short"],
)
def test_memory_leak_without_figures(series: list[Series]) -> None:
    assert truth("rc_memory_leak", World(series=series)) == "no_data"


def swap(pages_in: float, pages_out: float) -> list[Series]:
    return [ramp("node_vmstat_pswpin", pages_in), ramp("node_vmstat_pswpout", pages_out)]


@pytest.mark.parametrize(
    ("pages_in", "pages_out", "expected"),
    [
        (500, 500, "true"),
        (101, 101, "true"),
        (100, 500, "false"),
        (500, 100, "false"),
        (0, 5000, "false"),
    ],
)
def test_swap_thrash(pages_in: float, pages_out: float, expected: str) -> None:
    assert truth("rc_swap_thrash", World(series=swap(pages_in, pages_out))) == expected


def test_swap_thrash_across_a_reset() -> None:
    counts = [90000.0, 93000.0, 96000.0, 1500.0, 4500.0]
    series = [points(f"node_vmstat_pswp{way}", counts) for way in ("in", "out")]
    verdict = judge("rc_swap_thrash", World(series=series, params={"window_s": 75}))
    assert verdict.clauses[0].observed == pytest.approx((3000 + 3000 + 1500 + 3000) / 60)


@pytest.mark.parametrize(
    "series",
    [[], swap(9, 9)[:1], [cut(one, after=NOW_S - 60) for one in swap(9, 9)]],
    ids=["none", "one way", "too short"],
)
def test_swap_thrash_without_figures(series: list[Series]) -> None:
    assert truth("rc_swap_thrash", World(series=series)) == "no_data"


def service(up: list[float], started_ago: float, job: str = "api") -> list[Series]:
    start = ramp("process_start_time_seconds", start=NOW_S - started_ago, job=job)
    return [points("up", up, job=job), cut(start, until=NOW_S - 60)]


@pytest.mark.parametrize(
    ("up", "started_ago", "expected"),
    [
        ([1.0] * 200 + [0.0], 7200, "true"),
        ([1.0] * 200, 1801, "true"),
        ([1.0] * 200, 1800, "false"),  # not longer ago than the quiet time
        ([1.0] * 200, 60, "false"),
        ([1.0] * 99 + [0.0], 7200, "false"),  # the budget is spent at 1 %
        ([1.0] * 100 + [0.0], 7200, "true"),
    ],
)
def test_restart_safe(up: list[float], started_ago: float, expected: str) -> None:
    world = World(series=service(up, started_ago), labels={"job": "api"})
    verdict = judge("cn_restart_safe", world)
    assert (verdict.value.value, verdict.subject) == (expected, "api")


def test_restart_safe_counts_the_newest_start() -> None:
    again = points("process_start_time_seconds", [NOW_S - 9000, NOW_S - 90, NOW_S - 90], job="api")
    world = World(series=[points("up", [1.0] * 200, job="api"), again], labels={"job": "api"})
    assert truth("cn_restart_safe", world) == "false"


def test_restart_safe_is_about_the_exporter_when_the_alert_names_no_job() -> None:
    world = World(series=[*service([1.0] * 9, 7), *service([1.0] * 9, 7200, "node")])
    verdict = judge("cn_restart_safe", world)
    assert (verdict.value.value, verdict.subject) == ("true", "node")


@pytest.mark.parametrize(
    "world",
    [
        World(series=[], labels={"job": "api"}),
        World(series=service([1.0] * 9, 7200)[:1], labels={"job": "api"}),
        World(series=service([1.0] * 9, 7200, "web"), labels={"job": "api"}),
    ],
    ids=["nothing", "no start time", "another service"],
)
def test_restart_safe_without_figures(world: World) -> None:
    assert truth("cn_restart_safe", world) == "no_data"
