"""Whether a store is writing: what gives way to alerts asks that."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.replica_world import WITHIN_S, becomes
from tests.contract.store_world import HandClock, arrival
from triage.adapters.store import Store
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple


@pytest.fixture
async def store(make_store: StoreMaker) -> Store:
    return await make_store(clock=HandClock())


class Held:
    """An operation that ends when it is told to."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, _transaction: Transaction) -> None:
        self.began.set()
        self.may_end.wait(WITHIN_S)


def refused(_transaction: Transaction) -> None:
    raise ValueError("no")


async def test_an_accept_is_writing_until_it_is_durable(store: Store) -> None:
    assert not store.is_writing
    held = Held()
    purging = asyncio.create_task(
        store.decisions.writer.run(Simple(held), durable=False, background=True)
    )
    await becomes(held.began.is_set, "it has begun")
    assert not store.is_writing, "nobody need wait for what is in the background"
    accepting = asyncio.create_task(store.alerts.accept([arrival("a")]))
    await becomes(lambda: store.is_writing, "the accept has begun")
    assert not accepting.done()
    held.may_end.set()
    await asyncio.gather(purging, accepting)
    assert not store.is_writing


async def test_it_is_writing_from_the_call_to_the_end(store: Store) -> None:
    held, writer = Held(), store.decisions.writer
    running = asyncio.create_task(writer.run(Simple(held), durable=False))
    await becomes(held.began.is_set, "it has begun")
    assert store.is_writing
    another = asyncio.create_task(writer.run(Simple(refused), durable=False))
    held.may_end.set()
    await running
    with pytest.raises(ValueError, match="no"):
        await another
    assert not store.is_writing


async def test_nobody_need_wait_for_it(store: Store) -> None:
    held, writer = Held(), store.decisions.writer
    running = asyncio.create_task(writer.run(Simple(held), durable=False))
    await becomes(held.began.is_set, "it has begun")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    sent = asyncio.Event()
    writer.send(Simple(lambda _: None), then=lambda _result, _wanted: sent.set())
    assert store.is_writing, "a call that was given up goes on, and so does what is sent"
    held.may_end.set()
    async with asyncio.timeout(WITHIN_S):
        await sent.wait()
    assert not store.is_writing
