"""Decisions, evidence, outbox, dead letters and the ledger over them."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta
from typing import Any

import orjson
import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_world import START, HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.errors import PayloadError, StoreError
from triage.model.alert import AlertId
from triage.model.decision import Outcome, decision_document
from triage.ports import CommitStatus, DecisionFilter, Message


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


async def test_a_decision_is_read_back_as_it_was_committed(store: Store, clock: HandClock) -> None:
    alert_id = await accepted(store)
    assert await store.decisions.get(alert_id) == {"status": "pending"}
    clock.advance(3)
    made = decision(alert_id)

    assert await store.decisions.commit(made, {}, ()) is CommitStatus.COMMITTED

    document = orjson.loads(orjson.dumps(decision_document(made)))
    assert await store.decisions.get(alert_id) == {
        **document,
        "decided_at": clock.now().isoformat(),
        "accepted_to_decided_ms": 3000.0,
    }
    assert await store.decisions.get(AlertId("unheard")) is None


async def test_the_first_decision_wins(store: Store) -> None:
    alert_id = await accepted(store)
    first, second = (
        decision(alert_id, outcome) for outcome in (Outcome.NO_FAULT, Outcome.ESCALATE)
    )
    message = Message(sink="hook", key="k", body=b"1")

    won, lost = await asyncio.gather(
        store.decisions.commit(first, {"d": b"x"}, [message]),
        store.decisions.commit(second, {"e": b"y"}, [Message(sink="hook", key="j", body=b"2")]),
    )

    assert won is CommitStatus.COMMITTED
    assert lost is CommitStatus.ALREADY_DECIDED
    stored = await store.decisions.get(alert_id)
    assert stored is not None
    assert stored["outcome"] == "no_fault"
    assert await store.decisions.evidence("e") is None
    due = await store.outbox.due("hook", now=START, limit=10)
    assert [(row.key, row.body) for row in due] == [("k", b"1")]
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.decided, ledger.pending, ledger.balances) == (1, 0, True)


async def test_a_resolve_that_is_durable_first_suppresses_the_decision(store: Store) -> None:
    alert_id = await accepted(store)
    await store.alerts.accept([resolve()])

    late = await store.decisions.commit(
        decision(alert_id, Outcome.ACTIONS), {"d": b"x"}, [Message(sink="h", key="k", body=b"")]
    )
    assert late is CommitStatus.RESOLVED_MEANWHILE
    assert await store.decisions.get(alert_id) == {"status": "pending"}
    assert await store.decisions.evidence("d") is None
    assert await store.outbox.due("h", now=START, limit=1) == []

    resolved = await store.decisions.commit(decision(alert_id, Outcome.RESOLVED), {}, ())
    assert resolved is CommitStatus.COMMITTED


async def test_a_decision_about_nothing_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="never accepted"):
        await store.decisions.commit(decision(AlertId("unheard")), {}, ())
    assert (await store.ledger.ledger(full=True)).balances


async def test_a_failing_operation_leaves_its_batch_unharmed(store: Store) -> None:
    ids = [await accepted(store, f"f{n}") for n in range(5)]
    ids.insert(2, AlertId("unheard"))

    results = await asyncio.gather(
        *(store.decisions.commit(decision(alert_id), {}, ()) for alert_id in ids),
        return_exceptions=True,
    )

    assert [isinstance(result, StoreError) for result in results] == [
        alert_id == "unheard" for alert_id in ids
    ]
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.decided, ledger.pending, ledger.balances) == (5, 0, True)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_every_order_of_fire_resolve_and_two_commits_ends_with_one_decision(
    store: Store, order: tuple[int, ...]
) -> None:
    """Whoever is told of a resolve commits again as `resolved`, as the worker does."""
    alert_id = await accepted(store)
    other = decision(alert_id, Outcome.ACTIONS)

    async def commit() -> None:
        if await store.decisions.commit(other, {}, ()) is CommitStatus.RESOLVED_MEANWHILE:
            await store.decisions.commit(decision(alert_id, Outcome.RESOLVED), {}, ())

    async def fire() -> None:
        await store.alerts.accept([arrival()])

    async def end() -> None:
        await store.alerts.accept([resolve()])

    steps = (fire, end, commit, commit)
    await asyncio.gather(*(steps[which]() for which in order))

    stored = await store.decisions.get(alert_id)
    assert stored is not None
    resolved_first = order.index(1) < min(order.index(2), order.index(3))
    assert stored["outcome"] == ("resolved" if resolved_first else "actions")
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.accepted, ledger.decided, ledger.balances) == (1, 1, True)


async def test_dead_letters_leave_the_pending_once(store: Store) -> None:
    alert_id = await accepted(store)

    assert await store.alerts.dead_letter(alert_id, "crashed", "five times \ud800")
    assert not await store.alerts.dead_letter(alert_id, "crashed", "six times")
    assert not await store.alerts.dead_letter(AlertId("unheard"), "crashed", "")

    assert await store.decisions.get(alert_id) == {"status": "dead_lettered"}
    status = await store.decisions.commit(decision(alert_id), {}, ())
    assert status is CommitStatus.ALREADY_DECIDED
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.pending, ledger.dead_lettered, ledger.balances) == (0, 1, True)


async def test_attempts_are_counted_while_pending(store: Store) -> None:
    alert_id = await accepted(store)
    attempts = []
    for _ in range(3):
        stored = await store.alerts.begin_attempt(alert_id)
        assert stored is not None
        attempts.append(stored.attempts)
    await store.decisions.commit(decision(alert_id), {}, ())
    decided = await store.alerts.begin_attempt(alert_id)

    assert attempts == [0, 1, 2]
    assert decided is not None
    assert (decided.status, decided.attempts) == ("decided", 3)
    assert await store.alerts.begin_attempt(AlertId("unheard")) is None


async def test_pages_walk_all_decisions_newest_first(store: Store, clock: HandClock) -> None:
    expected = []
    for n in range(23):
        clock.advance(n % 3)  # several in the same microsecond
        alert_id = await accepted(store, f"f{n}")
        await store.decisions.commit(decision(alert_id), {}, ())
        expected.append((clock.now().isoformat(), alert_id))
    expected.sort(reverse=True)

    seen: list[tuple[str, str]] = []
    page = await store.decisions.page(DecisionFilter(), cursor="", limit=5)
    pages = [page]
    while page.cursor:
        page = await store.decisions.page(DecisionFilter(), cursor=page.cursor, limit=5)
        pages.append(page)
    for page in pages:
        seen += [(head["decided_at"], head["alert_id"]) for head in page.decisions]

    assert seen == expected
    assert [len(page.decisions) for page in pages] == [5, 5, 5, 5, 3]
    assert "nodes" not in page.decisions[0]
    assert page.decisions[0]["outcome"] == "no_fault"


async def test_pages_are_filtered(store: Store, clock: HandClock) -> None:
    async def decide(name: str, **what: Any) -> None:
        clock.advance(1)
        await store.decisions.commit(decision(await accepted(store, name), **what), {}, ())

    await decide("a")
    await decide("b", outcome=Outcome.ESCALATE)
    await decide("c", site="south")
    await decide("d", alarm="al_other", site="south")
    since = START + timedelta(seconds=2)

    async def count(wanted: DecisionFilter) -> int:
        return len((await store.decisions.page(wanted, cursor="", limit=100)).decisions)

    assert await count(DecisionFilter()) == 4
    assert await count(DecisionFilter(outcome="escalate")) == 1
    assert await count(DecisionFilter(site="south")) == 2
    assert await count(DecisionFilter(site="south", alarm="al_other")) == 1
    assert await count(DecisionFilter(site="' OR 1=1 --")) == 0
    assert await count(DecisionFilter(since=since)) == 3
    assert await count(DecisionFilter(since=since, until=START + timedelta(seconds=4))) == 2


async def test_a_cursor_of_someone_else_is_refused(
    store: Store, make_store: StoreMaker, clock: HandClock
) -> None:
    for n in range(2):
        await store.decisions.commit(decision(await accepted(store, f"f{n}")), {}, ())
    own = (await store.decisions.page(DecisionFilter(), cursor="", limit=1)).cursor
    other = await make_store.elsewhere(clock=clock)
    with pytest.raises(PayloadError) as refused:
        await other.decisions.page(DecisionFilter(), cursor=own, limit=1)
    assert refused.value.field == "cursor"

    flipped = ("A" if own[0] != "A" else "B") + own[1:]
    for bad in (flipped, own[:-4], "x", "é", "\x00", own * 2, "=" * 40):
        with pytest.raises(PayloadError):
            await store.decisions.page(DecisionFilter(), cursor=bad, limit=1)


async def test_evidence_is_kept_once_and_purged_by_age_then_size(
    store: Store, clock: HandClock
) -> None:
    noise = random.Random(7)
    bodies = {f"d{n}": noise.randbytes(1000) for n in range(6)}
    for n, (digest, body) in enumerate(bodies.items()):
        clock.advance(7200)
        alert_id = await accepted(store, f"f{n}")
        await store.decisions.commit(decision(alert_id), {digest: body, "d0": bodies["d0"]}, ())

    for digest, body in bodies.items():
        assert await store.decisions.evidence(digest) == body
    horizon = START + timedelta(seconds=7200 * 2) + timedelta(microseconds=1)
    assert await store.retention.purge_evidence(older_than=horizon, max_bytes=10**6) == 1
    kept = [d for d in bodies if await store.decisions.evidence(d) is not None]
    assert kept == ["d0", "d2", "d3", "d4", "d5"]  # d0 was used last of all

    assert await store.retention.purge_evidence(older_than=START, max_bytes=2500) == 3
    kept = [d for d in bodies if await store.decisions.evidence(d) is not None]
    assert len(kept) == 2
    assert await store.retention.purge_evidence(older_than=START, max_bytes=2500) == 0
    assert (await store.ledger.ledger(full=True)).balances


async def test_large_evidence_is_kept_like_any_other(store: Store) -> None:
    body = random.Random(1).randbytes(1_000_000)
    alert_id = await accepted(store)
    assert await store.decisions.commit(decision(alert_id), {"d": body}, ()) == "committed"
    assert await store.decisions.evidence("d") == body


async def test_the_outbox_sends_each_row_until_it_is_settled(
    store: Store, clock: HandClock
) -> None:
    alert_id = await accepted(store)
    messages = [Message(sink="hook", key=f"k{n}", body=b"\x00\xff%d" % n) for n in range(3)]
    elsewhere = Message(sink="file", key="k0", body=b"f")
    await store.decisions.commit(decision(alert_id), {}, [*messages, messages[0], elsewhere])

    first, second, third = await store.outbox.due("hook", now=clock.now(), limit=10)
    assert (first.alert_id, first.key, first.body) == (alert_id, "k0", b"\x00\xff0")
    assert (await store.ledger.ledger()).outbox_pending == 4

    later = clock.now() + timedelta(seconds=30)
    await store.outbox.delivered([first.row])
    await store.outbox.delivered([first.row])
    await store.outbox.postpone(second.row, until=later, error="503")
    await store.outbox.give_up(third.row, error="410 \ud800")
    await store.outbox.give_up(first.row, error="too late")

    assert await store.outbox.due("hook", now=clock.now(), limit=10) == []
    [again] = await store.outbox.due("hook", now=later, limit=10)
    assert (again.row, again.attempts) == (second.row, 1)
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.outbox_pending, ledger.outbox_given_up) == (2, 1)
    assert ledger.balances


async def test_the_oldest_pending_alert_is_known(store: Store, clock: HandClock) -> None:
    assert (await store.ledger.ledger()).oldest_pending_at is None
    oldest = await accepted(store, "a")
    clock.advance(60)
    await accepted(store, "b")
    assert (await store.ledger.ledger()).oldest_pending_at == START
    await store.decisions.commit(decision(oldest), {}, ())
    assert (await store.ledger.ledger()).oldest_pending_at == clock.now()
