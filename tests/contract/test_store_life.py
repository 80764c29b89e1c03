"""A store is opened, read beside, closed, and opened again: the same on every database."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_world import HandClock, arrival, decision
from triage.errors import ConfigError, StoreError
from triage.model.alert import AlertId
from triage.ports import DecisionFilter


async def test_a_reader_reads_beside_the_daemon_and_writes_nothing(make_store: StoreMaker) -> None:
    daemon = await make_store(clock=HandClock())
    reader = await make_store(clock=HandClock(), exclusive=False)
    [answer] = await daemon.alerts.accept([arrival()])
    assert answer.alert_id is not None
    assert await reader.decisions.get(answer.alert_id) == {"status": "pending"}
    with pytest.raises(StoreError, match="not open for writing"):
        await reader.alerts.accept([arrival("g")])

    await reader.close()
    await daemon.close()
    with pytest.raises(StoreError):
        await daemon.alerts.accept([arrival("h")])
    with pytest.raises(StoreError):
        await daemon.ledger.ledger()


async def test_a_reader_makes_no_tables(make_store: StoreMaker) -> None:
    for changes in (False, True):
        with pytest.raises(ConfigError, match="nothing was served from it"):
            await make_store.elsewhere(clock=HandClock(), exclusive=False, changes=changes)


async def test_a_reader_reads_after_the_daemon_has_gone(make_store: StoreMaker) -> None:
    daemon = await make_store(clock=HandClock())
    await daemon.alerts.accept([arrival()])
    await daemon.close()

    reader = await make_store(clock=HandClock(), exclusive=False)
    assert (await reader.ledger.ledger(full=True)).accepted == 1


async def test_a_row_that_vanished_is_named(make_store: StoreMaker) -> None:
    store = await make_store(clock=HandClock())
    answers = await store.alerts.accept([arrival("a"), arrival("b")])
    first = answers[0].alert_id
    assert first is not None
    await store.decisions.commit(decision(first), {}, ())
    make_store.sql("DELETE FROM decisions")

    ledger = await store.ledger.ledger(full=True)
    assert not ledger.balances
    assert first in ledger.unaccounted

    make_store.sql("DELETE FROM alerts WHERE status = 'pending'")
    ledger = await store.ledger.ledger(full=True)
    assert ledger.accepted == 2
    assert ledger.pending == 0
    assert "counter pending says 1, rows say 0" in ledger.unaccounted


async def test_closing_finishes_what_was_submitted(make_store: StoreMaker) -> None:
    store = await make_store(clock=HandClock())
    submitted = [asyncio.create_task(store.alerts.accept([arrival(f"f{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*submitted)

    again = await make_store(clock=HandClock())
    assert (await again.ledger.ledger(full=True)).accepted == len(answers) == 50


async def test_a_cancelled_accept_is_whole_or_absent(make_store: StoreMaker) -> None:
    store = await make_store(clock=HandClock())
    request = asyncio.create_task(store.alerts.accept([arrival("a"), arrival("b")]))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    # It had been submitted, so it is done; and its work was announced to the queue.
    received = await store.queue.receive(limit=5, wait_s=60)
    assert len(received) == 2
    assert (await store.ledger.ledger(full=True)).accepted == 2


async def test_text_to_look_for_may_be_anything(make_store: StoreMaker) -> None:
    """It comes from the path and the query of a request. PostgreSQL has no place for NUL."""
    store = await make_store(clock=HandClock())
    [answer] = await store.alerts.accept([arrival()])
    assert answer.alert_id is not None
    await store.decisions.commit(decision(answer.alert_id), {}, ())
    for text in ("\0", "a\0b", "' OR 1=1 --", "%", "\u2028"):
        assert await store.decisions.get(AlertId(text)) is None
        assert await store.decisions.evidence(text) is None
        assert await store.gaps.gap(text) is None
        page = await store.decisions.page(DecisionFilter(site=text), cursor="", limit=9)
        assert page.decisions == ()
    assert store.trouble == ""
