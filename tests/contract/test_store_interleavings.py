"""One alert, two consumers, and everything that can come between: exactly one decision.

A breadth-first search over all orders of: a consumer's next step (receive, begin, commit, ack), its
death at any step, a commit whose answer is lost, leases that lapse, the sweeper, a queue that loses
its memory, a resolve, and the firing sent again. Each edge is one transaction of the real store;
states that differ in nothing but the past are one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest
from sqlalchemy import bindparam, null, select

from tests.contract.interleaved import LAPSE_S, InlineStore, Rows
from tests.contract.store_world import HandClock, arrival, decision, resolve
from triage.adapters.store import decisions
from triage.adapters.store.alerts import StoreAlertLog
from triage.adapters.store.schema import ALERTS
from triage.model.alert import AcceptStatus, AlertId, Arrival, Severity
from triage.model.decision import Outcome
from triage.ports import AlertStatus, CommitStatus, Delivery, Message

MAX_ATTEMPTS = 3
SINK = "s"
_HELD = (
    "SELECT alert_id FROM queue ORDER BY alert_id",
    "SELECT alert_id, status, attempts, unmatched_resolve, resolved_at IS NULL FROM alerts",
    "SELECT alert_id, outcome FROM decisions ORDER BY alert_id",
    "SELECT alert_id, key, body, state FROM outbox ORDER BY key",
    "SELECT alert_id, reason FROM dead_letters ORDER BY alert_id",
    "SELECT fingerprint, episode, open FROM episodes ORDER BY fingerprint",
    "SELECT name, shard, value FROM counters ORDER BY name, shard",
)
_STATE_WITHOUT_RESOLVES = select(ALERTS.c.status, null()).where(
    ALERTS.c.alert_id == bindparam("wanted")
)


class Consumer(NamedTuple):
    """`step` is what it does next. `saw_resolved` is what it loaded."""

    step: str = "receive"
    delivery: Delivery | None = None
    saw_resolved: bool = False
    is_last_try: bool = False


class Left(NamedTuple):
    """How often each of these may still happen."""

    deaths: int = 1
    lost_answers: int = 1
    lapses: int = 2
    resolves: int = 1
    refires: int = 1
    forgets: int = 1


@dataclass(frozen=True, slots=True)
class State:
    at: Any
    consumers: tuple[Consumer, Consumer]
    left: Left
    path: tuple[str, ...]
    rows: Rows = ()
    """What the store holds, once that is known to be new."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Firing and resolve of an occurrence that states its start, or of an episode that does not."""

    firing: Arrival
    resolving: Arrival
    resolve_comes_first: bool = False
    left: Left = Left()  # noqa: RUF009 - a named tuple cannot be changed


KINDS = {
    "occurrence": Kind(arrival(), resolve()),
    # Two alerts may come of it, each with a life of its own: of the rest there is less.
    "episode": Kind(
        arrival(starts_at_ns=None),
        resolve(starts_at_ns=None),
        left=Left(lost_answers=0, forgets=0),
    ),
    "resolve first": Kind(arrival(), resolve(), resolve_comes_first=True),
}


