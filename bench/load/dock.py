"""The dock as a load: its own procedure, sources and alerts, behind one real daemon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.demo.wire import CONFIG, native, source_settings
from bench.demo.world import build_demo_world
from bench.dock import DEMO
from bench.load.sustained import LoadTarget, Plan
from bench.replay.alerts import historical_alerts

DAY_S = 86_400
ALERTS = 300
PLAN = Plan(
    unloaded_rate=4.0,
    unloaded_s=10.0,
    first_rate=14.0,
    confirm_s=10.0,
    run_s=12.0,
    rounds=2,
    close=1.2,
)
"""The dock's alerts take tens of milliseconds, so rates are lower than a store alone bears."""


def dock_target(folder: Path = DEMO) -> LoadTarget:
    """The alerts of the demo's day, over and over: each time an occurrence of its own, asking
    what was asked before. Nothing is kept of answers but by SQLite and the kernel."""
    world = build_demo_world(folder)
    alerts = historical_alerts(world, ALERTS, between=(world.end - DAY_S, world.end))
    documents = [native(alert) for alert in alerts]

    def payload(n: int) -> Mapping[str, Any]:
        document = documents[n % len(documents)]
        return {**document, "id": f"{document['id']}/{n}"}

    sent = folder / "decisions.jsonl"
    sent.unlink(missing_ok=True)  # of the run before
    return LoadTarget(
        config=CONFIG,
        payload=payload,
        settings={**source_settings(folder), "SINKS__DECISIONS__PATH": str(sent)},
    )
