from __future__ import annotations

import pytest

from tests.unit.examples.host_world import NOW_S, World, cut, judge, points, ramp, said, truth
from triage.model.query import Series

GIB = 2.0**30
MOUNTED = {"obs_disk_full": said("/data")}


def disk(
    mount: str, used_pct: float, *, per_hour: float = 0.0, readonly: float = 0, size: float = 100.0
) -> list[Series]:
    """A file system of `size` GiB, this full now, filling by `per_hour` GiB an hour."""
    device = f"/dev/{mount.strip('/') or 'root'}"
    free = size * (1 - used_pct / 100) + 2 * per_hour  # two hours ago
    return [
        ramp(metric, per_s, start=start, mountpoint=mount, device=device)
        for metric, per_s, start in (
            ("node_filesystem_avail_bytes", -per_hour * GIB / 3600, free * GIB),
            ("node_filesystem_size_bytes", 0.0, size * GIB),
            ("node_filesystem_readonly", 0.0, readonly),
        )
    ]


@pytest.mark.parametrize(
    ("used", "expected"),
    [(95.0, "true"), (87.5, "false"), (87.6, "true"), (10.0, "false"), (100.0, "true")],
)
def test_disk_full(used: float, expected: str) -> None:
    verdict = judge(
        "obs_disk_full", World(series=disk("/data", used), params={"filesystem_used_pct": 87.5})
    )
    assert (verdict.value.value, verdict.subject) == (expected, "/data")


def test_disk_full_looks_at_the_fullest() -> None:
    series = [*disk("/", 50), *disk("/data", 99), *disk("/srv", 98)]
    assert judge("obs_disk_full", World(series=series)).subject == "/data"


def test_disk_full_looks_at_the_one_the_alert_names() -> None:
    series = [*disk("/", 50), *disk("/data", 99)]
    verdict = judge("obs_disk_full", World(series=series, labels={"mountpoint": "/"}))
    assert (verdict.value.value, verdict.subject) == ("false", "/")


def test_disk_full_keeps_a_hostile_mount_point_data() -> None:
    odd = '/a"} or up{x="'
    assert truth("obs_disk_full", World(series=[], labels={"mountpoint": odd})) == "no_data"


@pytest.mark.parametrize(
    "series",
    [
        [],
        disk("/data", 99)[:1],
        disk("/data", 99)[1:],
        [cut(one, until=NOW_S - 61) for one in disk("/data", 99)],
        disk("/data", 0, size=0),
    ],
    ids=["none", "no size", "no free space", "unmounted since", "no blocks"],
)
def test_disk_full_without_figures(series: list[Series]) -> None:
    assert truth("obs_disk_full", World(series=series)) == "no_data"


@pytest.mark.parametrize(
    ("used", "per_hour", "expected"),
    [
        (90, 1.0, "true"),  # 10 hours left
        (75, 1.0, "false"),  # 25 hours
        (76.01, 1.0, "true"),  # just under 24
        (95, 0.0, "false"),
        (95, -1.0, "false"),
        (100, 0.0, "true"),
    ],
)
def test_disk_filling(used: float, per_hour: float, expected: str) -> None:
    world = World(series=disk("/data", used, per_hour=per_hour), parents=MOUNTED)
    verdict = judge("rc_disk_filling", world)
    assert (verdict.value.value, verdict.subject) == (expected, "/data")


def test_disk_filling_says_the_hours_left() -> None:
    verdict = judge(
        "rc_disk_filling", World(series=disk("/data", 90, per_hour=2.0), parents=MOUNTED)
    )
    assert verdict.clauses[0].observed == pytest.approx(5.0)
    assert verdict.clauses[0].unit == "hours"


def test_disk_filling_fits_across_a_gap() -> None:
    whole = disk("/data", 90, per_hour=2.0)[0]
    early, late = cut(whole, until=NOW_S - 2400), cut(whole, after=NOW_S - 300)
    holed = Series(whole.labels, early.times + late.times, early.values + late.values)
    verdict = judge("rc_disk_filling", World(series=[holed], parents=MOUNTED))
    assert verdict.clauses[0].observed == pytest.approx(5.0)


