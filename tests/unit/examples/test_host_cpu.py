from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.examples.host_world import NOW_S, World, cut, judge, points, ramp, truth
from triage.model.query import Series

if TYPE_CHECKING:
    from collections.abc import Sequence


def cpu(*cores: dict[str, float], instance: str = "web-1") -> list[Series]:
    """Counters of each core from the share of time in each mode; idle is the rest."""
    series = []
    for core, modes in enumerate(cores):
        shares = {"steal": 0.0, "iowait": 0.0, **modes}
        shares["idle"] = 1 - sum(shares.values())
        series += [
            ramp(
                "node_cpu_seconds_total",
                share,
                start=1000.0,
                cpu=str(core),
                mode=mode,
                instance=instance,
            )
            for mode, share in shares.items()
        ]
    return series


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ([{"user": 0.9}, {"user": 0.9}], "true"),
        ([{"user": 0.5}, {"user": 0.5}], "false"),
        ([{"user": 0.875}], "false"),  # not above 87.5
        ([{"user": 0.8750001}], "true"),
        ([{"iowait": 0.95}], "false"),
        ([{"user": 0.5, "steal": 0.45}], "true"),
    ],
)
def test_cpu_busy(cores: list[dict[str, float]], expected: str) -> None:
    world = World(series=cpu(*cores), params={"cpu_busy_pct": 87.5, "window_s": 256})
    assert truth("obs_cpu_busy", world) == expected


CPU_NODES = ("obs_cpu_busy", "rc_cpu_steal", "rc_cpu_one_core", "obs_io_wait")


@pytest.mark.parametrize("node", CPU_NODES)
@pytest.mark.parametrize(
    "series",
    [
        [],
        cpu({"user": 0.99}, instance="web-2"),
        [cut(one, after=NOW_S - 20) for one in cpu({"user": 0.99})],
        [cut(one, after=NOW_S - 100) for one in cpu({"user": 0.99})],
    ],
    ids=["none", "another host", "one sample", "a third of the window"],
)
def test_cpu_without_figures(node: str, series: Sequence[Series]) -> None:
    assert truth(node, World(series=series)) == "no_data"


def test_cpu_busy_after_a_restart_of_the_host() -> None:
    idle = points("node_cpu_seconds_total", [9000, 9015, 9030, 1, 2], cpu="0", mode="idle")
    user = points("node_cpu_seconds_total", [500, 500, 500, 14, 28], cpu="0", mode="user")
    verdict = judge("obs_cpu_busy", World(series=[idle, user], params={"window_s": 75}))
    assert verdict.clauses[0].observed == pytest.approx(100 * 28 / (28 + 32))


def test_cpu_busy_over_a_gap_in_the_scrapes() -> None:
    whole = cpu({"user": 0.9})
    holed = []
    for one in whole:
        early, late = cut(one, until=NOW_S - 200), cut(one, after=NOW_S - 60)
        holed.append(Series(one.labels, early.times + late.times, early.values + late.values))
    verdict = judge("obs_cpu_busy", World(series=holed))
    assert verdict.clauses[0].observed == pytest.approx(90)


def test_cpu_busy_ignores_what_is_not_a_number() -> None:
    odd = points("node_cpu_seconds_total", [float("nan")] * 30, cpu="7", mode="user")
    verdict = judge("obs_cpu_busy", World(series=[*cpu({"user": 0.9}), odd]))
    assert verdict.clauses[0].observed == pytest.approx(90)


@pytest.mark.parametrize(
    ("steal", "expected"), [(0.2, "true"), (0.125, "false"), (0.1250001, "true"), (0.0, "false")]
)
def test_cpu_steal(steal: float, expected: str) -> None:
    world = World(series=cpu({"steal": steal}, {"steal": steal}), params={"cpu_steal_pct": 12.5})
    assert truth("rc_cpu_steal", world) == expected


def test_cpu_steal_on_a_machine_that_does_not_count_it() -> None:
    series = [one for one in cpu({"user": 0.9}) if one.labels["mode"] != "steal"]
    assert truth("rc_cpu_steal", World(series=series)) == "no_data"


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ([{"user": 1.0}, {"user": 0.1}, {"user": 0.2}], "true"),
        ([{"user": 0.9375}, {"user": 0.0}], "true"),  # at the threshold
        ([{"user": 0.9374}, {"user": 0.0}], "false"),
        ([{"user": 1.0}, {"user": 0.5}], "false"),  # the other is not idle enough
        ([{"user": 1.0}], "false"),  # one core has no others
    ],
)
def test_cpu_one_core(cores: list[dict[str, float]], expected: str) -> None:
    world = World(series=cpu(*cores), params={"core_saturated_pct": 93.75})
    assert truth("rc_cpu_one_core", world) == expected


def test_cpu_one_core_names_the_core() -> None:
    verdict = judge("rc_cpu_one_core", World(series=cpu({"user": 0.1}, {"system": 1.0})))
    assert verdict.clauses[1].name == "core 1 busy"


@pytest.mark.parametrize(
    ("iowait", "expected"), [(0.5, "true"), (0.25, "false"), (0.2500001, "true"), (0.01, "false")]
)
def test_io_wait(iowait: float, expected: str) -> None:
    world = World(
        series=cpu({"user": 0.1, "iowait": iowait}), params={"iowait_pct": 25, "window_s": 256}
    )
    assert truth("obs_io_wait", world) == expected


def top(pid: str, comm: str, values: Sequence[float]) -> Series:
    return points("host_top_process_cpu_ratio", values, pid=pid, comm=comm)


def written(age_s: float) -> Series:
    return ramp(
        "node_textfile_mtime_seconds",
        start=NOW_S - age_s,
        file="/var/lib/node/host_top_process.prom",
    )


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.7, "true"), (0.375, "true"), (0.374, "false"), (0.1, "false")]
)
def test_cpu_process(ratio: float, expected: str) -> None:
    world = World(
        series=[
            *cpu({"user": 0.75}),
            written(5),
            top("7", "yes", [ratio] * 20),
            top("8", "sshd", [0.01] * 20),
        ]
    )
    verdict = judge("rc_cpu_process", world)
    assert verdict.value.value == expected
    assert verdict.subject == ("yes[7]" if expected == "true" else "")


def test_cpu_process_that_was_busy_for_a_moment_only() -> None:
    burst = top("9", "cron", [0.75])
    steady = top("7", "yes", [0.3] * 20)
    verdict = judge(
        "rc_cpu_process", World(series=[*cpu({"user": 0.75}), written(5), burst, steady])
    )
    assert verdict.explanation.startswith("yes[7] ")
    assert verdict.clauses[0].observed == pytest.approx(40)


@pytest.mark.parametrize(
    "series",
    [
        cpu({"user": 0.9}),
        [*cpu({"user": 0.9}), top("7", "yes", [0.9] * 20)],
        [*cpu({"user": 0.9}), top("7", "yes", [0.9] * 20), written(121)],
        [top("7", "yes", [0.9] * 20), written(5)],
    ],
    ids=["script never ran", "file is not reported", "script died", "no processor time"],
)
def test_cpu_process_without_figures(series: Sequence[Series]) -> None:
    assert truth("rc_cpu_process", World(series=series)) == "no_data"


def test_cpu_process_at_the_age_limit() -> None:
    series = [*cpu({"user": 0.9}), top("7", "yes", [0.9] * 20), written(120)]
    assert truth("rc_cpu_process", World(series=series)) == "true"
