"""Does what the plan says, when it says so, and writes down what was done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.brokers import BrokerServer
from bench.chaos.clock import PlanClock
from bench.chaos.plan import BROKER, HANG, Fault, Kind
from bench.chaos.proxy import Proxy
from bench.chaos.readiness import Said
from bench.chaos.replicas import Replica
from bench.chaos.servers import KillablePostgres
from bench.watching import Progress, Say

LONG_S = 10.0  # an outage that is waited for, when its server is down already
SHOWN_S = 5.0  # seconds that a server must be down for every replica to have said so


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A server that was down, in seconds of `time.time`; or that hung, when `how` is HANG."""

    what: str
    how: str
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """`links` by the names that the plan uses. `fill` sends the burst of a fault."""

    replicas: Sequence[Replica]
    links: Mapping[str, Proxy]
    broker: BrokerServer | None
    postgres: KillablePostgres | None
    fill: Callable[[int, Fault], None]


@dataclass(slots=True)
class Controller:
    """`done` has, for every fault of the plan in its order, what became of it."""

    plan: Sequence[Fault]
    targets: Targets
    clock: PlanClock
    say: Say
    progress: Progress
    seconds: float
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)
    _restarting: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def run(self) -> None:
        """Returns when the last fault is over: all that was killed has been started again."""
        async with asyncio.TaskGroup() as group:
            for index, fault in enumerate(self.plan):
                await self._until(fault.at_s)
                group.create_task(self._inflict(index, fault))
            await self._until(self.seconds)

    async def _until(self, at_s: float) -> None:
        while (now := self.clock.now) < at_s:
            self.progress(int(now), int(self.seconds))
            await self.clock.until(min(at_s, now + 1.0))

    async def _inflict(self, index: int, fault: Fault) -> None:
        at_s = self.clock.now
        if fault.kind is not Kind.DROP:
            self.say(str(fault))
        skipped = await self._do(index, fault)
        self.done[index] = {
            **fault.document(),
            "did_at_s": round(at_s, 3),
            "over_at_s": round(self.clock.now, 3),
            **({"skipped": skipped} if skipped else {}),
        }

    async def _do(self, index: int, fault: Fault) -> str:
        """Why it was not done, empty when it was."""
        targets = self.targets
        match fault.kind:
            case Kind.KILL:
                if not targets.replicas[fault.replica].kill_for(fault.for_s):
                    return "it was down"
            case Kind.STOP:
                if not await targets.replicas[fault.replica].stop_for(fault.for_s):
                    return "it was down, or stopped"
            case Kind.BROKER | Kind.STORE:
                return await self._restart(fault)
            case Kind.DROP:
                targets.links[fault.target].cut(fault.direction, fault.after_bytes)
            case Kind.FILL:
                targets.fill(index, fault)
        return ""

    async def _restart(self, fault: Fault) -> str:
        lock = self._restarting.setdefault(fault.target, asyncio.Lock())
        if lock.locked() and fault.for_s < LONG_S:
            return "it was down"
        async with lock:
            since = time.time()
            down, up = self._broker(fault) if fault.target == BROKER else self._postgres(fault)
            await asyncio.to_thread(down)
            await asyncio.sleep(fault.for_s)
            until = time.time()
            await asyncio.to_thread(up)
        self.outages.append(Outage(what=fault.target, how=fault.how, since=since, until=until))
        return ""

    def _broker(self, fault: Fault) -> tuple[Callable[[], object], Callable[[], object]]:
        broker = self.targets.broker
        assert broker is not None

        def down() -> None:
            broker.kill()
            if fault.wipe:
                broker.lose_files()

        if fault.how == HANG:
            return broker.pause, broker.resume
        return down, broker.start

    def _postgres(self, fault: Fault) -> tuple[Callable[[], object], Callable[[], object]]:
        postgres = self.targets.postgres
        assert postgres is not None
        if fault.how == "SIGKILL":
            return postgres.kill, postgres.start
        return lambda: postgres.stop("immediate"), postgres.start


def unshown(
    outages: Sequence[Outage], said: Sequence[Said], replicas: Sequence[Replica]
) -> list[str]:
    """Outages of at least SHOWN_S that a replica which answered all the while never spoke of."""
    found = []
    for outage in outages:
        if outage.until - outage.since < SHOWN_S:
            continue
        for replica in replicas:
            its = [
                one
                for one in said
                if one.replica == replica.number and outage.since < one.at < outage.until
            ]
            answered = [one for one in its if one.ready is not None]
            if answered and len(answered) == len(its) and all(one.ready for one in answered):
                length = outage.until - outage.since
                found.append(
                    f"{replica.name} said it was ready through {length:.0f} s without {outage.what}"
                )
    return found
