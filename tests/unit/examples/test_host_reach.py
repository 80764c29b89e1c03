from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.examples.host_world import NOW_S, World, cut, judge, points, ramp, truth

if TYPE_CHECKING:
    from triage.model.query import Series


def port(device: str, errors: float, packets: float) -> list[Series]:
    """Counters that grow by this much a second, evenly both ways."""
    return [
        ramp(f"node_network_{way}_{what}_total", rate / 2, device=device)
        for way in ("receive", "transmit")
        for what, rate in (("errs", errors), ("packets", packets))
    ]


@pytest.mark.parametrize(
    ("errors", "packets", "expected"),
    [
        (10, 990, "true"),  # 1 %
        (1, 999, "false"),  # 0.1 %, not above
        (1.01, 998.99, "true"),
        (0.01, 1, "false"),  # 1 %, but three packets
        (0, 1000, "false"),
        (0, 0, "false"),
    ],
)
def test_network_errors(errors: float, packets: float, expected: str) -> None:
    world = World(series=port("eth0", errors, packets), params={"network_error_pct": 0.1000001})
    verdict = judge("obs_network_errors", world)
    assert (verdict.value.value, verdict.subject) == (expected, "eth0")


def test_network_errors_are_not_hidden_by_an_idle_interface() -> None:
    series = [*port("eth0", 10, 990), *port("tun0", 0.01, 0.01)]
    verdict = judge("obs_network_errors", World(series=series))
    assert (verdict.value.value, verdict.subject) == ("true", "eth0")


def test_network_errors_of_the_interface_the_alert_names() -> None:
    series = [*port("eth0", 10, 990), *port("eth1", 0, 990)]
    verdict = judge("obs_network_errors", World(series=series, labels={"device": "eth1"}))
    assert (verdict.value.value, verdict.subject) == ("false", "eth1")


def test_network_errors_across_a_reset() -> None:
    counts = {"errs": [900.0, 950.0, 50.0, 100.0], "packets": [9e6, 9.1e6, 1e5, 2e5]}
    series = [
        points(f"node_network_{way}_{what}_total", values, device="eth0")
        for way in ("receive", "transmit")
        for what, values in counts.items()
    ]
    verdict = judge("obs_network_errors", World(series=series, params={"window_s": 60}))
    assert verdict.clauses[1].observed == 2 * (50 + 50 + 50)


@pytest.mark.parametrize(
    "series",
    [[], port("eth0", 10, 990)[1:], [cut(one, after=NOW_S - 60) for one in port("eth0", 10, 990)]],
    ids=["none", "one counter missing", "too short"],
)
def test_network_errors_without_figures(series: list[Series]) -> None:
    assert truth("obs_network_errors", World(series=series)) == "no_data"


@pytest.mark.parametrize(
    ("up", "expected"),
    [
        ([1, 1, 0, 0, 0], "true"),
        ([1, 1, 1, 0, 0], "false"),
        ([0, 0, 0, 0, 1], "false"),
        ([0, 1, 0, 1, 0], "false"),
        ([0, 0, 0], "true"),
        ([0, 0], "no_data"),
        ([], "no_data"),
    ],
)
def test_service_down(up: list[float], expected: str) -> None:
    world = World(series=[points("up", up, job="api")], labels={"job": "api"})
    verdict = judge("obs_service_down", world)
    assert (verdict.value.value, verdict.subject) == (expected, "api")


@pytest.mark.parametrize(("age_s", "expected"), [(60, "true"), (75, "no_data")])
def test_service_that_is_not_scraped_any_more(age_s: float, expected: str) -> None:
    world = World(
        series=[points("up", [0, 0, 0, 0], job="api", end=NOW_S - age_s)], labels={"job": "api"}
    )
    assert truth("obs_service_down", world) == expected


def test_service_of_another_host_does_not_count() -> None:
    world = World(
        series=[points("up", [0, 0, 0], job="api", instance="web-2")], labels={"job": "api"}
    )
    assert truth("obs_service_down", world) == "no_data"


def server(up: list[float]) -> Series:
    return points("up", up, job="prometheus", instance="monitor")


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ([points("up", [1, 0, 0, 0], job="node")], "true"),
        ([points("up", [1, 1, 0, 0], job="node")], "false"),
        ([points("up", [0, 0, 0, 1], job="node")], "false"),
        ([server([1, 1])], "true"),
        ([server([1, 1]), points("up", [1, 1, 1], job="node", end=NOW_S - 75)], "true"),
        ([server([1, 1]), points("up", [1, 1, 1], job="node", end=NOW_S - 60)], "false"),
        ([], "no_data"),
        ([points("up", [1, 1, 1], job="node", end=NOW_S - 75)], "no_data"),
        ([points("up", [1, 1, 1], job="node", instance="web-2")], "no_data"),
    ],
    ids=[
        "fails",
        "failed twice",
        "is back",
        "never scraped",
        "left the configuration",
        "just scraped",
        "empty server",
        "silent server",
        "another host",
    ],
)
def test_exporter_gone(series: list[Series], expected: str) -> None:
    assert truth("obs_exporter_gone", World(series=series)) == expected


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ({"node": 0, "api": 0}, "true"),
        ({"node": 1, "api": 0}, "false"),
        ({"node": 1}, "false"),
        ({"api": 0}, "no_data"),
        ({}, "no_data"),
    ],
)
def test_host_unreachable(jobs: dict[str, float], expected: str) -> None:
    series = [points("up", [1, up], job=job) for job, up in jobs.items()]
    assert truth("rc_host_unreachable", World(series=series)) == expected


def test_host_unreachable_ignores_targets_that_left() -> None:
    gone = points("up", [1, 1], job="old", end=NOW_S - 61)
    series = [gone, points("up", [0], job="api"), points("up", [0], job="node")]
    verdict = judge("rc_host_unreachable", World(series=series))
    assert (verdict.value.value, verdict.clauses[0].observed) == ("true", 0)
