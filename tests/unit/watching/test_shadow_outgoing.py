"""What the store does not take is neither lost silently nor kept without end."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.shadow_world import comparison, pair
from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.watching.shadow_world import Log
from triage.model.alert import AlertId
from triage.ports import Compared
from triage.watching.shadow_outgoing import DROPPED_AT_ONCE, WRITTEN_AT_ONCE, Outgoing

LATER = timedelta(seconds=9)


@on_virtual_time
async def test_nothing_is_written_when_there_is_nothing() -> None:
    log = Log()
    await Outgoing(log, most=10).write()
    assert log.calls == []


@on_virtual_time
async def test_many_are_written_some_at_a_time_in_order() -> None:
    log, count = Log(), 2 * WRITTEN_AT_ONCE + 1
    outgoing = Outgoing(log, most=10 * count)
    for number in range(count):
        outgoing.keep(comparison(f"a{number}"))
    await outgoing.write()
    assert log.calls == [WRITTEN_AT_ONCE, WRITTEN_AT_ONCE, 1]
    assert [one.alert_id for one in log.written] == [f"a{number}" for number in range(count)]


@on_virtual_time
async def test_what_was_dropped_is_told_as_often_as_it_was() -> None:
    log, one = Log(), comparison()
    outgoing = Outgoing(log, most=10)
    count = 2 * DROPPED_AT_ONCE + 1
    for number in range(count):
        outgoing.drop(pair(), AlertId(f"a{number}"), one.at + number * LATER)
    for _ in range(3):
        outgoing.drop(pair("other"), AlertId("x"), one.at)
    outgoing.keep(one)
    await outgoing.write()
    assert log.results() == {
        "rc_logs": ["differs", *["dropped"] * count],
        "other": ["dropped"] * 3,
    }
    dropped = [one for one in log.written if one.result is Compared.DROPPED]
    times = [one.at for one in dropped if one.pair == pair()]
    assert (min(times), max(times)) == (one.at, one.at + (count - 1) * LATER)
    assert all(size <= WRITTEN_AT_ONCE + DROPPED_AT_ONCE for size in log.calls)


@on_virtual_time
async def test_alerts_come_before_each_part() -> None:
    log = Log()
    outgoing = Outgoing(log, most=10 * WRITTEN_AT_ONCE)
    for number in range(2 * WRITTEN_AT_ONCE):
        outgoing.keep(comparison(f"a{number}"))
    written_before: list[int] = []

    async def ease() -> None:
        written_before.append(len(log.written))

    await outgoing.write(ease)
    assert written_before == [0, WRITTEN_AT_ONCE]
    assert log.calls == [WRITTEN_AT_ONCE] * 2


@on_virtual_time
async def test_a_store_in_trouble_gets_it_all_later_and_once() -> None:
    log = Log(failures=2)
    outgoing = Outgoing(log, most=10)
    outgoing.keep(comparison("a"))
    for _ in range(2):
        outgoing.drop(pair(), AlertId("b"), comparison().at)
    await outgoing.write()
    outgoing.keep(comparison("c"))
    await outgoing.write()
    assert log.written == []
    await outgoing.write()
    await outgoing.write()
    assert [one.alert_id for one in log.written] == ["a", "c", "b", "b"]
    assert log.calls == [4]


@on_virtual_time
async def test_beyond_what_may_be_kept_the_oldest_are_only_counted() -> None:
    log = Log(failures=1)
    outgoing = Outgoing(log, most=2)
    for number in range(3):
        outgoing.keep(comparison(f"a{number}"))
    await outgoing.write()
    outgoing.keep(comparison("a3"))
    await outgoing.write()
    assert [(one.alert_id, one.result.value) for one in log.written[:2]] == [
        ("a2", "differs"),
        ("a3", "differs"),
    ]
    assert [one.result for one in log.written[2:]] == [Compared.DROPPED] * 2
