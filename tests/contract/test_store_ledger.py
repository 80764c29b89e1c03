"""A full count of the ledger finds what does not belong together, also where the counts agree."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_rows import change
from tests.contract.store_world import START, HandClock, arrival, decision
from triage.adapters.store import Store
from triage.model.alert import AlertId, Severity
from triage.ports import Backlog, DeadLetter, Message

IDS = ("decided", "dead", "pending", "discarded")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


def message(dead_letter_id: str = "m1") -> DeadLetter:
    return DeadLetter(
        dead_letter_id=dead_letter_id,
        stream="orders",
        format="native",
        payload=b"\x00{",
        reason="payload",
        detail="no JSON",
        attempts=1,
        at=START,
    )


@pytest.fixture
async def alerts(store: Store) -> dict[str, AlertId]:
    """One of each status; beside them a dead message."""
    found: dict[str, AlertId] = {}
    for name in IDS:
        [answer] = await store.alerts.accept([arrival(name)])
        assert answer.alert_id is not None
        found[name] = answer.alert_id
    await store.decisions.commit(decision(found["decided"]), {}, ())
    for name in ("dead", "discarded"):
        await store.alerts.dead_letter(found[name], "attempts_used_up", "")
    await store.dead_letters.discard(found["discarded"], by="ann", note="", at=START)
    await store.dead_letters.bury(message())
    return found


async def test_what_belongs_together_balances(store: Store, alerts: dict[str, AlertId]) -> None:
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances
    assert ledger.accepted == 5
    assert (ledger.decided, ledger.dead_lettered, ledger.pending) == (1, 2, 1)
    assert (ledger.discarded, ledger.purged) == (1, 0)
    assert ledger == await store.ledger.ledger()


async def test_an_empty_store_balances(store: Store) -> None:
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances
    assert ledger == await store.ledger.ledger()
    assert (ledger.accepted, ledger.backlog, ledger.oldest_pending_at) == (0, {}, None)


async def test_the_backlog_is_known_by_priority(store: Store, clock: HandClock) -> None:
    severities = (Severity.WARNING, Severity.UNKNOWN, Severity.CRITICAL, Severity.INFO)
    ids = []
    for n, severity in enumerate(severities):
        [answer] = await store.alerts.accept([arrival(f"f{n}", severity=severity)])
        ids.append(answer.alert_id)
        clock.advance(60)
    assert ids[-1] is not None
    await store.decisions.commit(decision(ids[-1]), {}, ())

    ledger = await store.ledger.ledger()

    assert ledger.backlog == {
        "critical": Backlog(pending=1, oldest_at=START + timedelta(seconds=120)),
        "warning": Backlog(pending=2, oldest_at=START),
    }
    assert ledger.oldest_pending_at == START
    assert (await store.ledger.ledger(full=True)).backlog == ledger.backlog


@pytest.mark.parametrize(
    ("table", "belongs_to", "moved_to"),
    [
        ("decisions", "decided", "pending"),
        ("decisions", "decided", "dead"),
        ("decisions", "decided", "discarded"),
        ("dead_letters", "dead", "pending"),
        ("dead_letters", "dead", "decided"),
        ("dead_letters", "dead", "discarded"),
    ],
)
async def test_a_row_that_moved_to_another_alert_is_named(
    store: Store,
    make_store: StoreMaker,
    alerts: dict[str, AlertId],
    table: str,
    belongs_to: str,
    moved_to: str,
) -> None:
    moved = change(
        make_store,
        f"UPDATE {table} SET alert_id = :to WHERE alert_id = :its",  # noqa: S608 - ours
        to=alerts[moved_to],
        its=alerts[belongs_to],
    )
    assert moved == 1

    ledger = await store.ledger.ledger(full=True)

    assert sorted(ledger.unaccounted) == sorted([alerts[belongs_to], alerts[moved_to]])
    assert not ledger.balances
    assert (await store.ledger.ledger()).balances


@pytest.mark.parametrize(("table", "owner"), [("decisions", "decided"), ("dead_letters", "dead")])
async def test_a_row_of_no_alert_is_named(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId], table: str, owner: str
) -> None:
    change(
        make_store,
        f"UPDATE {table} SET alert_id = 'nobody' WHERE alert_id = :its",  # noqa: S608 - ours
        its=alerts[owner],
    )
    ledger = await store.ledger.ledger(full=True)
    assert sorted(ledger.unaccounted) == sorted([alerts[owner], "nobody"])


@pytest.mark.parametrize(("table", "owner"), [("decisions", "decided"), ("dead_letters", "dead")])
async def test_a_row_that_is_gone_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId], table: str, owner: str
) -> None:
    change(
        make_store,
        f"DELETE FROM {table} WHERE alert_id = :its",  # noqa: S608 - ours
        its=alerts[owner],
    )
    assert (await store.ledger.ledger(full=True)).unaccounted == (alerts[owner],)


@pytest.mark.parametrize("name", IDS)
async def test_an_alert_that_is_gone_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId], name: str
) -> None:
    change(make_store, "DELETE FROM alerts WHERE alert_id = :its", its=alerts[name])

    ledger = await store.ledger.ledger(full=True)

    assert not ledger.balances
    counter = "dead_lettered" if name == "dead" else name
    assert any(f"counter {counter} says" in found for found in ledger.unaccounted), ledger
    if name in ("decided", "dead"):
        assert alerts[name] in ledger.unaccounted


@pytest.mark.parametrize("name", IDS)
async def test_an_alert_of_another_status_than_its_rows_say_is_named(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId], name: str
) -> None:
    status = "decided" if name != "decided" else "discarded"
    change(
        make_store,
        "UPDATE alerts SET status = :status WHERE alert_id = :its",
        status=status,
        its=alerts[name],
    )
    ledger = await store.ledger.ledger(full=True)
    assert not ledger.balances
    assert alerts[name] in ledger.unaccounted


async def test_a_message_that_is_gone_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId]
) -> None:
    assert change(make_store, "DELETE FROM dead_letters WHERE alert_id IS NULL") == 1
    ledger = await store.ledger.ledger(full=True)
    assert ledger.unaccounted == ("counter dead_lettered says 2, rows say 1",)
    assert not ledger.balances


async def test_a_message_that_nobody_counted_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId]
) -> None:
    change(
        make_store,
        "INSERT INTO dead_letters SELECT 'm2', alert_id, stream, format, payload, headers, reason,"
        " detail, attempts, at FROM dead_letters WHERE alert_id IS NULL",
    )
    ledger = await store.ledger.ledger(full=True)
    assert ledger.unaccounted == ("counter dead_lettered says 2, rows say 3",)


async def test_a_second_dead_letter_of_an_alert_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId]
) -> None:
    change(
        make_store,
        "INSERT INTO dead_letters SELECT 'again', alert_id, stream, format, payload, headers,"
        " reason, detail, attempts, at FROM dead_letters WHERE alert_id IS NOT NULL",
    )
    assert not (await store.ledger.ledger(full=True)).balances


@pytest.mark.parametrize(
    "counter",
    [
        "accepted",
        "decided",
        "pending",
        "dead_lettered",
        "discarded",
        "purged",
        "outbox_pending",
        "outbox_given_up",
    ],
)
@pytest.mark.parametrize("delta", [1, -1])
async def test_a_counter_that_is_wrong_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId], counter: str, delta: int
) -> None:
    changed = change(
        make_store,
        "UPDATE counters SET value = value + :delta WHERE name = :its AND shard = 0",
        delta=delta,
        its=counter,
    )
    assert changed == 1
    assert not (await store.ledger.ledger(full=True)).balances


async def test_an_outbox_row_that_is_gone_is_noticed(store: Store, make_store: StoreMaker) -> None:
    [answer] = await store.alerts.accept([arrival()])
    assert answer.alert_id is not None
    sent = [Message(sink="hook", key="k", body=b"")]
    await store.decisions.commit(decision(answer.alert_id), {}, sent)
    assert (await store.ledger.ledger(full=True)).balances
    change(make_store, "DELETE FROM outbox")
    ledger = await store.ledger.ledger(full=True)
    assert ledger.unaccounted == ("counter outbox_pending says 1, rows say 0",)


async def test_what_is_purged_is_counted_and_what_vanishes_beside_it_is_noticed(
    store: Store, make_store: StoreMaker, alerts: dict[str, AlertId], clock: HandClock
) -> None:
    [answer] = await store.alerts.accept([arrival("late")])
    clock.advance(86_400)
    assert answer.alert_id is not None
    await store.decisions.commit(decision(answer.alert_id), {}, ())
    await store.retention.purge(older_than=clock.now(), max_bytes=None)

    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    assert (ledger.decided, ledger.discarded, ledger.purged) == (2, 1, 2)
    assert ledger == await store.ledger.ledger()

    for table in ("alerts", "decisions"):
        change(
            make_store,
            f"DELETE FROM {table} WHERE alert_id = :its",  # noqa: S608 - ours
            its=answer.alert_id,
        )
    assert (await store.ledger.ledger(full=True)).unaccounted == (
        "counter decided says 2, rows say 1",
    )


async def test_counters_are_the_sums_of_what_each_replica_counted(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    replicas = [store]
    if make_store.backend == "postgres":
        replicas.append(await make_store(clock=clock))
    for n in range(2 * len(replicas)):
        [answer] = await replicas[n % len(replicas)].alerts.accept([arrival(f"f{n}")])
        assert answer.alert_id is not None
        await replicas[(n + 1) % len(replicas)].decisions.commit(decision(answer.alert_id), {}, ())
    for replica in replicas:
        ledger = await replica.ledger.ledger(full=True)
        assert ledger.balances, ledger
        assert ledger.decided == 2 * len(replicas)
