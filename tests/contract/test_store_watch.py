"""Findings about tools: one for the same trouble, open while it holds; and watchers' memory.

What is asked of a `log` holds for every one; what is asked of a `store` is about its database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import BACKENDS, StoreMaker, store_maker
from tests.contract.store_rows import count
from tests.contract.store_world import START, HandClock
from triage.adapters.memory_watch import MemoryWatchLog
from triage.adapters.store import Store
from triage.errors import StoreError
from triage.model.decision import NodeId
from triage.ports import Purged, WatchFinding, WatchKind, WatchLog

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
N1, N2 = NodeId("n1"), NodeId("n2")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=(*BACKENDS, "memory"))
async def log(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> AsyncIterator[WatchLog]:
    if request.param == "memory":
        yield MemoryWatchLog()
        return
    async with store_maker(request, tmp_path) as make:
        yield (await make(clock=clock)).watch


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


def finding(
    finding_id: str = "f1", *, at: datetime = START, first_at: datetime | None = None, **more: Any
) -> WatchFinding:
    return WatchFinding(
        **{
            "finding_id": finding_id,
            "kind": WatchKind.VALUES_MOVED,
            "node": NodeId("rc_logs"),
            "subject": "metrics: queue_depth",
            "tool_sha256": "ab" * 32,
            "detail": "the median was 3 and is 300",
            "first_at": first_at or at,
            "last_at": at,
            "evidence": {"before": [1.5, 3], "now": {"p50": 300}},
            **more,
        }
    )


async def listed(log: WatchLog, *, node: str = "", closed: bool = False) -> list[WatchFinding]:
    return list(await log.findings(node=node, closed=closed))


# --- findings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WatchKind)
async def test_a_finding_is_read_back_as_it_was(log: WatchLog, kind: WatchKind) -> None:
    one = finding(kind=kind, at=START + timedelta(microseconds=3), first_at=START, count=4)
    await log.found([one])
    assert await listed(log) == [one]
    assert await listed(log, node="rc_logs") == [one]
    assert await listed(log, node="other") == await listed(log, closed=True) == []


async def test_nothing_is_there_before_the_first(log: WatchLog) -> None:
    await log.found([])
    await log.ended([], at=START)
    await log.ended(["unheard"], at=START)
    assert await listed(log) == []


async def test_the_same_trouble_is_one_finding_and_its_newest_words_count(log: WatchLog) -> None:
    await log.found([finding(at=START + HOUR)])
    await log.found([finding(at=START + 3 * HOUR, detail="new", evidence={"x": 1})])
    await log.found([finding(at=START, detail="slow", evidence={"x": 2}, count=5)])
    assert await listed(log) == [
        finding(at=START + 3 * HOUR, first_at=START, detail="new", evidence={"x": 1}, count=7)
    ]


async def test_one_told_twice_in_one_call_counts_twice(log: WatchLog) -> None:
    await log.found([finding(), finding()])
    assert [one.count for one in await listed(log)] == [2]


async def test_the_newest_come_first_and_no_more_than_a_thousand(log: WatchLog) -> None:
    some = [finding(f"f{n:04}", at=START + timedelta(seconds=n // 2)) for n in range(1_003)]
    await log.found(some)
    expected = sorted(some, key=lambda one: (one.last_at, one.finding_id), reverse=True)
    assert await listed(log) == expected[:1_000]


# --- closing --------------------------------------------------------------------------------------


async def test_what_no_longer_holds_is_closed_once(log: WatchLog) -> None:
    await log.found([finding("a"), finding("b", node=N2)])
    await log.ended(["a", "unheard"], at=START + HOUR)
    await log.ended(["a"], at=START + 2 * HOUR)
    assert [one.finding_id for one in await listed(log)] == ["b"]
    assert await listed(log, closed=True) == [finding("a", closed_at=START + HOUR)]
    assert await listed(log, closed=True, node=N2) == []


async def test_a_closed_one_that_comes_back_is_open_again(log: WatchLog) -> None:
    await log.found([finding()])
    await log.ended(["f1"], at=START + HOUR)
    again = finding(at=START + HOUR)
    await log.found([again])
    assert await listed(log) == [again._replace(first_at=START, count=2)]
    assert await listed(log, closed=True) == []
    await log.ended(["f1"], at=START + DAY)
    assert [one.closed_at for one in await listed(log, closed=True)] == [START + DAY]


async def test_one_from_before_the_closing_is_counted_and_opens_nothing(log: WatchLog) -> None:
    await log.found([finding(at=START + HOUR)])
    await log.ended(["f1"], at=START + 2 * HOUR)
    await log.found([finding(at=START + HOUR)])
    assert await listed(log) == []
    (closed,) = await listed(log, closed=True)
    assert (closed.count, closed.closed_at) == (2, START + 2 * HOUR)


async def test_the_closed_are_by_when_they_were_closed(log: WatchLog) -> None:
    await log.found([finding(name) for name in "abc"])
    for hours, name in ((3, "a"), (1, "b"), (2, "c")):
        await log.ended([name], at=START + hours * HOUR)
    assert [one.finding_id for one in await listed(log, closed=True)] == ["a", "c", "b"]


# --- what watchers learned ------------------------------------------------------------------------


async def test_what_was_learned_is_kept_by_watcher_and_node(log: WatchLog) -> None:
    assert await log.load_state("one") == {}
    await log.save_state("one", {})
    await log.save_state("one", {N1: b"\x00\xff", N2: b""})
    await log.save_state("two", {N1: b"of two"})
    await log.save_state("one", {N2: b"x" * 100_000})
    assert await log.load_state("one") == {N1: b"\x00\xff", N2: b"x" * 100_000}
    assert await log.load_state("two") == {N1: b"of two"}
    assert await log.load_state("three") == {}


async def test_a_watcher_goes_on_with_what_it_learned(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock)
    await store.watch.save_state("one", {N1: b"\x00\xff", N2: b"x" * 100_000})
    await store.close()

    again = await make_store(clock=clock)
    assert await again.watch.load_state("one") == {N1: b"\x00\xff", N2: b"x" * 100_000}


# --- what a database takes ------------------------------------------------------------------------


async def test_text_that_no_database_takes_is_kept_as_far_as_it_goes(store: Store) -> None:
    await store.watch.found(
        [finding(subject="a\x00b\ud800", detail="two\nlines \udfff", evidence={"x": "\x00"})]
    )
    (found,) = await listed(store.watch)
    assert (found.subject, found.detail) == ("a?b?", "two lines ?")
    assert found.evidence == {"x": "\x00"}


async def test_a_long_text_is_bounded(store: Store) -> None:
    await store.watch.found([finding(subject="s" * 99_999, detail="d" * 99_999)])
    (found,) = await listed(store.watch)
    assert len(found.subject) <= 2_000
    assert len(found.detail) <= 4_000


# --- replicas, and beside a daemon ----------------------------------------------------------------


@pytest.mark.parametrize("make_store", ["postgres"], indirect=True)
async def test_replicas_find_the_same_at_once(make_store: StoreMaker, clock: HandClock) -> None:
    stores = [await make_store(clock=clock) for _ in range(2)]
    some = [finding(f"f{n:02}") for n in range(20)]
    await asyncio.gather(
        stores[0].watch.found(some),
        stores[1].watch.found(list(reversed(some))),
        *(stores[0].watch.found([one]) for one in some),
        *(stores[1].watch.found([one]) for one in reversed(some)),
        *(store.watch.save_state("one", {N1: b"1", N2: b"2"}) for store in stores),
    )
    assert [one.count for one in await listed(stores[1].watch)] == [4] * 20
    await asyncio.gather(
        *(store.watch.ended([one.finding_id for one in some], at=START) for store in stores)
    )
    assert await listed(stores[0].watch) == []
    assert await stores[0].watch.load_state("one") == {N1: b"1", N2: b"2"}


async def test_a_reader_finds_nothing(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    await store.watch.found([finding()])
    reader = await make_store(clock=clock, exclusive=False)
    assert await listed(reader.watch) == [finding()]
    for change in (
        reader.watch.found([finding("f2")]),
        reader.watch.ended(["f1"], at=START),
        reader.watch.save_state("one", {N1: b""}),
    ):
        with pytest.raises(StoreError, match="not open for writing"):
            await change


# --- retention ------------------------------------------------------------------------------------


async def test_closed_findings_go_with_their_age_and_open_ones_stay(
    store: Store, make_store: StoreMaker
) -> None:
    await store.watch.found([finding(name) for name in ("open", "old", "new")])
    await store.watch.ended(["old"], at=START + DAY)
    await store.watch.ended(["new"], at=START + 3 * DAY)
    purged = await store.retention.purge(older_than=START + 2 * DAY, max_bytes=None)
    assert purged == Purged(findings=1)
    assert [one.finding_id for one in await listed(store.watch)] == ["open"]
    assert [one.finding_id for one in await listed(store.watch, closed=True)] == ["new"]
    assert count(make_store, "watch_findings") == 2


async def test_what_a_watcher_learned_that_is_gone_goes_too(store: Store, clock: HandClock) -> None:
    await store.watch.save_state("gone", {N1: b"1"})
    clock.advance(DAY.total_seconds())
    await store.watch.save_state("here", {N1: b"1"})
    await store.retention.purge(older_than=START + HOUR, max_bytes=None)
    assert await store.watch.load_state("gone") == {}
    assert await store.watch.load_state("here") == {N1: b"1"}
