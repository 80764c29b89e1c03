"""What a run came to, as figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bench.chaos.checks import Facts, Findings
from bench.chaos.facts import StoreRows
from bench.chaos.faults import Controller
from bench.chaos.options import Options
from bench.chaos.plan import HANG
from bench.chaos.recovery import Death, Recovery
from bench.chaos.replicas import Replica

SHOWN_RECOVERIES = 5
PACKAGES = ("redis", "nats-py", "psycopg", "sqlalchemy")


def deaths(replicas: Sequence[Replica]) -> list[Death]:
    kills = [
        Death(at=at, replica=one.number, kind="kill") for one in replicas for at in one.times.killed
    ]
    stops = [
        Death(at=at, replica=one.number, kind="stop")
        for one in replicas
        for at, _ in one.times.stopped
    ]
    return sorted((*kills, *stops), key=lambda death: death.at)


def totals(facts: Facts, found: Findings) -> dict[str, Any]:
    ledger = facts.ledger
    return {
        "ok": found.ok,
        "accepted": ledger["accepted"],
        "decided": ledger["decided"],
        "pending": ledger["pending"],
        "dead_lettered": ledger["dead_lettered"],
        "missing": len(found.missing),
        "duplicates": len(found.duplicates),
        "balances": not found.unbalanced,
        "promised": len({one for promise in facts.promises for one in promise.ids}),
        "degraded": sum(row.degraded for row in facts.rows.decisions),
        "degraded_by": dict(Counter(why for row in facts.rows.decisions for why in row.failures)),
        "messages": len(facts.receipts),
        "told_again": len(facts.receipts) - len({one.key for one in facts.receipts}),
        "attempts_most": max((row.attempts for row in facts.rows.alerts.values()), default=0),
    }


def faults(controller: Controller, replicas: Sequence[Replica], drops: int) -> dict[str, Any]:
    return {
        "kills": sum(len(one.times.killed) for one in replicas),
        "stops": sum(len(one.times.stopped) for one in replicas),
        "restarts": sum(one.how != HANG for one in controller.outages),
        "hangs": sum(one.how == HANG for one in controller.outages),
        "drops": drops,
        "skipped": sum("skipped" in done for done in controller.done.values()),
        "longest_outages_s": {
            what: round(max(o.until - o.since for o in controller.outages if o.what == what), 1)
            for what in sorted({one.what for one in controller.outages})
        },
    }


def recovered(held: Sequence[Recovery], options: Options) -> dict[str, Any]:
    """Of the recoveries, the longest first. `max_recovery_s` is of those that no outage of a server
    disturbed."""
    alone = [one for one in held if not one.disturbed]
    disturbed = [one for one in held if one.disturbed]
    longest, longest_disturbed = (
        max((one.recovery_s for one in some), default=0.0) for some in (alone, disturbed)
    )
    return {
        "max_recovery_s": round(longest, 3),
        "lease_s": options.lease_s,
        "recovered_in_time": longest <= options.lease_s + 2.0,
        "recoveries": len(alone),
        "max_recovery_disturbed_s": round(longest_disturbed, 3),
        "recoveries_disturbed": len(disturbed),
        "longest_recoveries": [
            {
                "alert_id": one.alert_id,
                "after": f"{one.death.kind} of replica-{one.death.replica}",
                "disturbed": one.disturbed,
                **{
                    name: round(getattr(one, name), 3)
                    for name in ("recovery_s", "waited_s", "dark_s", "queued_s")
                },
            }
            for one in (*alone[:SHOWN_RECOVERIES], *disturbed[:SHOWN_RECOVERIES])
        ],
    }


def kept_rows(rows: StoreRows) -> dict[str, Any]:
    return {
        "alerts": [asdict(row) for row in rows.alerts.values()],
        "decisions": [asdict(row) for row in rows.decisions],
    }


def packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