def test_disk_filling_follows_the_parents_mount_point() -> None:
    series = [*disk("/", 99, per_hour=9.0), *disk("/data", 50)]
    assert truth("rc_disk_filling", World(series=series, parents=MOUNTED)) == "false"


@pytest.mark.parametrize(
    "series",
    [
        [],
        disk("/srv", 99, per_hour=1),
        [cut(one, after=NOW_S - 1700) for one in disk("/data", 99, per_hour=1)],
    ],
    ids=["none", "another", "too short"],
)
def test_disk_filling_without_figures(series: list[Series]) -> None:
    assert truth("rc_disk_filling", World(series=series, parents=MOUNTED)) == "no_data"


@pytest.mark.parametrize(
    ("per_hour", "expected"),
    [(0.1, "true"), (0.41, "true"), (0.42, "false"), (5.0, "false"), (0.0, "true")],
)
def test_cleanup_safe_when_it_lasts(per_hour: float, expected: str) -> None:
    world = World(series=disk("/data", 95, per_hour=per_hour), parents=MOUNTED)
    verdict = judge("cn_cleanup_safe", world)
    assert (verdict.value.value, verdict.subject) == (expected, "/data")


def test_cleanup_safe_at_the_boundary() -> None:
    world = World(
        series=disk("/data", 50, per_hour=0.5),
        parents=MOUNTED,
        params={"cleanup_frees_pct": 10, "cleanup_buys_hours": 20},
    )
    clause = judge("cn_cleanup_safe", world).clauses[-1]
    assert clause.observed == pytest.approx(20)
    assert clause.op == ">="


def test_cleanup_never_on_a_read_only_file_system() -> None:
    world = World(series=disk("/data", 95, readonly=1), parents=MOUNTED)
    assert truth("cn_cleanup_safe", world) == "false"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("/data", "false"),
        ("/boot, /data/", "false"),
        ("/", "false"),
        ("/dat", "true"),
        ("", "true"),
        ("/data/x", "true"),
    ],
)
def test_cleanup_never_under_a_protected_mount_point(listed: str, expected: str) -> None:
    world = World(series=disk("/data", 95), parents=MOUNTED, params={"protected_mounts": listed})
    assert truth("cn_cleanup_safe", world) == expected


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_cleanup_safe_without_figures(missing: int) -> None:
    series = disk("/data", 95)
    del series[missing]
    assert truth("cn_cleanup_safe", World(series=series, parents=MOUNTED)) == "no_data"


def test_cleanup_safe_without_a_history() -> None:
    series = [cut(one, after=NOW_S - 1700) for one in disk("/data", 95, per_hour=0.1)]
    assert truth("cn_cleanup_safe", World(series=series, parents=MOUNTED)) == "no_data"


def busy(device: str, share: float) -> Series:
    return ramp("node_disk_io_time_seconds_total", share, device=device)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.99, "true"), (0.875, "true"), (0.874, "false"), (0.0, "false")]
)
def test_disk_busy(share: float, expected: str) -> None:
    world = World(
        series=[busy("sda", share), busy("sdb", 0.0)],
        params={"device_busy_pct": 87.5, "window_s": 256},
    )
    verdict = judge("rc_disk_busy", world)
    assert verdict.value.value == expected
    assert verdict.subject == ("sda" if expected == "true" else "")


def test_disk_busy_across_a_reset() -> None:
    series = points("node_disk_io_time_seconds_total", [900, 915, 15, 30], device="sda")
    verdict = judge("rc_disk_busy", World(series=[series], params={"window_s": 60}))
    assert verdict.clauses[0].observed == pytest.approx(100)


@pytest.mark.parametrize(
    "series", [[], [cut(busy("sda", 1.0), after=NOW_S - 60)]], ids=["none", "too short"]
)
def test_disk_busy_without_figures(series: list[Series]) -> None:
    assert truth("rc_disk_busy", World(series=series)) == "no_data"
