"""What counts as the time that the alerts of a dead replica waited."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.chaos.facts import AlertRow, Ask, DecisionRow
from bench.chaos.recovery import Death, Recovery, overlap, recoveries
from tests.unit.bench_chaos.chaos_facts import alert, decision


def ask(at: float, replica: int, entity: str = "a") -> Ask:
    return Ask(at=at, replica=replica, entity=entity)


def death(at: float, replica: int = 0, kind: str = "kill") -> Death:
    return Death(at=at, replica=replica, kind=kind)


def measured(
    deaths: Sequence[Death],
    asks: Sequence[Ask],
    decided_at: float,
    *,
    dark: Sequence[tuple[float, float]] = (),
    outages: Sequence[tuple[float, float]] = (),
    others: Sequence[tuple[AlertRow, DecisionRow]] = (),
) -> list[Recovery]:
    """Of alert `a`, accepted at 1."""
    rows = {"a": alert("a", accepted_at=1.0), **{row.alert_id: row for row, _ in others}}
    decisions = [decision("a", decided_at=decided_at), *(one for _, one in others)]
    return recoveries(deaths, {"a": list(asks)}, rows, decisions, dark=dark, outages=outages)


def test_from_the_death_to_the_decision() -> None:
    (one,) = measured([death(10)], [ask(9, 0), ask(13, 1)], decided_at=14)
    assert (one.alert_id, one.recovery_s, one.waited_s) == ("a", 4.0, 4.0)


@pytest.mark.parametrize(
    ("asks", "decided_at", "why"),
    [
        ([ask(9, 0)], 9.5, "it was decided before"),
        ([ask(11, 0)], 14, "it was asked for only later"),
        ([ask(8, 0), ask(9, 1)], 14, "another had it by then"),
    ],
)
def test_what_the_dead_did_not_hold(asks: Sequence[Ask], decided_at: float, why: str) -> None:
    assert measured([death(10)], asks, decided_at) == [], why


def test_an_alert_that_was_never_decided_is_for_others_to_find() -> None:
    rows = {"a": alert("a", "pending")}
    assert recoveries([death(10)], {"a": [ask(9, 0)]}, rows, [], dark=[], outages=[]) == []


def test_two_deaths_in_a_row_each_have_their_own_part() -> None:
    spans = measured(
        [death(10), death(20, replica=1)],
        [ask(9, 0), ask(13, 1), ask(24, 2)],
        decided_at=25,
    )
    assert {(one.death.replica, one.waited_s) for one in spans} == {(0, 3.0), (1, 5.0)}


def test_hands_that_were_stopped_and_then_killed_count_once() -> None:
    stopped, killed = death(10, kind="stop"), death(12)
    (one,) = measured([stopped, killed], [ask(9, 0), ask(16, 1)], decided_at=17)
    assert (one.death.kind, one.waited_s) == ("kill", 5.0)


def test_time_without_any_replica_does_not_count() -> None:
    (one,) = measured([death(10)], [ask(9, 0)], decided_at=20, dark=[(5, 12), (15, 30)])
    assert (one.dark_s, one.recovery_s, one.waited_s) == (7.0, 3.0, 10.0)


@pytest.mark.parametrize(
    ("outage", "disturbed"), [((11, 12), True), ((5, 10), False), ((14, 20), False)]
)
def test_an_outage_meanwhile_is_told(outage: tuple[float, float], disturbed: bool) -> None:
    (one,) = measured([death(10)], [ask(9, 0)], decided_at=14, outages=[outage])
    assert one.disturbed is disturbed
    assert one.recovery_s == 4.0


def test_the_queue_that_fresh_alerts_met_does_not_count() -> None:
    fresh = alert("b", accepted_at=11.0), decision("b", decided_at=13.8)
    (one,) = measured([death(10)], [ask(9, 0)], decided_at=14, others=[fresh])
    assert one.queued_s == pytest.approx(2.8)
    assert one.recovery_s == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("row", "decided"),
    [
        (alert("b", accepted_at=9.0), decision("b", decided_at=13.8)),
        (alert("b", accepted_at=11.0), decision("b", decided_at=12.0)),
        (alert("b", accepted_at=11.0, priority=0), decision("b", decided_at=13.8)),
        (alert("b", "pending", accepted_at=11.0), decision("c", decided_at=13.8)),
    ],
    ids=["before the death", "long before", "another priority", "undecided"],
)
def test_other_alerts_excuse_nothing(row: AlertRow, decided: DecisionRow) -> None:
    (one,) = measured([death(10)], [ask(9, 0)], decided_at=14, others=[(row, decided)])
    assert one.queued_s == 0.0


def test_the_least_of_the_waits_is_taken() -> None:
    """Else one slow alert would excuse every other."""
    others = [
        (alert(name, accepted_at=14 - waited), decision(name, decided_at=13.9))
        for name, waited in (("b", 3.0), ("c", 0.5))
    ]
    (one,) = measured([death(10)], [ask(9, 0)], decided_at=14, others=others)
    assert one.queued_s == pytest.approx(0.4)


def test_the_longest_comes_first() -> None:
    rows = {name: alert(name) for name in "ab"}
    asks = {"a": [ask(9, 0, "a")], "b": [ask(9, 0, "b")]}
    decisions = [decision("a", decided_at=11), decision("b", decided_at=15)]
    found = recoveries([death(10)], asks, rows, decisions, dark=[], outages=[])
    assert [one.alert_id for one in found] == ["b", "a"]


def test_overlap() -> None:
    assert overlap([(0, 2), (3, 5), (9, 10)], 1, 4) == 2
    assert overlap([(0, 2)], 2, 4) == 0