class World:
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.clock = HandClock()
        self.store = InlineStore(self.clock)
        self.met: set[str] = set()
        self._checked: set[Hashable] = set()
        self._finished: set[Hashable] = set()

    async def begin(self) -> State:
        first = self.kind.resolving if self.kind.resolve_comes_first else self.kind.firing
        await self._arrive(first)
        return State(self.clock.at, (Consumer(), Consumer()), self.kind.left, (), self.store.save())

    def moves(self, state: State) -> Iterator[tuple[str, int]]:
        # Of two that are alike it does not matter which one moves.
        for who in (0,) if state.consumers[0] == state.consumers[1] else (0, 1):
            yield "next", who
            if state.consumers[who].step != "receive" and state.left.deaths:
                yield "dies", who
            if state.consumers[who].step == "commit" and state.left.lost_answers:
                yield "commits unheard", who
        yield "sweeps", 0
        for move, left in (
            ("lapses", state.left.lapses),
            ("resolves", state.left.resolves),
            ("fires again", state.left.refires),
            ("forgets", state.left.forgets),
        ):
            if left:
                yield move, 0

    async def move(self, state: State, move: str, who: int) -> State:
        """What comes after a state whose rows the store holds, which it does not keep."""
        self.clock.at = state.at
        consumers, left = list(state.consumers), state.left
        match move:
            case "next":
                consumers[who] = await self._next(consumers[who])
            case "dies":
                consumers[who] = Consumer()
                left = left._replace(deaths=left.deaths - 1)
            case "commits unheard":
                # It cannot know, so it gives the delivery back.
                held = consumers[who]
                await self._commit(held)
                assert held.delivery is not None
                await self.store.queue.settle(returned=[held.delivery], delay_s=1)
                consumers[who] = Consumer()
                left = left._replace(lost_answers=left.lost_answers - 1)
            case "sweeps":
                due = await self.store.alerts.to_wake(limit=10)
                await self.store.queue.publish(due)
            case "lapses":
                self.clock.advance(LAPSE_S)
                left = left._replace(lapses=left.lapses - 1)
            case "resolves":
                await self._arrive(self.kind.resolving)
                left = left._replace(resolves=left.resolves - 1)
            case "fires again":
                await self._arrive(self.kind.firing)
                left = left._replace(refires=left.refires - 1)
            case "forgets":
                self.store.execute("DELETE FROM queue")
                await self.store.alerts.wake_all()
                left = left._replace(forgets=left.forgets - 1)
        return State(
            self.clock.at,
            (consumers[0], consumers[1]),
            left,
            (*state.path, f"{move} {who}"),
        )

    async def _arrive(self, what: Arrival) -> None:
        """As the intake takes it: what is new is published after it is durable."""
        for answer in await self.store.alerts.accept([what]):
            if answer.alert_id is not None and answer.status is AcceptStatus.NEW:
                await self.store.queue.publish([(answer.alert_id, answer.severity)])

    async def _next(self, consumer: Consumer) -> Consumer:
        store, delivery = self.store, consumer.delivery
        if consumer.step == "receive":
            received = await store.queue.receive(limit=1, wait_s=0)
            return Consumer("begin", received[0]) if received else consumer
        assert delivery is not None
        match consumer.step:
            case "begin":
                stored = await store.alerts.begin_attempt(delivery.alert_id)
                if stored is None or stored.status is not AlertStatus.PENDING:
                    return consumer._replace(step="ack")
                return Consumer(
                    "commit",
                    delivery,
                    saw_resolved=stored.alert.resolved_at is not None,
                    is_last_try=stored.attempts >= MAX_ATTEMPTS,
                )
            case "commit":
                await self._commit(consumer)
                return consumer._replace(step="ack")
            case _:
                await store.queue.settle(acked=[delivery])
                return Consumer()

    async def _commit(self, consumer: Consumer) -> None:
        assert consumer.delivery is not None
        alert_id = consumer.delivery.alert_id
        if consumer.is_last_try:
            if await self.store.alerts.dead_letter(alert_id, "attempts_used_up", ""):
                self.met.add("dead-lettered")
            return
        was_resolved = self._is_resolved(alert_id)
        outcome = Outcome.RESOLVED if consumer.saw_resolved else Outcome.ACTIONS
        status = await self._decide(alert_id, outcome)
        if status is CommitStatus.RESOLVED_MEANWHILE:
            assert was_resolved
            assert not consumer.saw_resolved
            outcome = Outcome.RESOLVED
            status = await self._decide(alert_id, outcome)
        if status is CommitStatus.COMMITTED:
            assert (outcome is Outcome.RESOLVED) == was_resolved, outcome

    async def _decide(self, alert_id: AlertId, outcome: Outcome) -> CommitStatus:
        message = Message(sink=SINK, key=f"{alert_id}:decision", body=outcome.value.encode())
        status = await self.store.decisions.commit(decision(alert_id, outcome), {}, [message])
        self.met.add(status)
        return status

    def _is_resolved(self, alert_id: AlertId) -> bool:
        [(resolved_at,)] = self.store.rows(
            f"SELECT resolved_at FROM alerts WHERE alert_id = '{alert_id}'"  # noqa: S608
        )
        return resolved_at is not None

    def key(self, state: State) -> tuple[Any, ...]:
        """The state without tokens and times: of these only whether they are due matters, since
        every lapse passes all of them."""
        now = round((self.clock.at - HandClock().at).total_seconds() * 1e6)
        base = round(HandClock().at.timestamp() * 1e6)
        at = base + now
        # Which of the two is which does not matter either.
        consumers = sorted(
            state.consumers,
            key=lambda c: (
                c.step,
                c.saw_resolved,
                c.is_last_try,
                c.delivery.alert_id if c.delivery else "",
            ),
        )
        holders = {
            consumer.delivery.token: who
            for who, consumer in enumerate(consumers)
            if consumer.delivery is not None
        }
        queue = [
            (alert_id, holders.get(token, -1) if token else None, available_at <= at)
            for alert_id, token, available_at in self.store.rows(
                "SELECT alert_id, token, available_at FROM queue ORDER BY alert_id"
            )
        ]
        return (
            tuple(queue),
            tuple(
                self.store.rows(
                    "SELECT alert_id, status, attempts, resolved_at IS NULL, unmatched_resolve,"  # noqa: S608
                    f" wake_at <= {at} FROM alerts ORDER BY alert_id"
                )
            ),
            tuple(self.store.rows("SELECT alert_id, outcome FROM decisions ORDER BY alert_id")),
            tuple(self.store.rows("SELECT key, body FROM outbox ORDER BY key")),
            tuple(self.store.rows("SELECT fingerprint, episode, open FROM episodes")),
            tuple(
                (c.step, c.delivery and c.delivery.alert_id, c.saw_resolved, c.is_last_try)
                for c in consumers
            ),
            state.left,
        )

    def held(self) -> Hashable:
        """What the store holds, without tokens and times: the ledger, and what becomes of it all
        once every lease has lapsed, depend on nothing else."""
        return tuple(tuple(self.store.rows(sql)) for sql in _HELD)

    async def check(self, state: State) -> None:
        """What must hold in every state."""
        if (held := self.held()) in self._checked:
            return
        self._checked.add(held)
        ledger = await self.store.ledger.ledger(full=True)
        assert ledger.balances, (state.path, ledger)
        decided = self.store.rows("SELECT alert_id, outcome FROM decisions ORDER BY alert_id")
        told = self.store.rows("SELECT alert_id, body FROM outbox ORDER BY alert_id")
        assert [(a, outcome.encode()) for a, outcome in decided] == told, state.path
        assert ledger.decided == len(decided), state.path

    async def finishes(self, state: State) -> None:
        """From here one consumer that lives, a lapse and a sweep bring everything to its end."""
        if (held := self.held()) in self._finished:
            return
        self._finished.add(held)
        self.clock.at = state.at
        self.clock.advance(LAPSE_S)
        await self.store.queue.publish(await self.store.alerts.to_wake(limit=10))
        consumer, before = await self._next(Consumer()), Consumer()
        while consumer != before:
            consumer, before = await self._next(consumer), consumer
        ledger = await self.store.ledger.ledger(full=True)
        assert ledger.pending == 0, (state.path, ledger)
        assert ledger.balances, (state.path, ledger)
        assert self.store.rows("SELECT * FROM queue") == [], state.path


