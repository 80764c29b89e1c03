"""Thousands of alerts at once into one replica: all there at the end, and the critical ones first.

They are of mixed severities, and the critical ones are sent last, so that whatever is served in the
order of arrival would serve them last. What is refused (429, 503) is sent again after a second, as
a sender would. Times are the store's own: from the durable row to the decision.
"""

from __future__ import annotations

import random
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from bench.load.open_loop import Sent, run_precisely, send_all
from bench.load.small import make_project, payload
from bench.processes import forget_peak, peak_resident_mb
from bench.queued import queue_servers
from bench.ranks import nearest_rank
from bench.served import ServedTriage
from bench.servers import HOST
from bench.watching import Progress, unseen

SEED = 2026
CRITICAL_SHARE = 0.02
SEVERITIES: Mapping[str, float] = {"error": 20, "warning": 50, "info": 30}
WARM_UP = 50
SETTLE_S = 600.0
RETRY_S = 1.0  # what Retry-After says
MOST_ROUNDS = 120
PAGE = 1000


class BurstFailed(Exception):
    """It could not be measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Times are seconds since the epoch."""

    severity: str
    accepted_at: float
    decided_at: float

    @property
    def waited_s(self) -> float:
        return self.decided_at - self.accepted_at


def measure_burst(
    queue: str = "sqlite", alerts: int = 5000, progress: Progress = unseen
) -> dict[str, Any]:
    """`progress` counts answered alerts. Raises BurstFailed, MissingServer, and RuntimeError when
    the daemon does not start, or does not get through."""
    store = "postgres" if queue == "postgres" else "sqlite"
    with tempfile.TemporaryDirectory(prefix="triage-burst-") as name:
        folder = Path(name)
        config = make_project(folder / "project")
        with queue_servers(queue, store, folder) as queued:
            settings = {"STORE__MAX_PENDING": str(2 * alerts), **queued.settings}
            with ServedTriage(folder / "run", config, settings) as daemon:
                return {**_measured(daemon, alerts, progress), "queue": queue, "store": store}


def _measured(daemon: ServedTriage, alerts: int, progress: Progress) -> dict[str, Any]:
    assert daemon.process is not None
    severities = _severities(alerts)
    _send(daemon, ["warning"] * WARM_UP, first=alerts, progress=unseen)
    daemon.settled_ledger(within_s=SETTLE_S)
    before = daemon.resident_mb()
    forget_peak(daemon.process.pid)
    began = time.time()
    ids, refused = _send(daemon, severities, first=0, progress=progress)
    answered = time.time()
    ledger = daemon.settled_ledger(within_s=SETTLE_S)
    # Before the decisions are read: what their pages take is this bench's doing.
    after, peak = daemon.resident_mb(), peak_resident_mb(daemon.process.pid)
    decided = _decided(daemon, ids, severities)
    by_severity = {
        name: [one for one in decided if one.severity == name] for name in (*SEVERITIES, "critical")
    }
    lost = alerts - len(decided)
    return {
        "ok": lost == 0 and ledger["balances"] and ledger["accepted"] == alerts + WARM_UP,
        "alerts": alerts,
        "lost": lost,
        "refused": refused,
        "balances": ledger["balances"],
        "accepted_in_s": round(answered - began, 3),
        "decided_in_s": round(max(one.decided_at for one in decided) - began, 3),
        "resident_mb_before": round(before, 1),
        "resident_mb_peak": round(peak, 1),
        "resident_mb_after": round(after, 1),
        "critical_p99_s": round(_rank(by_severity["critical"], 0.99), 3),
        "critical_p50_s": round(_rank(by_severity["critical"], 0.5), 3),
        **{f"{name}_p50_s": round(_rank(by_severity[name], 0.5), 3) for name in SEVERITIES},
        **criticals_first(decided),
        "seed": SEED,
    }


def criticals_first(decided: Sequence[Settled]) -> dict[str, Any]:
    """Of the critical alerts that met lesser ones (warning, info) still waiting: the share that
    was decided before the last of those, and the mean share of those that it overtook."""
    lesser = [one for one in decided if one.severity in {"warning", "info"}]
    first, overtook = [], []
    for one in decided:
        if one.severity != "critical":
            continue
        met = [
            other.decided_at
            for other in lesser
            if other.accepted_at <= one.accepted_at < other.decided_at
        ]
        if met:
            first.append(one.decided_at < max(met))
            overtook.append(sum(one.decided_at < at for at in met) / len(met))
    return {
        "criticals_that_met_lesser": len(first),
        "criticals_before_last_lesser": round(sum(first) / len(first), 4) if first else None,
        "lesser_overtaken_mean": round(sum(overtook) / len(overtook), 4) if overtook else None,
    }


def _severities(alerts: int) -> list[str]:
    draw = random.Random(SEED)
    critical = max(1, round(alerts * CRITICAL_SHARE))
    lesser = draw.choices(list(SEVERITIES), list(SEVERITIES.values()), k=alerts - critical)
    return [*lesser, *["critical"] * critical]


def _send(
    daemon: ServedTriage, severities: Sequence[str], *, first: int, progress: Progress
) -> tuple[dict[str, int], int]:
    """Alert ids with the place of their alert, once every one was answered with 202; and how many
    answers were another."""
    ids: dict[str, int] = {}
    left = list(range(len(severities)))
    refused = 0

    def request(index: int) -> bytes:
        place = left[index]
        body = orjson.dumps({**payload(first + place), "severity": severities[place]})
        return (
            b"POST /api/v1/alerts HTTP/1.1\r\nHost: %b:%d\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (HOST.encode(), daemon.port, len(body), body)
        )

    for _ in range(MOST_ROUNDS):
        sent: list[Sent] = run_precisely(send_all(daemon.port, [0.0] * len(left), request, 0))
        again = []
        for one in sent:
            if one.status == 202:
                ids[orjson.loads(one.body)["alert_ids"][0]] = left[one.n]
            else:
                again.append(left[one.n])
        left = again
        progress(len(severities) - len(left), len(severities))
        if not left:
            return ids, refused
        refused += len(left)
        time.sleep(RETRY_S)
    raise BurstFailed(f"{len(left)} alerts were refused {MOST_ROUNDS} times")


def _decided(
    daemon: ServedTriage, ids: Mapping[str, int], severities: Sequence[str]
) -> list[Settled]:
    found: list[Settled] = []
    cursor = ""
    while True:
        url = f"{daemon.url}/api/v1/decisions?limit={PAGE}&cursor={cursor}"
        with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310 - our own local URL
            page = orjson.loads(response.read())
        found += [
            Settled(
                severity=severities[ids[head["alert_id"]]],
                accepted_at=_seconds(head["accepted_at"]),
                decided_at=_seconds(head["decided_at"]),
            )
            for head in page["decisions"]
            if head["alert_id"] in ids
        ]
        cursor = page["cursor"]
        if not cursor:
            return found


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _rank(decided: Sequence[Settled], q: float) -> float:
    return nearest_rank([one.waited_s for one in decided], q)
