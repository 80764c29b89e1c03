"""What is done to whom, and when: a pure function of the options, seed included.

The first faults of a run are one of each kind, in an order that the seed draws, so that a short
run has them all; then they are drawn by weight.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from bench.chaos.options import LONGEST_QUIET_RUN_S, Options

QUIET_S = 1.0  # seconds at the beginning
BROKER, STORE = "broker", "store"
HANG = "SIGSTOP"
MOST_BYTES = 400  # of an answer or a request that pass before the connection is cut


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL of a replica; it is started again after `for_s`."""
    STOP = "stop"
    """SIGSTOP of a replica, SIGCONT after `for_s`, which is past its lease."""
    BROKER = "broker"
    """SIGKILL of the broker, started again after `for_s`; with `wipe` its data are gone. Or, `how`,
    SIGSTOP, and SIGCONT after `for_s`: it hangs."""
    STORE = "store"
    """PostgreSQL shut down at once (or, `how`, its postmaster killed), started after `for_s`."""
    DROP = "drop"
    """The next connection of a link that carries something is cut after so many bytes of it."""
    FILL = "fill"
    """So many alerts at once, more than may be pending."""


class Direction(StrEnum):
    REQUEST = "request"
    ANSWER = "answer"


_WEIGHTS: Mapping[Kind, float] = {
    Kind.KILL: 6.0,
    Kind.STOP: 2.0,
    Kind.BROKER: 3.0,
    Kind.STORE: 2.0,
    Kind.FILL: 0.8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`at_s` is from the start of the run. `target` is a replica (`replica-1`), a server, or a link
    (`sender-1`, `store-1`, `queue-1`: of replica 1 with whom it names)."""

    at_s: float
    kind: Kind
    target: str
    for_s: float = 0.0
    after_bytes: int = 0
    direction: Direction = Direction.ANSWER
    wipe: bool = False
    how: str = ""
    alerts: int = 0

    @property
    def replica(self) -> int:
        """The number of the replica concerned, from 0."""
        return int(self.target.rpartition("-")[2])

    def document(self) -> dict[str, Any]:
        """What says something of this kind of fault."""
        kept = {"at_s", "kind", "target"}
        return {k: v for k, v in asdict(self).items() if k in kept or (v and k != "direction")} | (
            {"direction": self.direction.value} if self.kind is Kind.DROP else {}
        )

    def __str__(self) -> str:
        text = f"{self.at_s:7.2f} s  {self.kind.value} {self.target}"
        if self.alerts:
            text += f" with {self.alerts} alerts"
        if self.how or self.wipe:
            text += f" ({self.how or 'its data are gone'})"
        return f"{text}, for {self.for_s:.1f} s" if self.for_s else text


def make_plan(options: Options) -> tuple[Fault, ...]:
    """In order of time."""
    draw = random.Random(f"{options.seed}/faults")
    faults = [*_of_processes(options, draw), *_outages(options, draw)]
    faults += _drops(options, random.Random(f"{options.seed}/drops"))
    return tuple(sorted(faults, key=lambda fault: (fault.at_s, fault.target)))


def _of_processes(options: Options, draw: random.Random) -> Iterator[Fault]:
    weights = {
        kind: weight
        for kind, weight in _WEIGHTS.items()
        if (kind is not Kind.BROKER or options.has_broker)
        and (kind is not Kind.STORE or options.has_store_server)
    }
    first = list(weights)
    draw.shuffle(first)
    for at_s in _moments(options.seconds, options.every_s, draw):
        kind = first.pop() if first else draw.choices(list(weights), list(weights.values()))[0]
        yield _fault(kind, at_s, options, draw)


def _fault(kind: Kind, at_s: float, options: Options, draw: random.Random) -> Fault:
    replica = f"replica-{draw.randrange(options.replicas)}"
    # Drawn for every fault, used or not: so that each is the same whatever the others are.
    short, long, chance = draw.uniform(0.0, 0.5), draw.uniform(1.0, 4.0), draw.random()
    pause = round(long if chance < 0.3 else short, 2)
    match kind:
        case Kind.KILL:
            return Fault(at_s=at_s, kind=kind, target=replica, for_s=pause)
        case Kind.STOP:
            past = round(options.lease_s + draw.uniform(0.5, 2.5), 2)
            return Fault(at_s=at_s, kind=kind, target=replica, for_s=past)
        case Kind.BROKER:
            way = draw.random()
            if way < 0.2:
                return Fault(at_s=at_s, kind=kind, target=BROKER, for_s=round(long, 2), how=HANG)
            return Fault(at_s=at_s, kind=kind, target=BROKER, for_s=pause, wipe=way < 0.45)
        case Kind.STORE:
            how = draw.choice(("immediate", "SIGKILL"))
            return Fault(at_s=at_s, kind=kind, target=STORE, for_s=pause, how=how)
        case Kind.FILL:
            alerts = round(options.max_pending * draw.uniform(1.2, 1.6))
            return Fault(at_s=at_s, kind=kind, target="intake", alerts=alerts)
        case Kind.DROP:
            raise ValueError("drops have a clock of their own")


def _outages(options: Options, draw: random.Random) -> Iterator[Fault]:
    if options.seconds <= LONGEST_QUIET_RUN_S:
        return
    first, second = options.seconds * 0.3, options.seconds * 0.65
    if options.has_broker:
        at_s = round(first + draw.uniform(0, 10), 2)
        yield Fault(at_s=at_s, kind=Kind.BROKER, target=BROKER, for_s=options.outage_s)
    if options.has_store_server:
        at_s = round(second + draw.uniform(0, 10), 2)
        yield Fault(
            at_s=at_s, kind=Kind.STORE, target=STORE, for_s=options.outage_s, how="immediate"
        )


def _drops(options: Options, draw: random.Random) -> Iterator[Fault]:
    links = ["sender"]
    if options.has_store_server:
        links.append(STORE)
    if options.has_broker:
        links.append("queue")
    for at_s in _moments(options.seconds, options.drop_every_s, draw):
        yield Fault(
            at_s=at_s,
            kind=Kind.DROP,
            target=f"{draw.choice(links)}-{draw.randrange(options.replicas)}",
            after_bytes=draw.randrange(MOST_BYTES),
            direction=draw.choice(list(Direction)),
        )


def _moments(seconds: float, every_s: float, draw: random.Random) -> Iterator[float]:
    at_s = QUIET_S
    while at_s < seconds:
        yield round(at_s, 3)
        at_s += every_s * draw.uniform(0.4, 1.6)