@dataclass(frozen=True, slots=True)
class Searched:
    states: int
    edges: int
    met: frozenset[str]


async def search(world: World) -> Searched:
    """Every reachable state. Raises AssertionError, with the way there, in the first that breaks a
    promise."""
    first = await world.begin()
    seen = {world.key(first)}
    waiting = deque([first])
    edges = 0
    while waiting:
        state = waiting.popleft()
        world.store.put_back(state.rows)
        with world.store.undone():
            await world.finishes(state)
        for move, who in world.moves(state):
            edges += 1
            with world.store.undone():
                after = await world.move(state, move, who)
                key = world.key(after)
                if key not in seen:
                    seen.add(key)
                    await world.check(after)
                    waiting.append(replace(after, rows=world.store.save()))
    return Searched(len(seen), edges, frozenset(world.met))


@pytest.fixture(params=sorted(KINDS))
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(KINDS[request.param])
    yield world
    world.store.close()


async def test_every_order_of_events_ends_in_one_decision(world: World) -> None:
    found = await search(world)
    assert found.states > 5_000, found
    expected = {CommitStatus.COMMITTED, CommitStatus.ALREADY_DECIDED, "dead-lettered"}
    if not world.kind.resolve_comes_first:
        expected.add(CommitStatus.RESOLVED_MEANWHILE)
    assert found.met == expected


async def test_the_search_finds_what_a_missing_sweeper_loses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(_self: StoreAlertLog, *, limit: int) -> list[tuple[AlertId, Severity]]:
        return []

    monkeypatch.setattr(StoreAlertLog, "to_wake", nothing)
    world = World(KINDS["occurrence"])
    try:
        with pytest.raises(AssertionError, match="forgets"):
            await search(world)
    finally:
        world.store.close()


async def test_the_search_finds_what_a_resolve_that_is_not_heeded_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decisions, "_STATE_TO_CHANGE", _STATE_WITHOUT_RESOLVES)
    world = World(KINDS["occurrence"])
    try:
        with pytest.raises(AssertionError, match="ACTIONS"):
            await search(world)
    finally:
        world.store.close()
