"""Changes are named, and what only looks like one is not: seeded simulations of a node's life."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from random import Random

import pytest

from tests.unit.watching.drift_world import LEVELS, NODE, levels, noise, run, seen, table
from triage.ports import WatchKind
from triage.watching.drift import DEAD, FAULT_S, NodeDrift
from triage.watching.drift_evidence import LAG, LEAST, LEAST_S
from triage.watching.features import NodeSeen, SlotSeen

WARM = 80  # evaluations: more than the warm-up
WITHIN = 30
SITES = ("north", "south", "west")
REFUSED = SlotSeen("tables t", "tables", failure="query_rejected", detail="no such column: lane")

Each = Callable[[int], NodeSeen]


def warmed(each: Each, count: int = WARM) -> NodeDrift:
    drift = NodeDrift(NODE)
    assert run(drift, each, count) == []
    return drift


def named(drift: NodeDrift, each: Each, kind: WatchKind, count: int = WITHIN) -> tuple[int, str]:
    """After how many evaluations the kind was found, and its subject."""
    found = [(after, a.subject) for after, a in run(drift, each, count, WARM) if a.kind is kind]
    assert found, f"no {kind.value} within {count}"
    return found[0]


def steady(seed: int = 1, **more: float) -> Each:
    chance = Random(seed)
    return lambda number: seen(levels(noise(chance, **more)), number=number)  # type: ignore[arg-type]


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1000.0, 0.001, 60.0, 0.01])
def test_a_change_of_unit_is_named(factor: float) -> None:
    chance = Random(2)
    drift = warmed(steady())
    after, subject = named(
        drift,
        lambda number: seen(levels([v * factor for v in noise(chance)]), number=number),
        WatchKind.VALUES_MOVED,
    )
    assert after <= 8
    assert subject == f"{LEVELS}: value"
    [alarm] = drift.open.values()
    assert "from" in alarm.detail
    assert "north" in alarm.detail


def test_a_thousandfold_is_told_as_a_unit() -> None:
    chance = Random(2)
    drift = warmed(steady())
    named(
        drift,
        lambda number: seen(levels([v * 1000 for v in noise(chance)]), number=number),
        WatchKind.VALUES_MOVED,
    )
    assert "as between s and ms" in next(iter(drift.open.values())).detail


@pytest.mark.parametrize("direction", [1, -1])
def test_three_sigmas_at_every_site_are_named(direction: int) -> None:
    chance = Random(3)
    spread = 0.10  # of the middle of one answer, natural logarithm

    def each(middle: float) -> Each:
        return lambda number: seen(
            levels([middle * chance.lognormvariate(0, spread)] * 5),
            number=number // 3,
            site=SITES[number % 3],
        )

    drift = NodeDrift(NODE)
    assert run(drift, each(50.0), 3 * WARM) == []
    moved = 50.0 * 2.718281828 ** (direction * 3 * spread)
    found = run(drift, each(moved), WITHIN, 3 * WARM)
    assert [alarm.kind for _, alarm in found] == [WatchKind.VALUES_MOVED]


def test_sites_in_other_units_are_not_compared_with_each_other() -> None:
    chance = Random(4)
    middles = dict(zip(SITES, (50.0, 50_000.0, 0.5), strict=True))

    def each(number: int) -> NodeSeen:
        site = SITES[0] if number < WARM else SITES[number % 3]
        return seen(levels(noise(chance, middles[site])), number=number, site=site)

    assert run(NodeDrift(NODE), each, 6 * WARM) == []


def test_days_and_nights_are_no_drift() -> None:
    chance = Random(5)

    def each(number: int) -> NodeSeen:
        # Every 100 minutes: a night is some five evaluations in a row.
        hour = number * 100 / 60
        middle = 50.0 * 3.0 ** cos(2 * pi * hour / 24)
        return seen(levels(noise(chance, middle)), number=number, step_s=6000.0)

    assert run(NodeDrift(NODE), each, 1500) == []


def test_faults_that_last_hours_are_no_drift() -> None:
    chance = Random(6)

    def each(number: int) -> NodeSeen:
        # Half an hour apart; about every tenth six-hour stretch something is broken.
        broken = Random(number // 12).random() < 0.1
        middle = 5.0 if broken else 50.0
        return seen(levels(noise(chance, middle)), number=number, step_s=1800.0)

    assert len(run(NodeDrift(NODE), each, 2000)) <= 1


def test_a_storm_of_alerts_about_one_odd_hour_is_no_drift() -> None:
    chance = Random(7)
    drift = warmed(steady())
    assert (
        run(
            drift,
            lambda number: seen(levels(noise(chance, 90.0)), number=number, step_s=1.0),
            3,
            WARM,
        )
        == []
    )


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_found_in_ten_thousand_evaluations_of_nothing(seed: int) -> None:
    chance = Random(seed)

    def each(number: int) -> NodeSeen:
        # Heavy tails, gaps in the data and three kinds of verdict.
        values = [50.0 * chance.paretovariate(1.5) for _ in range(10)]
        if chance.random() < 0.05:
            values = []
        word = chance.choices(("true", "false", "no_data"), (60, 35, 5))[0]
        return seen(levels(values), number=number, word=word, site=SITES[number % 3])

    assert run(NodeDrift(NODE), each, 1000) == []


# --- nulls and gaps ---------------------------------------------------------------------------


def test_nulls_that_become_many_are_named() -> None:
    chance = Random(8)

    def each(share: float) -> Each:
        return lambda number: seen(
            levels([-1.0 if chance.random() < share else v for v in noise(chance)]), number=number
        )

    drift = warmed(each(0.05))
    after, subject = named(drift, each(0.6), WatchKind.NULLS)
    assert after <= 8
    assert subject == f"{LEVELS}: value"


def test_fewer_samples_are_named() -> None:
    drift = warmed(steady())
    after, subject = named(
        drift,
        lambda number: seen(levels([50.0] * 5), number=number),
        WatchKind.GAPS,
    )
    assert after <= 8
    assert subject == LEVELS


def test_answers_that_become_empty_are_named() -> None:
    drift = warmed(steady())
    after, subject = named(drift, lambda number: seen(levels([]), number=number), WatchKind.GAPS)
    assert after <= 10
    assert subject == LEVELS


def test_a_query_that_is_often_empty_may_stay_so() -> None:
    chance = Random(9)

    def each(number: int) -> NodeSeen:
        return seen(levels(noise(chance) if chance.random() < 0.3 else []), number=number)

    assert run(NodeDrift(NODE), each, 1000) == []


# --- schema -----------------------------------------------------------------------------------


def row(number: int, **more: object) -> NodeSeen:
    return seen(table([{"lane": "L1", "n": 5, **more}]), number=number)


def test_a_renamed_column_is_named() -> None:
    drift = warmed(row)
    found = run(drift, lambda number: seen(table([{"way": "L1", "n": 5}]), number=number), 10, WARM)
    assert {(alarm.kind, alarm.subject) for _, alarm in found} == {
        (WatchKind.SCHEMA_CHANGED, "tables t: lane"),
        (WatchKind.SCHEMA_CHANGED, "tables t: way"),
    }
    assert max(after for after, _ in found) <= 8


def test_a_renamed_label_is_named() -> None:
    drift = warmed(lambda number: seen(levels([1.0], {"asset": "A"}), number=number))
    after, subject = named(
        drift,
        lambda number: seen(levels([1.0], {"asset_id": "A"}), number=number),
        WatchKind.SCHEMA_CHANGED,
    )
    assert after <= 8
    assert "asset" in subject


def test_a_number_that_becomes_text_is_named() -> None:
    drift = warmed(row)
    after, subject = named(drift, lambda number: row(number, n="5"), WatchKind.SCHEMA_CHANGED)
    assert after <= 8
    assert subject == "tables t: n"


def test_an_offset_that_goes_missing_is_named() -> None:
    drift = warmed(lambda number: row(number, at="2026-03-01T00:00:00Z"))
    named(drift, lambda number: row(number, at="2026-03-01T00:00:00"), WatchKind.SCHEMA_CHANGED)


def test_a_query_that_is_refused_is_named_with_what_the_source_says() -> None:
    drift = warmed(row)
    after, subject = named(
        drift,
        lambda number: seen(REFUSED, number=number, word="failed", failure="query_rejected"),
        WatchKind.SCHEMA_CHANGED,
    )
    assert after <= 8
    assert subject == "tables t"
    details = [alarm.detail for alarm in drift.open.values()]
    assert any("no such column: lane" in detail for detail in details)


def test_a_rare_field_is_no_change() -> None:
    chance = Random(10)

    def each(number: int) -> NodeSeen:
        return row(number, **({"note": "x"} if chance.random() < 0.03 else {}))

    assert run(NodeDrift(NODE), each, 2000) == []


def test_a_field_that_is_null_for_long_is_no_change_of_type() -> None:
    drift = warmed(lambda number: row(number, at="2026-03-01T00:00:00Z"))
    found = run(drift, lambda number: row(number, at=None), 20, WARM)
    assert all(alarm.kind is not WatchKind.SCHEMA_CHANGED for _, alarm in found)


def test_fields_of_a_list_that_is_empty_are_not_missed() -> None:
    from triage.model.query import Call
    from triage.watching.features import answer_seen

    def answer(number: int) -> NodeSeen:
        inputs = [{"name": "gate", "ok": True}] if number < WARM else []
        slot = answer_seen("robots inputs", Call("robots", "inputs"), {"inputs": inputs})
        return seen(slot, number=number)

    drift = warmed(answer)
    assert run(drift, answer, 60, WARM) == []


# --- what the node says -----------------------------------------------------------------------


def test_verdicts_that_become_another_are_named() -> None:
    chance = Random(11)

    def each(share: float) -> Each:
        return lambda number: seen(
            number=number,
            word="true" if chance.random() < share else "false",
            step_s=FAULT_S,
        )

    drift = warmed(each(0.2))
    after, subject = named(drift, each(1.0), WatchKind.VERDICTS_MOVED)
    assert after <= 25
    assert subject == "true"


def test_a_tool_that_begins_to_fail_is_named_with_the_reason() -> None:
    drift = warmed(steady())
    after, subject = named(
        drift,
        lambda number: seen(
            number=number, word="failed", failure="tool_raised", detail="v1.py:3: KeyError: 'lane'"
        ),
        WatchKind.FAILURES,
    )
    assert after <= 10
    assert subject == "tool"
    assert any("KeyError: 'lane'" in alarm.detail for alarm in drift.open.values())


def silent(number: int, site: str = "north") -> NodeSeen:
    dead = SlotSeen(LEVELS, "metrics", failure="source_connect", detail="refused")
    return seen(dead, number=number, site=site, word="failed", failure="source_connect")


def test_a_dead_source_is_named_at_once_also_before_the_warm_up() -> None:
    found = run(NodeDrift(NODE), silent, 10)
    assert [(after, a.kind, a.subject) for after, a in found] == [
        (DEAD, WatchKind.SOURCE_DEAD, "metrics")
    ]


def test_a_source_that_answers_again_is_no_longer_dead() -> None:
    drift = NodeDrift(NODE)
    run(drift, silent, DEAD)
    assert drift.open
    change = drift.see(steady()(DEAD))
    assert change.ended == ((WatchKind.SOURCE_DEAD, "metrics"),)
    assert not drift.open


def test_failures_now_and_then_are_no_dead_source() -> None:
    chance = Random(12)
    well = steady()

    def each(number: int) -> NodeSeen:
        return silent(number) if chance.random() < 0.1 else well(number)

    assert run(NodeDrift(NODE), each, 3000) == []


def test_a_source_is_alive_while_one_of_its_queries_is_answered() -> None:
    dead = SlotSeen("metrics other", "metrics", failure="source_timeout")
    drift = NodeDrift(NODE)
    assert run(drift, lambda number: seen(levels([1.0]), dead, number=number), 20) == []


# --- the life of an alarm ---------------------------------------------------------------------


def test_an_alarm_ends_when_values_are_as_before() -> None:
    chance = Random(13)
    drift = warmed(steady())
    run(drift, lambda n: seen(levels([v * 10 for v in noise(chance)]), number=n), 20, WARM)
    assert drift.open
    run(drift, steady(14), 20, WARM + 20)
    assert not drift.open


def test_an_alarm_holds_while_values_stay_moved() -> None:
    chance = Random(15)
    drift = warmed(steady())
    found = run(drift, lambda n: seen(levels([v * 10 for v in noise(chance)]), number=n), 200, WARM)
    assert len(found) == 1
    assert drift.open


def test_what_stays_becomes_usual_in_the_end() -> None:
    chance = Random(16)

    def moved(number: int) -> NodeSeen:
        return seen(levels([v * 10 for v in noise(chance)]), number=number)

    drift = warmed(steady())
    run(drift, moved, 500, WARM)
    assert not drift.open
    assert run(drift, moved, 100, WARM + 500) == []


def test_another_tool_starts_its_verdicts_anew() -> None:
    drift = warmed(lambda number: seen(number=number, word="false"))
    found = run(drift, lambda n: seen(number=n, word="true", tool="cd" * 32), 60, WARM)
    assert found == []
    assert drift.tool_sha256 == "cd" * 32


# --- state ------------------------------------------------------------------------------------


def lively(seed: int) -> Each:
    """All kinds of trouble, one after the other."""
    chance = Random(seed)

    def each(number: int) -> NodeSeen:
        factor = 1000.0 if 150 <= number < 190 else 1.0
        gone = number >= 260
        values = [v * factor for v in noise(chance)]
        rows = [{"way" if gone else "lane": "L1", "n": chance.randrange(1, 9)}]
        word = chance.choice(("true", "false"))
        if 210 <= number < 230:
            return silent(number, SITES[number % 2])
        return seen(levels(values), table(rows), number=number, word=word, site=SITES[number % 2])

    return each


@pytest.mark.parametrize("every", [1, 7, 50])
def test_a_restart_changes_nothing(every: int) -> None:
    straight, stopped = NodeDrift(NODE), NodeDrift(NODE)
    one, other = lively(17), lively(17)
    for number in range(320):
        expected = straight.see(one(number))
        got = stopped.see(other(number))
        assert [a.subject for a in got.opened] == [a.subject for a in expected.opened], number
        assert set(got.ended) == set(expected.ended), number
        if number % every == 0:
            stopped = NodeDrift.of(NODE, stopped.state())
    assert {a.kind for a in straight.open.values()} == {WatchKind.SCHEMA_CHANGED}
    assert straight.open.keys() == stopped.open.keys()


def test_state_does_not_grow_with_time() -> None:
    drift, each = NodeDrift(NODE), lively(18)
    run(drift, lambda number: each(number % 140), 500)
    early = len(drift.state())
    run(drift, lambda number: each(number % 140), 3000, 500)
    assert len(drift.state()) <= early * 1.1
    assert early < 30_000


@pytest.mark.parametrize(
    "state", [b"", b"{}", b"[]", b"null", b'{"format":99}', b'{"format":1}', b"\xff"]
)
def test_what_is_no_state_is_refused(state: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what orjson says is its own
        NodeDrift.of(NODE, state)


def test_what_there_is_no_room_for_is_counted() -> None:
    drift = NodeDrift(NODE)
    many = [levels([1.0], slot=f"metrics m{number}") for number in range(70)]
    drift.see(seen(*many))
    assert drift.unwatched == 6


@pytest.mark.parametrize(
    ("count", "step_s", "speaks"),
    [
        (LEAST + LAG, LEAST_S / (LEAST + LAG - 1), True),
        (LEAST - 10, LEAST_S, False),
        (LEAST + LAG, LEAST_S / (LEAST + 2 * LAG), False),
    ],
    ids=["both", "too few", "too young"],
)
def test_the_warm_up_is_what_the_module_says(count: int, step_s: float, speaks: bool) -> None:
    chance, further = Random(19), Random(20)
    drift = NodeDrift(NODE)
    run(drift, lambda n: seen(levels(noise(chance)), number=n, step_s=step_s), count)
    found = run(
        drift,
        lambda n: seen(levels([v * 1000 for v in noise(further)]), number=n, step_s=step_s),
        6,
        count,
    )
    assert [alarm.kind for _, alarm in found] == [WatchKind.VALUES_MOVED] * speaks
