"""What a run of chaos is asked for. Plan and alerts are a function of this and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EMBEDDED = ("sqlite", "postgres")
QUEUES = (*EMBEDDED, "redis", "nats")
STORES = EMBEDDED
DEFAULT_RATE = 25.0  # alerts a second
LONGEST_QUIET_RUN_S = 150.0  # seconds; a longer one has an outage of each server in it


class BadOptions(Exception):
    """What was asked for does not go together; the message says what to ask for instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`every_s` is the mean time between two faults of processes, drops of connections come beside
    them. `lease_s` and `sweep_s` are the daemons'. `max_pending` is small, so that it is met.
    `outage_s` is how long each server is down once in a run of more than LONGEST_QUIET_RUN_S. At
    the end nothing may stand still for `settle_s`: more than the minute that the messages of a
    replica which was killed wait for another."""

    seconds: float = 60.0
    queue: str = "sqlite"
    store: str = "sqlite"
    seed: int = 2026
    alerts: int = 1500
    replicas: int = 1
    every_s: float = 5.0
    drop_every_s: float = 1.5
    lease_s: float = 3.0
    sweep_s: float = 1.0
    max_pending: int = 400
    outage_s: float = 20.0
    settle_s: float = 150.0

    @property
    def has_broker(self) -> bool:
        return self.queue not in EMBEDDED

    @property
    def has_store_server(self) -> bool:
        return self.store == "postgres"

    @property
    def again(self) -> str:
        """The command that makes the same plan and the same alerts."""
        return (
            f"python -m bench chaos --seconds {self.seconds:g} --queue {self.queue}"
            f" --store {self.store} --seed {self.seed} --alerts {self.alerts}"
            f" --replicas {self.replicas} --every {self.every_s:g}"
        )

    def document(self) -> dict[str, Any]:
        return asdict(self)


def options(
    *,
    seconds: float = 60.0,
    queue: str = "sqlite",
    store: str | None = None,
    seed: int = 2026,
    rate: float | None = None,
    alerts: int | None = None,
    replicas: int | None = None,
    every_s: float | None = None,
) -> Options:
    """With what fits where nothing is said: a broker goes with PostgreSQL and three replicas.
    Raises BadOptions."""
    wanted = store or ("sqlite" if queue == "sqlite" else "postgres")
    if queue not in QUEUES or wanted not in STORES:
        raise BadOptions(f"queues are {', '.join(QUEUES)}; stores {', '.join(STORES)}")
    if queue in EMBEDDED and queue != wanted:
        raise BadOptions(
            f"the queue {queue} lives in a store of its own kind: leave --store out, or give"
            f" --store {queue}"
        )
    count = replicas or (3 if wanted == "postgres" else 1)
    if wanted == "sqlite" and count > 1:
        raise BadOptions("an SQLite store belongs to one process: give --store postgres")
    if alerts is not None and rate is not None:
        raise BadOptions("--alerts and --rate say the same in two ways: give one of them")
    return Options(
        seconds=seconds,
        queue=queue,
        store=wanted,
        seed=seed,
        alerts=alerts or max(1, round(seconds * (rate or DEFAULT_RATE))),
        replicas=count,
        every_s=every_s or (5.0 if count == 1 else 2.5),
    )
