"""The highest open-loop rate that one `triage serve` keeps up with, and its latency below it.

An alert's latency runs from the moment it was due to be sent until its decision is durable: until
the daemon's own log line `decided`, which it writes after the commit has returned. So it is never
too short, and too long by no more than the loop needed to come to that line. Both ends are read
from this machine's clock. The lines are held against the ledger: at the end each alert that was
answered with 202 must be decided there, by a full count of the rows.

What it takes to keep up with a rate is said at `Trial.is_kept_up`.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.load.open_loop import CONNECTIONS, Sent, arrivals, run_precisely, send_all
from bench.load.small import make_project, payload
from bench.ranks import nearest_rank
from bench.served import DecidedLog, ServedTriage
from bench.servers import HOST
from bench.watching import Progress, unseen

SEED = 2026
P99_LIMIT_S = 0.25
DRAIN_S = 1.0
LATE_S = 0.05  # p99 of the sender's own lateness, above which a trial says nothing
SETTLE_S = 120.0  # seconds that what an overload left may take
TRIES = 2  # of a rate: on a shared machine one bad moment is not the daemon's
SEARCH_STEPS = 20
LOWEST_RATE = 1.0


class LoadFailed(Exception):
    """The load could not be measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """`config` is a project's triage.toml, served with a store of its own; `settings` overrides
    it (see ServedTriage). `payload` gives the n-th alert in the native format, an occurrence that
    no other n has."""

    config: Path
    payload: Callable[[int], Mapping[str, Any]]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Rates are alerts a second, durations seconds."""

    unloaded_rate: float = 20.0
    unloaded_s: float = 10.0
    first_rate: float = 100.0
    highest_rate: float = 20_000.0
    trial_s: float = 5.0
    confirm_s: float = 15.0
    run_s: float = 10.0
    rounds: int = 3
    close: float = 1.06
    """Of two neighbouring rates: the search ends there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Some seconds at one rate. `latencies` are ascending seconds of the alerts that were
    decided; `backlog_s` is how long after the last was due the last was decided."""

    rate: float
    sent: int
    statuses: Mapping[int, int]
    latencies: Sequence[float]
    late_p99_s: float
    backlog_s: float
    in_flight: int
    degraded: int

    @property
    def refused(self) -> int:
        """429, 503, any other answer but 202, and none."""
        return sum(count for status, count in self.statuses.items() if status != 202)

    @property
    def is_kept_up(self) -> bool:
        """Every request is answered 202; every alert is decided, none degraded; p99 of the latency
        is at most P99_LIMIT_S; and the backlog is gone DRAIN_S after the last alert was due.

        Raises LoadFailed when the sender itself was late, which the daemon must not pay for.
        """
        kept_up = (
            not self.refused
            and not self.degraded
            and len(self.latencies) == self.sent
            and nearest_rank(self.latencies, 0.99) <= P99_LIMIT_S
            and self.backlog_s <= DRAIN_S
        )
        if kept_up and self.late_p99_s > LATE_S:
            raise LoadFailed(
                f"at {self.rate:.0f}/s the sender was {self.late_p99_s * 1000:.0f} ms late (p99): "
                "leave it a core of its own"
            )
        return kept_up


@dataclass(slots=True, kw_only=True)
class Session:
    """One daemon under load. Every trial goes on counting alerts where the last one ended."""

    daemon: ServedTriage
    target: LoadTarget
    progress: Progress
    steps: int
    decided: DecidedLog = field(init=False)
    trials: list[Trial] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    sent: int = 0

    def __post_init__(self) -> None:
        self.decided = DecidedLog(self.daemon.log)

    def trial(self, rate: float, seconds: float) -> Trial:
        """Raises LoadFailed when what it leaves is not decided in SETTLE_S."""
        moments = arrivals(rate, seconds, SEED + len(self.trials))
        first, self.sent = self.sent, self.sent + len(moments)
        sent = run_precisely(send_all(self.daemon.port, moments, self._request, first))
        ids = {
            alert_id: one
            for one in sent
            if one.status == 202
            for alert_id in orjson.loads(one.body)["alert_ids"]
        }
        self.accepted |= ids.keys()
        self.decided.wait_for(ids.keys(), within_s=SETTLE_S)
        trial = _trial(rate, sent, ids, self.decided)
        self.trials.append(trial)
        self.progress(min(len(self.trials), self.steps), self.steps)
        return trial

    def keeps_up_with(self, rate: float, seconds: float) -> bool:
        return any(self.trial(rate, seconds).is_kept_up for _ in range(TRIES))

    def highest_rate(self, plan: Plan) -> float:
        """Doubling (or halving, as long as nothing is kept up with), then between the last two,
        then held for longer. Raises LoadFailed when not even LOWEST_RATE is kept up with."""
        kept, missed = 0.0, math.inf
        rate = plan.first_rate
        for _ in range(SEARCH_STEPS):
            if self.keeps_up_with(rate, plan.trial_s):
                kept = rate
            else:
                missed = rate
            if kept >= plan.highest_rate or missed <= max(kept * plan.close, LOWEST_RATE):
                break
            rate = _next_rate(kept, missed, plan.highest_rate)
        while kept > LOWEST_RATE and not self.keeps_up_with(kept, plan.confirm_s):
            kept /= plan.close
        if kept <= LOWEST_RATE:
            raise LoadFailed(f"not even {LOWEST_RATE:g} alerts a second are kept up with")
        return kept

    def _request(self, n: int) -> bytes:
        body = orjson.dumps(self.target.payload(n))
        return (
            b"POST /api/v1/alerts HTTP/1.1\r\nHost: %b:%d\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (HOST.encode(), self.daemon.port, len(body), body)
        )


def measure_load(
    target: LoadTarget | None = None,
    progress: Progress = unseen,
    *,
    plan: Plan | None = None,
) -> dict[str, Any]:
    """Of `target`, or of a small project made for it. `progress` counts trials. Raises LoadFailed,
    and RuntimeError when the daemon does not start."""
    plan = plan or Plan()
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as name:
        folder = Path(name)
        if target is None:
            target = LoadTarget(config=make_project(folder / "project"), payload=payload)
        with ServedTriage(folder / "run", target.config, target.settings) as daemon:
            session = Session(
                daemon=daemon,
                target=target,
                progress=progress,
                steps=1 + SEARCH_STEPS + 3 * plan.rounds,
            )
            return _measured(session, plan)


def _measured(session: Session, plan: Plan) -> dict[str, Any]:
    session.trial(plan.unloaded_rate, plan.unloaded_s)  # warms everything up
    resident = session.daemon.resident_mb()
    highest = session.highest_rate(plan)
    rates = {
        "unloaded": (plan.unloaded_rate, plan.unloaded_s),
        "at_50": (highest * 0.5, plan.run_s),
        "at_80": (highest * 0.8, plan.run_s),
    }
    runs: dict[str, list[Trial]] = {name: [] for name in rates}
    for _ in range(plan.rounds):
        for name, (rate, seconds) in rates.items():
            runs[name].append(session.trial(rate, seconds))
    pooled = {
        name: sorted(latency for trial in trials for latency in trial.latencies)
        for name, trials in runs.items()
    }
    ledger = session.daemon.settled_ledger(within_s=SETTLE_S)
    if not ledger["balances"] or ledger["accepted"] != len(session.accepted):
        raise LoadFailed(f"{len(session.accepted)} were answered 202, and the ledger has {ledger}")
    unloaded = nearest_rank(pooled["unloaded"], 0.5)
    return {
        "max_rate_per_s": round(highest, 1),
        "p50_ms_unloaded": _ms(unloaded),
        "p99_ms_unloaded": _ms(nearest_rank(pooled["unloaded"], 0.99)),
        **{
            f"{p}_ms_{name}": _ms(nearest_rank(pooled[name], q))
            for name in ("at_50", "at_80")
            for p, q in (("p50", 0.5), ("p99", 0.99))
        },
        "p99_at_50_ratio": round(nearest_rank(pooled["at_50"], 0.99) / unloaded, 2),
        "p99_at_80_ratio": round(nearest_rank(pooled["at_80"], 0.99) / unloaded, 2),
        **{
            f"p99_ms_{name}_by_round": [_ms(nearest_rank(t.latencies, 0.99)) for t in trials]
            for name, trials in runs.items()
        },
        **{name: ledger[name] for name in ("accepted", "decided", "pending", "dead_lettered")},
        "outbox_pending": ledger["outbox_pending"],
        "balances": ledger["balances"],
        "refused_in_runs": sum(t.refused for trials in runs.values() for t in trials),
        "degraded_in_runs": sum(t.degraded for trials in runs.values() for t in trials),
        "in_flight_most_at_50": max(t.in_flight for t in runs["at_50"]),
        "in_flight_most_at_80": max(t.in_flight for t in runs["at_80"]),
        "connections": CONNECTIONS,
        "sender_late_p99_ms": _ms(max(t.late_p99_s for ts in runs.values() for t in ts)),
        "resident_mb_start": round(resident, 1),
        "resident_mb_end": round(session.daemon.resident_mb(), 1),
        "trials": [
            [round(t.rate, 1), t.refused, _ms(nearest_rank(t.latencies, 0.99)), _ms(t.backlog_s)]
            for t in session.trials
        ],
        "seed": SEED,
    }


def _trial(
    rate: float, sent: Sequence[Sent], ids: Mapping[str, Sent], decided: DecidedLog
) -> Trial:
    statuses: dict[int, int] = {}
    for one in sent:
        statuses[one.status] = statuses.get(one.status, 0) + 1
    ends = {alert_id: decided.at[alert_id] for alert_id in ids if alert_id in decided.at}
    return Trial(
        rate=rate,
        sent=len(sent),
        statuses=statuses,
        latencies=sorted(end - ids[alert_id].due for alert_id, end in ends.items()),
        late_p99_s=nearest_rank([one.left - one.due for one in sent if one.left], 0.99),
        backlog_s=max(ends.values(), default=math.inf) - max(one.due for one in sent),
        in_flight=_most_in_flight([(ids[alert_id].due, end) for alert_id, end in ends.items()]),
        degraded=sum(alert_id in decided.degraded for alert_id in ids),
    )


def _most_in_flight(spans: Sequence[tuple[float, float]]) -> int:
    changes = sorted([(due, 1) for due, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _next_rate(kept: float, missed: float, highest: float) -> float:
    if not kept:
        return missed / 2
    if missed == math.inf:
        return min(kept * 2, highest)
    return math.sqrt(kept * missed)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
