"""The plan is the options' and nothing else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.chaos.options import BadOptions, Options, options
from bench.chaos.plan import Direction, Kind, make_plan

WITH_ALL = options(seconds=60, queue="redis", seed=7)


def test_the_same_options_make_the_same_plan() -> None:
    assert make_plan(WITH_ALL) == make_plan(options(seconds=60, queue="redis", seed=7))
    assert make_plan(WITH_ALL) != make_plan(replace(WITH_ALL, seed=8))


def test_a_short_run_has_a_fault_of_every_kind() -> None:
    for seed in range(20):
        plan = make_plan(options(seconds=25, queue="redis", seed=seed))
        assert {fault.kind for fault in plan} == set(Kind)


def test_what_is_not_there_is_not_killed() -> None:
    one = make_plan(options(seconds=200, queue="sqlite"))
    assert {fault.kind for fault in one} == {Kind.KILL, Kind.STOP, Kind.DROP, Kind.FILL}
    assert {fault.target for fault in one} == {"replica-0", "sender-0", "intake"}
    embedded = make_plan(options(seconds=200, queue="postgres"))
    assert Kind.BROKER not in {fault.kind for fault in embedded}
    assert "queue-0" not in {fault.target for fault in embedded}


def test_a_stop_is_longer_than_the_lease() -> None:
    stops = [fault for fault in make_plan(WITH_ALL) if fault.kind is Kind.STOP]
    assert stops
    assert all(stop.for_s > WITH_ALL.lease_s for stop in stops)


def test_a_burst_is_more_than_may_be_pending() -> None:
    bursts = [fault for fault in make_plan(WITH_ALL) if fault.kind is Kind.FILL]
    assert bursts
    assert all(burst.alerts > WITH_ALL.max_pending for burst in bursts)


def test_a_long_run_has_a_long_outage_of_each_server() -> None:
    plan = make_plan(options(seconds=200, queue="nats"))
    longest = {
        kind: max(fault.for_s for fault in plan if fault.kind is kind)
        for kind in (Kind.BROKER, Kind.STORE)
    }
    assert longest == {Kind.BROKER: 20.0, Kind.STORE: 20.0}
    short = make_plan(options(seconds=60, queue="nats"))
    assert max(fault.for_s for fault in short if fault.kind is Kind.BROKER) < 20.0


def test_faults_are_in_order_and_within_the_run() -> None:
    moments = [fault.at_s for fault in make_plan(WITH_ALL)]
    assert moments == sorted(moments)
    assert moments[0] > 0
    assert moments[-1] < WITH_ALL.seconds


def test_a_fault_as_json_says_what_was_done() -> None:
    plan = make_plan(WITH_ALL)
    drop = next(fault for fault in plan if fault.kind is Kind.DROP)
    assert Direction(drop.document()["direction"]) is drop.direction
    kill = next(fault for fault in plan if fault.kind is Kind.KILL)
    assert kill.document().keys() <= {"at_s", "kind", "target", "for_s"}
    assert kill.replica in range(WITH_ALL.replicas)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queue": "sqlite", "replicas": 2}, "one process"),
        ({"queue": "redis", "store": "sqlite", "replicas": 3}, "one process"),
        ({"queue": "sqlite", "store": "postgres"}, "of its own kind"),
        ({"queue": "postgres", "store": "sqlite"}, "of its own kind"),
        ({"queue": "kafka"}, "queues are"),
        ({"rate": 1.0, "alerts": 5}, "in two ways"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, object], told: str) -> None:
    with pytest.raises(BadOptions, match=told):
        options(**given)  # type: ignore[arg-type] # one fault each


def test_what_goes_with_a_queue() -> None:
    def chosen(wanted: Options) -> tuple[str, int, int]:
        return wanted.store, wanted.replicas, wanted.alerts

    assert chosen(options(seconds=10, queue="sqlite")) == ("sqlite", 1, 250)
    assert chosen(options(seconds=10, queue="nats", alerts=9)) == ("postgres", 3, 9)
    assert chosen(options(seconds=10, queue="postgres", rate=2)) == ("postgres", 3, 20)
