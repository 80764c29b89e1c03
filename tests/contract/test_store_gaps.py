"""Gaps: written once with their decision, grouped, counted, closed, opened again, paged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.gap_world import gap
from tests.contract.store_world import START, HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.errors import PayloadError, StoreError
from triage.model.alert import AlertId
from triage.model.decision import Outcome
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS, Gap
from triage.ports import CommitStatus, DecisionFilter, GapGroup, GapLog


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


async def accepted(store: Store, fingerprint: str = "f") -> AlertId:
    [answer] = await store.alerts.accept([arrival(fingerprint)])
    assert answer.alert_id is not None
    return answer.alert_id


async def leave(store: Store, name: str, *nodes: str, at: datetime = START) -> list[Gap]:
    """The gaps of one alert that was decided."""
    alert_id = await accepted(store, name)
    gaps = [gap(alert_id, node, at=at) for node in nodes]
    assert await store.decisions.commit(decision(alert_id), {}, (), gaps) == "committed"
    return gaps


async def listed(log: GapLog, *, closed: bool = False, node: str = "") -> Sequence[GapGroup]:
    page = await log.gap_page(closed=closed, node=node, cursor="", limit=100)
    assert page.cursor == ""
    return page.gaps


async def group(store: Store, gap_id: str) -> GapGroup:
    found = await store.gaps.gap(gap_id)
    assert found is not None
    return found


# --- written with the decision --------------------------------------------------------------------


async def test_a_gap_is_read_back_as_it_was_left(store: Store) -> None:
    at = START + timedelta(microseconds=1)
    (left,) = await leave(store, "f", "rc_logs", at=at)

    (found,) = await listed(store.gaps)
    assert found == GapGroup(
        gap_id=left.gap_id,
        node=left.node,
        reason="tool_raised",
        tool_version=3,
        tool_sha256=left.tool_sha256,
        count=1,
        first_at=at,
        last_at=at,
        closed_at=None,
        closed_by="",
        note="",
        latest=left,
    )
    assert await store.gaps.gap(left.gap_id) == found
    assert await store.gaps.gap_cases(left.gap_id, limit=10) == [left]
    assert await store.gaps.open_gaps() == 1


async def test_nothing_is_there_before_the_first(store: Store) -> None:
    await leave(store, "f")
    assert await listed(store.gaps) == await listed(store.gaps, closed=True) == ()
    assert await store.gaps.gap("0" * 12) is None
    assert await store.gaps.gap_cases("0" * 12, limit=10) == []
    assert await store.gaps.open_gaps() == 0
    assert not await store.gaps.close_gap("0" * 12, by="ann", note="", at=START)


async def test_cases_of_a_kind_are_grouped_and_counted(store: Store) -> None:
    """In whatever order they are committed: the times are those of the attempts."""
    seconds = [5, 2, 9, 9, 1]
    for number, second in enumerate(seconds):
        at = START + timedelta(seconds=second)
        await leave(store, f"f{number}", "rc_logs", "rc_disk", at=at)

    found = await listed(store.gaps)
    assert sorted(one.node for one in found) == ["rc_disk", "rc_logs"]
    for one in found:
        assert one.count == 5
        assert one.first_at == START + timedelta(seconds=1)
        assert one.last_at == START + timedelta(seconds=9)
        assert one.latest.at == one.last_at
        cases = await store.gaps.gap_cases(one.gap_id, limit=10)
        assert [case.at for case in cases] == sorted((case.at for case in cases), reverse=True)
        assert len({case.alert_id for case in cases}) == 5
        newest = await store.gaps.gap_cases(one.gap_id, limit=2)
        assert newest == cases[:2]
    assert await store.gaps.open_gaps() == 2


async def test_another_tool_or_reason_is_another_kind(store: Store) -> None:
    alert_id = await accepted(store)
    kinds = [
        gap(alert_id),
        gap(alert_id, "other"),
        gap(alert_id, reason="tool_missing"),
        gap(alert_id, tool_sha256="cd" * 32),
    ]
    await store.decisions.commit(decision(alert_id), {}, (), kinds)
    assert {one.gap_id for one in await listed(store.gaps)} == {one.gap_id for one in kinds}
    assert len(kinds) == await store.gaps.open_gaps() == 4


async def test_the_same_source_as_another_version_is_the_same_kind(store: Store) -> None:
    for name, version, second in (("a", 3, 0), ("b", 5, 1), ("c", 4, -1)):
        alert_id = await accepted(store, name)
        at = START + timedelta(seconds=second)
        left = gap(alert_id, tool_version=version, at=at)
        await store.decisions.commit(decision(alert_id), {}, (), [left])
    (found,) = await listed(store.gaps)
    assert (found.count, found.tool_version) == (3, 5)


# --- exactly once ---------------------------------------------------------------------------------


async def test_only_the_decision_that_wins_leaves_its_gaps(store: Store) -> None:
    alert_id = await accepted(store)
    won, lost = await asyncio.gather(
        store.decisions.commit(decision(alert_id), {}, (), [gap(alert_id, "won")]),
        store.decisions.commit(decision(alert_id), {}, (), [gap(alert_id, "lost")]),
    )
    assert (won, lost) == (CommitStatus.COMMITTED, CommitStatus.ALREADY_DECIDED)
    again = await store.decisions.commit(decision(alert_id), {}, (), [gap(alert_id, "won")])
    assert again is CommitStatus.ALREADY_DECIDED

    (found,) = await listed(store.gaps)
    assert (found.node, found.count) == ("won", 1)


async def test_a_gap_that_is_told_twice_in_one_decision_counts_once(store: Store) -> None:
    alert_id = await accepted(store)
    twice = [gap(alert_id), gap(alert_id)]
    await store.decisions.commit(decision(alert_id), {}, (), twice)
    assert [one.count for one in await listed(store.gaps)] == [1]


async def test_a_resolve_that_comes_first_leaves_them_to_the_next_commit(store: Store) -> None:
    alert_id = await accepted(store)
    left = [gap(alert_id)]
    await store.alerts.accept([resolve()])

    late = await store.decisions.commit(decision(alert_id, Outcome.ACTIONS), {}, (), left)
    assert late is CommitStatus.RESOLVED_MEANWHILE
    assert await store.gaps.open_gaps() == 0
    await store.decisions.commit(decision(alert_id, Outcome.RESOLVED), {}, (), left)
    assert [one.count for one in await listed(store.gaps)] == [1]


async def test_a_commit_that_fails_leaves_none(store: Store) -> None:
    unheard = AlertId("unheard")
    ids = [await accepted(store, f"f{n}") for n in range(3)]
    results = await asyncio.gather(
        *(store.decisions.commit(decision(one), {}, (), [gap(one)]) for one in [*ids, unheard]),
        return_exceptions=True,
    )
    assert [isinstance(result, StoreError) for result in results] == [False] * 3 + [True]
    (found,) = await listed(store.gaps)
    cases = await store.gaps.gap_cases(found.gap_id, limit=10)
    assert {case.alert_id for case in cases} == set(ids)
    assert found.count == 3


# --- closing --------------------------------------------------------------------------------------


async def test_a_gap_is_closed_once(store: Store) -> None:
    (left, other) = await leave(store, "f", "rc_logs", "rc_disk")
    at = START + timedelta(minutes=1)

    assert await store.gaps.close_gap(left.gap_id, by=" ann\x1b ", note="made\n a tool", at=at)
    assert not await store.gaps.close_gap(left.gap_id, by="bob", note="me too", at=at)

    closed = await group(store, left.gap_id)
    assert (closed.closed_at, closed.closed_by, closed.note) == (at, "ann\x1b", "made a tool")
    assert closed.count == 1
    assert await listed(store.gaps, closed=True) == (closed,)
    assert [one.gap_id for one in await listed(store.gaps)] == [other.gap_id]
    assert await store.gaps.open_gaps() == 1


async def test_a_gap_that_comes_back_is_open_again_and_keeps_its_history(store: Store) -> None:
    (left,) = await leave(store, "a", "rc_logs")
    first, second = START + timedelta(hours=1), START + timedelta(hours=2)
    await store.gaps.close_gap(left.gap_id, by="ann", note="made a tool", at=first)
    await leave(store, "b", "rc_logs", at=first + timedelta(microseconds=1))

    again = await group(store, left.gap_id)
    assert (again.count, again.closed_at, again.closed_by) == (2, None, "")
    assert again.note == f"closed {first.isoformat()} by ann: made a tool"
    assert await store.gaps.open_gaps() == 1

    assert await store.gaps.close_gap(left.gap_id, by="bob", note="mended it", at=second)
    assert (await group(store, left.gap_id)).note == f"mended it\n{again.note}"
    await leave(store, "c", "rc_logs", at=second + timedelta(hours=1))
    assert (await group(store, left.gap_id)).note.split("\n") == [
        f"closed {second.isoformat()} by bob: mended it",
        f"closed {first.isoformat()} by ann: made a tool",
    ]


async def test_a_case_from_before_the_closing_is_counted_and_opens_nothing(store: Store) -> None:
    """An attempt in the slow lane may end long after the tool was mended and the gap closed."""
    (left,) = await leave(store, "a", "rc_logs")
    at = START + timedelta(minutes=1)
    await store.gaps.close_gap(left.gap_id, by="ann", note="", at=at)
    await leave(store, "b", "rc_logs", at=at)

    found = await group(store, left.gap_id)
    assert (found.count, found.closed_at, found.last_at) == (2, at, at)
    assert await store.gaps.open_gaps() == 0


async def test_what_is_noted_is_bounded_however_often_it_is_closed(store: Store) -> None:
    (left,) = await leave(store, "f", "rc_logs")
    at = START
    for number in range(12):
        at += timedelta(hours=1)
        await store.gaps.close_gap(left.gap_id, by="b" * 999, note=f"{number}" * 9_999, at=at)
        await leave(store, f"f{number}", "rc_logs", at=at + timedelta(minutes=1))
    found = await group(store, left.gap_id)
    assert found.count == 13
    assert len(found.note) <= 4 * NOTE_CHARS
    newest = found.note.split("\n")[0]
    assert newest.startswith(f"closed {at.isoformat()} by {'b' * CLOSED_BY_CHARS}: 1111")


async def test_text_that_no_database_takes_can_be_noted(store: Store) -> None:
    (left,) = await leave(store, "f", "rc_logs")
    assert await store.gaps.close_gap(left.gap_id, by="\ud800", note="\udfff é", at=START)
    assert (await group(store, left.gap_id)).note == "? é"


# --- pages ----------------------------------------------------------------------------------------


async def walk(log: GapLog, *, closed: bool, node: str = "", limit: int = 4) -> list[list[str]]:
    pages, cursor = [], ""
    while True:
        page = await log.gap_page(closed=closed, node=node, cursor=cursor, limit=limit)
        pages.append([one.gap_id for one in page.gaps])
        cursor = page.cursor
        if not cursor:
            return pages


async def test_pages_walk_every_gap_once_newest_first(store: Store) -> None:
    last: list[tuple[datetime, str]] = []
    for number in range(11):
        at = START + timedelta(seconds=number // 3)  # several in the same microsecond
        last += [(at, one.gap_id) for one in await leave(store, f"f{number}", f"n{number}", at=at)]
    expected = [gap_id for _, gap_id in sorted(last, reverse=True)]

    pages = await walk(store.gaps, closed=False)
    assert [gap_id for page in pages for gap_id in page] == expected
    assert [len(page) for page in pages] == [4, 4, 3]
    assert await walk(store.gaps, closed=True) == [[]]

    order = expected[1::2]
    for number, gap_id in enumerate(order):
        at = START + timedelta(days=1, seconds=number // 2)
        await store.gaps.close_gap(gap_id, by="ann", note="", at=at)
    closed = [gap_id for page in await walk(store.gaps, closed=True, limit=2) for gap_id in page]
    pairs = [(number // 2, gap_id) for number, gap_id in enumerate(order)]
    assert closed == [gap_id for _, gap_id in sorted(pairs, reverse=True)]
    left = [gap_id for page in await walk(store.gaps, closed=False, limit=1) for gap_id in page]
    assert left == expected[::2]


async def test_pages_of_one_node(store: Store) -> None:
    ids = []
    for number in range(5):
        alert_id = await accepted(store, f"f{number}")
        one = gap(alert_id, "rc_logs", tool_sha256=f"{number}", at=START)
        ids.append(one.gap_id)
        gaps = [one, gap(alert_id, f"other{number}")]
        await store.decisions.commit(decision(alert_id), {}, (), gaps)
    pages = await walk(store.gaps, closed=False, node="rc_logs", limit=2)
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [gap_id for page in pages for gap_id in page] == sorted(ids, reverse=True)
    assert await listed(store.gaps, node="' OR 1=1 --") == ()
    await store.gaps.close_gap(ids[0], by="ann", note="", at=START)
    assert [one.gap_id for one in await listed(store.gaps, closed=True, node="rc_logs")] == ids[:1]
    assert await listed(store.gaps, closed=True, node="other0") == ()


async def test_a_cursor_of_another_store_or_list_is_refused(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    for name in "abc":
        await leave(store, name, name)
    page = await store.gaps.gap_page(closed=False, node="", cursor="", limit=1)
    decisions = await store.decisions.page(DecisionFilter(), cursor="", limit=1)
    other = await make_store.elsewhere(clock=clock)
    for name in "ab":
        await leave(other, name, name)
    foreign = await other.gaps.gap_page(closed=False, node="", cursor="", limit=1)
    assert page.cursor
    assert foreign.cursor
    for closed, bad in (
        (False, foreign.cursor),
        (True, page.cursor),
        (False, decisions.cursor),
        (False, page.cursor[:-4]),
        (False, "x"),
        (False, "é"),
    ):
        with pytest.raises(PayloadError) as refused:
            await store.gaps.gap_page(closed=closed, node="", cursor=bad, limit=1)
        assert refused.value.field == "cursor"


async def test_a_page_has_bounds_of_its_own(store: Store) -> None:
    await leave(store, "f", "a", "b")
    for limit, shown in ((-5, 1), (0, 1), (1, 1), (10**9, 2)):
        page = await store.gaps.gap_page(closed=False, node="", cursor="", limit=limit)
        assert len(page.gaps) == shown
        assert bool(page.cursor) is (shown == 1)


# --- beside a daemon ------------------------------------------------------------------------------


async def test_gaps_are_closed_beside_the_daemon_that_goes_on_committing(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    """The database puts both writers in a row; neither sees half of what the other did."""
    ids = [(await leave(store, f"f{n}", f"n{n}"))[0].gap_id for n in range(6)]
    stopped = asyncio.Event()

    async def commit(worker: int) -> int:
        number = 0
        while not stopped.is_set():
            await leave(store, f"w{worker}-{number}", "busy")
            number += 1
        return number

    working = [asyncio.create_task(commit(worker)) for worker in range(8)]
    for gap_id in ids:
        beside = await make_store(clock=clock, exclusive=False, changes=True)
        assert await beside.gaps.close_gap(gap_id, by="ann", note="", at=clock.now())
        with pytest.raises(StoreError, match="not open for writing"):
            await beside.alerts.accept([arrival("from beside")])
        await beside.close()
    stopped.set()
    committed = sum(await asyncio.gather(*working))

    assert {one.gap_id for one in await listed(store.gaps, closed=True)} == set(ids)
    (busy,) = await listed(store.gaps)
    assert busy.count == committed
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.decided, ledger.balances) == (committed + 6, True)
    assert store.trouble == ""


async def test_a_reader_closes_nothing(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    (left,) = await leave(store, "f", "rc_logs")
    reader = await make_store(clock=clock, exclusive=False)
    assert await reader.gaps.open_gaps() == 1
    with pytest.raises(StoreError, match="not open for writing"):
        await reader.gaps.close_gap(left.gap_id, by="ann", note="", at=START)
    assert await store.gaps.open_gaps() == 1
