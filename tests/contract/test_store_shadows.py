"""Shadows: counted once an alert, over all replicas, and kept in full where they did not agree."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.shadow_world import comparison, pair
from tests.contract.store_rows import count, query
from tests.contract.store_world import START, HandClock, arrival, decision
from triage.adapters.store import Store
from triage.errors import PayloadError, StoreError
from triage.ports import (
    Compared,
    Comparison,
    ComparisonPage,
    DecisionFilter,
    Pair,
    Purged,
    ShadowLog,
    Tally,
)

DAY = timedelta(days=1)
KEPT = (Compared.DIFFERS, Compared.UNRECORDED, Compared.FAILED)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


async def tally(log: ShadowLog, of: Pair | None = None) -> Tally:
    wanted = of or pair()
    return next(one for one in await log.tallies(wanted.node) if one.pair == wanted)


async def page(
    log: ShadowLog,
    result: Compared | None = None,
    *,
    of: Pair | None = None,
    cursor: str = "",
    limit: int = 100,
) -> ComparisonPage:
    return await log.comparison_page(of or pair(), result=result, cursor=cursor, limit=limit)


async def walk(log: ShadowLog, result: Compared | None = None, *, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = ""
    while True:
        found = await page(log, result, cursor=cursor, limit=limit)
        pages.append([one.alert_id for one in found.comparisons])
        cursor = found.cursor
        if not cursor:
            return pages


# --- one ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", KEPT)
async def test_one_that_does_not_agree_is_read_back_as_it_was(
    store: Store, result: Compared
) -> None:
    one = comparison(result=result, at=START + timedelta(microseconds=1))
    await store.shadows.compared([one])

    assert await page(store.shadows) == ComparisonPage([one], "")
    assert await page(store.shadows, result) == ComparisonPage([one], "")
    found = await tally(store.shadows)
    assert found == Tally(
        pair(), {**dict.fromkeys(Compared, 0), result: 1}, one.at, one.at, other_clauses=0
    )


async def test_what_agrees_is_counted_and_not_kept(store: Store) -> None:
    some = [comparison(f"a{n}", Compared.AGREES, other_clauses=n < 2) for n in range(5)]
    await store.shadows.compared(some)
    found = await tally(store.shadows)
    assert (found.counts[Compared.AGREES], found.other_clauses) == (5, 2)
    assert await page(store.shadows) == ComparisonPage([], "")


async def test_nothing_is_there_before_the_first(store: Store) -> None:
    await store.shadows.compared([])
    assert list(await store.shadows.tallies()) == []
    assert list(await store.shadows.tallies("rc_logs")) == []
    assert await page(store.shadows) == ComparisonPage([], "")


async def test_figures_that_json_does_not_have_are_kept_as_nothing(store: Store) -> None:
    one = comparison()
    odd = {**one.active, "clauses": [{**one.active["clauses"][0], "observed": float("nan")}]}
    await store.shadows.compared([one._replace(active=odd)])
    (found,) = (await page(store.shadows)).comparisons
    assert found.active["clauses"][0]["observed"] is None


# --- exactly once ---------------------------------------------------------------------------------


async def test_the_same_alert_counts_once_for_a_pair(store: Store) -> None:
    first = comparison("a", Compared.AGREES)
    await store.shadows.compared([first, first])
    await store.shadows.compared([comparison("a", Compared.DIFFERS, at=START + DAY)])
    found = await tally(store.shadows)
    assert found.counts == {**dict.fromkeys(Compared, 0), Compared.AGREES: 1}
    assert found.last_at == START
    assert await page(store.shadows) == ComparisonPage([], "")

    other = pair(shadow=3)
    await store.shadows.compared([comparison("a", of=other)])
    assert (await tally(store.shadows, other)).counts[Compared.DIFFERS] == 1


async def test_what_was_dropped_counts_every_time_and_leaves_nothing(store: Store) -> None:
    dropped = comparison("a", Compared.DROPPED)
    await store.shadows.compared([dropped] * 3)
    await store.shadows.compared([dropped, comparison("a", Compared.AGREES)])
    found = await tally(store.shadows)
    assert (found.counts[Compared.DROPPED], found.counts[Compared.AGREES]) == (4, 1)
    assert await page(store.shadows) == ComparisonPage([], "")


async def test_one_that_cannot_be_written_leaves_nothing_of_its_batch(store: Store) -> None:
    bad = comparison("b")._replace(active={"value": {1, 2}})
    with pytest.raises(TypeError):
        await store.shadows.compared([comparison("a"), bad])
    assert list(await store.shadows.tallies()) == []
    await store.shadows.compared([comparison("a")])
    assert (await tally(store.shadows)).counts[Compared.DIFFERS] == 1


# --- tallies --------------------------------------------------------------------------------------


async def test_times_are_of_the_first_and_the_last_in_whatever_order(store: Store) -> None:
    for number, seconds in enumerate([5, 2, 9, 1]):
        at = START + timedelta(seconds=seconds)
        result = Compared.AGREES if number % 2 else Compared.DIFFERS
        await store.shadows.compared([comparison(f"a{number}", result, at=at)])
    found = await tally(store.shadows)
    assert (found.first_at, found.last_at) == (
        START + timedelta(seconds=1),
        START + timedelta(seconds=9),
    )


async def test_pairs_are_by_content_and_the_newest_of_a_node_comes_first(store: Store) -> None:
    old, new = pair(shadow=2), pair(shadow=3)
    edited = new._replace(active_sha256="f" * 64)
    other = pair("a_node")
    for number, one in enumerate([old, other, edited, new]):
        at = START + timedelta(minutes=number)
        await store.shadows.compared([comparison(f"a{number}", of=one, at=at)])

    assert [one.pair for one in await store.shadows.tallies()] == [other, new, edited, old]
    assert [one.pair for one in await store.shadows.tallies("rc_logs")] == [new, edited, old]
    await store.shadows.compared([comparison("again", of=old, at=START + DAY)])
    assert [one.pair for one in await store.shadows.tallies("rc_logs")] == [old, new, edited]
    assert list(await store.shadows.tallies("' OR 1=1 --")) == []


# --- pages ----------------------------------------------------------------------------------------


async def test_pages_walk_all_that_are_kept_once_newest_first(store: Store) -> None:
    expected: list[tuple[int, str, Compared]] = []
    some: list[Comparison] = []
    for number in range(22):
        second = number // 4  # several in the same microsecond
        result = [Compared.AGREES, *KEPT][number % 4]
        some.append(comparison(f"a{number:02}", result, at=START + timedelta(seconds=second)))
        if result is not Compared.AGREES:
            expected.append((second, f"a{number:02}", result))
    await store.shadows.compared(some)
    await store.shadows.compared([comparison("else", of=pair("other"))])
    expected.sort(reverse=True)

    pages = await walk(store.shadows, limit=4)
    assert [one for found in pages for one in found] == [alert for _, alert, _ in expected]
    assert [len(found) for found in pages] == [4, 4, 4, 4]
    for result in KEPT:
        pages = await walk(store.shadows, result, limit=3)
        assert [one for found in pages for one in found] == [
            alert for _, alert, kind in expected if kind is result
        ]
    assert await walk(store.shadows, Compared.AGREES, limit=3) == [[]]


async def test_a_cursor_of_another_store_or_list_is_refused(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    other = await make_store.elsewhere(clock=clock)
    second = pair("other")
    for log in (store.shadows, other.shadows):
        await log.compared([comparison(f"a{n}") for n in range(3)])
        await log.compared([comparison(f"b{n}", of=second) for n in range(3)])
    for name in "ab":
        [accepted] = await store.alerts.accept([arrival(name)])
        assert accepted.alert_id is not None
        await store.decisions.commit(decision(accepted.alert_id), {}, ())
    mine = (await page(store.shadows, limit=1)).cursor
    for bad in (
        (await page(other.shadows, limit=1)).cursor,
        (await page(store.shadows, Compared.DIFFERS, limit=1)).cursor,
        (await page(store.shadows, of=second, limit=1)).cursor,
        (await store.decisions.page(DecisionFilter(), cursor="", limit=1)).cursor,
        mine[:-4],
        "x",
        "é",
    ):
        assert bad
        with pytest.raises(PayloadError) as refused:
            await page(store.shadows, cursor=bad)
        assert refused.value.field == "cursor"
    assert len((await page(store.shadows, cursor=mine)).comparisons) == 2


async def test_a_page_has_bounds_of_its_own(store: Store) -> None:
    await store.shadows.compared([comparison("a"), comparison("b")])
    for limit, shown in ((-5, 1), (0, 1), (1, 1), (10**9, 2)):
        found = await page(store.shadows, limit=limit)
        assert len(found.comparisons) == shown
        assert bool(found.cursor) is (shown == 1)


# --- replicas, and beside a daemon ----------------------------------------------------------------


@pytest.mark.parametrize("make_store", ["postgres"], indirect=True)
async def test_replicas_count_the_same_pair_at_once(
    make_store: StoreMaker, clock: HandClock
) -> None:
    stores = [await make_store(clock=clock) for _ in range(3)]
    own = [
        [comparison(f"own-{n}-{m}", Compared.AGREES) for m in range(20)]
        for n, _ in enumerate(stores)
    ]
    shared = [comparison(f"shared-{m}") for m in range(20)]
    # In both orders, and each alone: what one locks first, another one locks last.
    await asyncio.gather(
        *(store.shadows.compared(own[n]) for n, store in enumerate(stores)),
        stores[0].shadows.compared(shared),
        *(stores[1].shadows.compared([one]) for one in reversed(shared)),
        stores[2].shadows.compared(list(reversed(shared))),
        *(store.shadows.compared([comparison("x", Compared.DROPPED)]) for store in stores),
    )
    found = await tally(stores[1].shadows)
    assert found.counts == {
        Compared.AGREES: 60,
        Compared.DIFFERS: 20,
        Compared.UNRECORDED: 0,
        Compared.FAILED: 0,
        Compared.DROPPED: 3,
    }
    assert len((await page(stores[2].shadows)).comparisons) == 20
    found_shards = query(make_store, "SELECT DISTINCT shard FROM shadow_tallies")
    assert {shard for (shard,) in found_shards} == {1, 2, 3}


async def test_comparing_keeps_nobody_from_committing(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    ids = []
    for n in range(40):
        [accepted] = await store.alerts.accept([arrival(f"f{n}")])
        assert accepted.alert_id is not None
        ids.append(accepted.alert_id)
    await asyncio.gather(
        *(store.decisions.commit(decision(one), {}, ()) for one in ids),
        *(store.shadows.compared([comparison(one, Compared.AGREES)]) for one in ids),
    )
    assert (await tally(store.shadows)).counts[Compared.AGREES] == 40
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.decided, ledger.balances) == (40, True)


async def test_a_reader_compares_nothing(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    await store.shadows.compared([comparison()])
    reader = await make_store(clock=clock, exclusive=False)
    assert (await tally(reader.shadows)).counts[Compared.DIFFERS] == 1
    with pytest.raises(StoreError, match="not open for writing"):
        await reader.shadows.compared([comparison("b")])


# --- retention ------------------------------------------------------------------------------------


async def test_comparisons_go_with_the_age_of_decisions_and_counts_stay(
    store: Store, make_store: StoreMaker
) -> None:
    for n in range(4):
        result = Compared.AGREES if n % 2 else Compared.DIFFERS
        await store.shadows.compared([comparison(f"a{n}", result, at=START + n * DAY)])
    purged = await store.retention.purge(older_than=START + 2 * DAY, max_bytes=None)

    assert purged == Purged(comparisons=2)
    assert purged.anything
    assert [one.alert_id for one in (await page(store.shadows)).comparisons] == ["a2"]
    found = await tally(store.shadows)
    assert (found.counts[Compared.AGREES], found.counts[Compared.DIFFERS]) == (2, 2)
    assert count(make_store, "shadow_comparisons") == 2
    assert await store.retention.purge(older_than=START, max_bytes=None) == Purged()


async def test_a_rare_result_stays_while_its_pair_is_compared(
    store: Store, make_store: StoreMaker
) -> None:
    gone = pair("gone")
    await store.shadows.compared(
        [comparison("old"), comparison("new", Compared.AGREES, at=START + 9 * DAY)]
    )
    await store.shadows.compared([comparison("old", of=gone)])
    await store.retention.purge(older_than=START + 5 * DAY, max_bytes=None)

    (found,) = await store.shadows.tallies()
    assert found.pair == pair()
    assert (found.counts[Compared.DIFFERS], found.counts[Compared.AGREES]) == (1, 1)


async def test_for_size_comparisons_as_old_as_the_decisions_go_too(
    store: Store, clock: HandClock
) -> None:
    [accepted] = await store.alerts.accept([replace(arrival("f"), raw=b"x" * 9_000)])
    assert accepted.alert_id is not None
    await store.shadows.compared([comparison("before", at=clock.now())])
    clock.advance(60)
    await store.decisions.commit(decision(accepted.alert_id), {}, ())
    await store.shadows.compared([comparison("after", at=clock.now() + DAY)])
    clock.advance(3 * DAY.total_seconds())

    purged = await store.retention.purge(older_than=START, max_bytes=1)
    assert (purged.decisions, purged.comparisons) == (1, 1)
    assert [one.alert_id for one in (await page(store.shadows)).comparisons] == ["after"]
