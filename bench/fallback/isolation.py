"""`python -m bench isolation`: what an endpoint in trouble does to alerts whose tools all work.

One real `triage serve`, one endpoint, and alerts in an open loop, of which one in five has a node
without a tool. The endpoint is healthy for some seconds and in trouble for some, in pairs whose
order alternates; of each half the p99 latency of the *other* alerts is taken, and of each pair
their ratio. What is reported is the median ratio of the pairs, for each kind of trouble. A round of
pairs begins with a half without stray alerts: what the fallback costs others when all is well.

Before a healthy half the endpoint is asked until the fallback answers again, so that an open
breaker does not make it healthy in name only. A half in trouble begins at once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bench.fallback.endpoint import Mode
from bench.fallback.endpoint_process import ScriptedEndpoint
from bench.fallback.isolation_project import (
    EVERY,
    is_stray,
    make_isolation_project,
    mixed_payload,
)
from bench.load.open_loop import arrivals, run_precisely, send_all
from bench.load.small import payload
from bench.ranks import nearest_rank
from bench.served import DecidedLog, ServedTriage
from bench.servers import HOST
from bench.watching import Progress, unseen

SEED = 4
TROUBLES = (Mode.HANG, Mode.ERROR, Mode.FLOOD)
SETTLE_S = 60.0
RECOVERY_TRIES = 60
RECOVERY_PAUSE_S = 0.25
FALLBACK: Mapping[str, str] = {
    "TIMEOUT_S": "4",
    "REQUEST_TIMEOUT_S": "2",
    "BREAKER_RESET_S": "1",
}
"""Times are short so that a half ends soon after its last alert; all else is as by default."""


class IsolationFailed(Exception):
    """It could not be measured, or something else went wrong than latency; the message says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`rate_per_s` is of all alerts, the stray ones included; `half_s` is how long the endpoint is
    in one state. An answered stray alert costs a tenth of a second of a core: many of them a
    second would be a machine that is full, not an endpoint that is well."""

    rate_per_s: float = 20.0
    half_s: float = 10.0
    pairs: int = 10
    troubles: Sequence[Mode] = TROUBLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Seconds at one state of the endpoint. Latencies are seconds, ascending: of the alerts whose
    tools all work, and of the stray ones."""

    mode: Mode
    latencies: Sequence[float]
    stray_latencies: Sequence[float]
    stray_degraded: int
    sender_late_s: float

    @property
    def p99_s(self) -> float:
        return nearest_rank(self.latencies, 0.99)


@dataclass(slots=True, kw_only=True)
class Session:
    """One daemon and one endpoint."""

    daemon: ServedTriage
    endpoint: ScriptedEndpoint
    plan: Plan
    decided: DecidedLog = field(init=False)
    accepted: set[str] = field(default_factory=set)
    sent: int = 0
    halves: int = 0

    def __post_init__(self) -> None:
        self.decided = DecidedLog(self.daemon.log)

    def half(self, mode: Mode, *, strays: bool = True) -> Half:
        """Raises IsolationFailed when an alert is refused, or one whose tools work is degraded."""
        if mode is Mode.SCRIPT:
            self._recover()
        else:
            self.endpoint.switch(mode)
        self.halves += 1
        rate = self.plan.rate_per_s * (1 if strays else (EVERY - 1) / EVERY)
        due = arrivals(rate, self.plan.half_s, SEED + self.halves)
        ids, late = self._send(due, strays=strays)
        ends = {alert_id: self.decided.at[alert_id] - at for alert_id, (at, _) in ids.items()}
        stray = {alert_id for alert_id, (_, n) in ids.items() if strays and is_stray(n)}
        if hurt := (ids.keys() - stray) & self.decided.degraded:
            raise IsolationFailed(f"{len(hurt)} alerts whose tools work were degraded ({mode})")
        return Half(
            mode=mode,
            latencies=sorted(ends[alert_id] for alert_id in ids.keys() - stray),
            stray_latencies=sorted(ends[alert_id] for alert_id in stray),
            stray_degraded=len(stray & self.decided.degraded),
            sender_late_s=late,
        )

    def _send(
        self, due: Sequence[float], *, strays: bool = True
    ) -> tuple[dict[str, tuple[float, int]], float]:
        """By id when each alert was due and its number, all decided; and how late they left."""
        first, self.sent = self.sent, self.sent + len(due)
        document = mixed_payload if strays else payload

        def request(n: int) -> bytes:
            return self._request(document(n))

        sent = run_precisely(send_all(self.daemon.port, due, request, first))
        if refused := [one for one in sent if one.status != 202]:
            raise IsolationFailed(f"{len(refused)} alerts were not accepted: {refused[0].status}")
        ids = {
            alert_id: (one.due, one.n)
            for one in sent
            for alert_id in orjson.loads(one.body)["alert_ids"]
        }
        self.accepted |= ids.keys()
        self.decided.wait_for(ids.keys(), within_s=SETTLE_S)
        return ids, nearest_rank([one.left - one.due for one in sent], 0.99)

    def _recover(self) -> None:
        """Returns once the fallback answers."""
        self.endpoint.switch(Mode.SCRIPT)
        for _ in range(RECOVERY_TRIES):
            while not is_stray(self.sent):
                self.sent += 1
            ids, _ = self._send([0.0])
            if not ids.keys() & self.decided.degraded:
                return
            time.sleep(RECOVERY_PAUSE_S)
        raise IsolationFailed("the endpoint is healthy, and the fallback does not answer")

    def _request(self, document: Mapping[str, Any]) -> bytes:
        body = orjson.dumps(document)
        return (
            b"POST /api/v1/alerts HTTP/1.1\r\nHost: %b:%d\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (HOST.encode(), self.daemon.port, len(body), body)
        )


