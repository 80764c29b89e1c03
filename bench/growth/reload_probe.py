"""`python -m bench.reload_probe PROJECT RELOADS`: how long a reload keeps the event loop waiting.

The daemon's own `Current` and engine in this process, on the daemon's event loop, with an alert
decided every 10 ms. A heartbeat asks to be woken in 1 ms, over and over; a gap is from one beat
to the next, so a loop at leisure shows 1 ms and a stall of N ms shows N. Each reload is of an SOP
with a new version and text, and of a tool with a new source. Prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.growth.project import alerts
from triage.app.current import Current, Files
from triage.app.garbage import settle_in
from triage.app.sources import SourcePool
from triage.clock import SystemClock
from triage.engine.engine import Engine, EngineOptions
from triage.evaluation.judge import NoMark
from triage.library.manifest import manifest_path, read_manifest, source_path
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.telemetry import logs
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes

BEAT_S = 0.001
BETWEEN_DECISIONS_S = 0.01


class Pulse:
    """The longest gap between two beats since `reset`, and the decisions made."""

    def __init__(self, decide: Callable[[], Awaitable[None]]) -> None:
        self._decide = decide
        self._last = time.perf_counter()
        self.longest_s = 0.0
        self.decisions_s: list[float] = []

    def reset(self) -> None:
        self._last = time.perf_counter()
        self.longest_s = 0.0
        self.decisions_s = []

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            now = time.perf_counter()
            self.longest_s = max(self.longest_s, now - self._last)
            self._last = now

    async def keep_deciding(self) -> None:
        while True:
            began = time.perf_counter()
            await self._decide()
            self.decisions_s.append(time.perf_counter() - began)
            await asyncio.sleep(BETWEEN_DECISIONS_S)


async def probe(folder: Path, reloads: int) -> dict[str, Any]:
    files = Files(
        config=folder / "triage.toml", quarantine=folder / "data" / "quarantine.json", override={}
    )
    clock = SystemClock()
    metrics = Metrics.register(version="bench", monotonic=clock.monotonic)
    current = Current(
        files=files,
        settings=files.settings(),
        pool=SourcePool(clock, metrics.sources),
        metrics=metrics,
    )
    settle_in()
    await current.start()
    engine = Engine(options=EngineOptions(), clock=clock, marker=NoMark(), metrics=metrics.nodes)
    lanes = Lanes(fast=1, slow=1)
    sop = current.snapshots.current.sop
    todo = alerts(sop, list(sop.alarms))
    next_alert = 0

    async def decide() -> None:
        nonlocal next_alert
        alert = todo[next_alert % len(todo)]
        next_alert += 1
        pinned = current.snapshots.pin()
        slot = lanes.take()
        try:
            await engine.decide(alert, pinned, lane=slot)
        finally:
            slot.release()
            await current.snapshots.release(pinned)

    pulse = Pulse(decide)
    tasks = [asyncio.create_task(pulse.beat()), asyncio.create_task(pulse.keep_deciding())]
    stalls, floors, walls, cpus, during, without = [], [], [], [], [], []
    for number in range(reloads):
        change(folder, number)
        pulse.reset()
        began, cpu = time.perf_counter(), time.process_time()
        await current.reload()
        # What a reload leaves to free, or to be called later, is its stall as well.
        await asyncio.sleep(0.05)
        walls.append(time.perf_counter() - began)
        cpus.append(time.process_time() - cpu)
        stalls.append(pulse.longest_s)
        during += pulse.decisions_s
        pulse.reset()
        cpu = time.process_time()
        await asyncio.sleep(walls[-1])
        floors.append(pulse.longest_s)
        without += pulse.decisions_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await current.close()
    return {
        "reload_stall_ms": round(1e3 * statistics.median(stalls), 2),
        "reload_stall_ms_max": round(1e3 * max(stalls), 2),
        "no_reload_stall_ms": round(1e3 * statistics.median(floors), 2),
        "no_reload_stall_ms_max": round(1e3 * max(floors), 2),
        "reload_s": round(statistics.median(walls), 3),
        "reload_cpu_s": round(statistics.median(cpus), 3),
        "decide_during_reload_p50_ms": round(1e3 * statistics.median(during), 3),
        "decide_p50_ms": round(1e3 * statistics.median(without), 3),
        "reload_resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "reloads": reloads,
    }


def change(folder: Path, number: int) -> None:
    """Another version and alarm of the SOP, another source of its first node's tool."""
    sop = folder / "sop.yaml"
    text = sop.read_text()
    version = re.search(r"^version: (\d+)$", text, re.MULTILINE)
    assert version is not None
    text = text.replace(version[0], f"version: {int(version[1]) + 1}", 1)
    sop.write_text(text)
    library = folder / "tools_lib"
    node = NodeId(min(path.name for path in library.iterdir()))
    manifest, _ = read_manifest(library, node)
    assert manifest.active_version is not None
    source = source_path(library, node, manifest.active_version.version)
    body = source.read_bytes() + f"\nRELOAD_{number} = {number}\n".encode()
    source.write_bytes(body)
    file = manifest_path(library, node)
    file.write_text(file.read_text().replace(manifest.active_version.sha256, sha256_hex(body)))


def main() -> None:
    folder, reloads = sys.argv[1:]
    logs.configure(format="json", level="critical")
    print(json.dumps(uvloop.run(probe(Path(folder), int(reloads)))))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