def measure_isolation(plan: Plan | None = None, progress: Progress = unseen) -> dict[str, Any]:
    """Raises IsolationFailed, and RuntimeError when a server does not start or an alert is not
    decided in time. `progress` counts halves."""
    plan = plan or Plan()
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as name:
        folder = Path(name)
        project = make_isolation_project(folder / "project")
        endpoint = ScriptedEndpoint(folder / "endpoint", sop=project.sop, library=project.taught)
        settings = {
            "SOP__ALLOW_BROKEN_TOOLS": "true",
            "ENGINE__FALLBACK_DEADLINE_S": "8",
            "FALLBACK__LLM_URL": endpoint.llm_url,
            "FALLBACK__MODEL": endpoint.model,
            **{f"FALLBACK__{key}": value for key, value in FALLBACK.items()},
        }
        with endpoint, ServedTriage(folder / "run", project.config, settings) as daemon:
            session = Session(daemon=daemon, endpoint=endpoint, plan=plan)
            return _measured(session, progress)


def _measured(session: Session, progress: Progress) -> dict[str, Any]:
    plan = session.plan
    steps = 1 + plan.pairs * (1 + 2 * len(plan.troubles))
    session.half(Mode.SCRIPT)  # warms everything up
    progress(1, steps)
    pairs: dict[Mode, list[tuple[Half, Half]]] = {trouble: [] for trouble in plan.troubles}
    quiet: list[Half] = []
    done = 1
    for index in range(plan.pairs):
        quiet.append(session.half(Mode.SCRIPT, strays=False))
        done += 1
        progress(done, steps)
        for trouble in plan.troubles:
            order = (Mode.SCRIPT, trouble) if index % 2 == 0 else (trouble, Mode.SCRIPT)
            halves = {}
            for mode in order:
                halves[mode] = session.half(mode)
                done += 1
                progress(done, steps)
            pairs[trouble].append((halves[trouble], halves[Mode.SCRIPT]))
    session.endpoint.switch(Mode.SCRIPT)
    ledger = session.daemon.settled_ledger(within_s=SETTLE_S)
    if not ledger["balances"] or ledger["decided"] != len(session.accepted):
        raise IsolationFailed(f"{len(session.accepted)} were accepted, and the ledger has {ledger}")
    return figures(plan, pairs, quiet) | {
        name: ledger[name] for name in ("accepted", "decided", "pending", "dead_lettered")
    }


def figures(
    plan: Plan, pairs: Mapping[Mode, Sequence[tuple[Half, Half]]], quiet: Sequence[Half]
) -> dict[str, Any]:
    """Of pairs (in trouble, healthy), and of halves without stray alerts, one a round. Ratios are
    of p99 latencies, percentiles by nearest rank."""
    found: dict[str, Any] = {}
    for trouble, both in pairs.items():
        ratios = [bad.p99_s / healthy.p99_s for bad, healthy in both]
        found |= {
            f"p99_ratio_{trouble}": round(median(ratios), 3),
            f"p99_ratios_{trouble}": [round(ratio, 3) for ratio in ratios],
            f"p99_ms_{trouble}": _ms(median(bad.p99_s for bad, _ in both)),
            f"p99_ms_healthy_beside_{trouble}": _ms(median(good.p99_s for _, good in both)),
            f"p50_ms_{trouble}": _ms(median(nearest_rank(bad.latencies, 0.5) for bad, _ in both)),
            f"p50_ms_healthy_beside_{trouble}": _ms(
                median(nearest_rank(good.latencies, 0.5) for _, good in both)
            ),
            f"stray_max_ms_{trouble}": _ms(max(max(bad.stray_latencies) for bad, _ in both)),
            f"stray_degraded_{trouble}": sum(bad.stray_degraded for bad, _ in both),
        }
    halves = [half for both in pairs.values() for pair in both for half in pair]
    healthy = [half for half in halves if half.mode is Mode.SCRIPT]
    return {
        **found,
        "p99_ms_quiet": _ms(median(half.p99_s for half in quiet)),
        "p50_ms_quiet": _ms(median(nearest_rank(half.latencies, 0.5) for half in quiet)),
        "p99_ratio_healthy_to_quiet": round(
            median(half.p99_s for half in healthy) / median(half.p99_s for half in quiet), 3
        ),
        "pairs": plan.pairs,
        "rate_per_s": plan.rate_per_s,
        "half_s": plan.half_s,
        "stray_share": 1 / EVERY,
        "unaffected_alerts": sum(len(half.latencies) for half in halves),
        "stray_alerts": sum(len(half.stray_latencies) for half in halves),
        "stray_p50_ms_healthy": _ms(
            median(nearest_rank(half.stray_latencies, 0.5) for half in healthy)
        ),
        "stray_answered_healthy": sum(
            len(half.stray_latencies) - half.stray_degraded for half in healthy
        ),
        "stray_degraded_healthy": sum(half.stray_degraded for half in healthy),
        "unaffected_degraded": 0,  # IsolationFailed was raised otherwise
        "all_decided": True,  # likewise
        "sender_late_p99_ms": _ms(max(half.sender_late_s for half in halves)),
        "seed": SEED,
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
