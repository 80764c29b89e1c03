"""How a project a hundred times as large is decided with, started and reloaded.

The project is any with sop.yaml and tools_lib; its sources live in memory. Times are seconds of
the clock, and beside each stands the CPU's own count: on a machine that others use too, that is
what can be compared.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.growth.multiply import Multiplied, Sources, copies_for, multiply, prefix
from bench.growth.project import alerts, answer, source_names, write_config
from bench.servers import HOST, answers_ok, free_port, resident_mb, wait_until
from bench.watching import Progress
from triage.adapters.memory import MemorySource
from triage.clock import SystemClock
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import snapshot
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import NoMark
from triage.library.loader import load_library
from triage.model.alert import Alert
from triage.sop.load import load_sop
from triage.sop.sites import load_sites, no_sites
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes

ROOT = Path(__file__).parents[2]
NODES = 4_400
PAIRS = 60
WARM_UP = 5
STARTS = 3
RELOADS = 5
DRAIN_S = 60.0
READY_S = 600.0  # seconds; a busy machine is slow, and still to be measured

Decide = Callable[[Alert], Awaitable[Decided]]


def measure_sop(
    base: Path,
    progress: Progress,
    *,
    nodes: int = NODES,
    pairs: int = PAIRS,
    starts: int = STARTS,
    reloads: int = RELOADS,
) -> dict[str, Any]:
    """`base` is the project; it is multiplied to about `nodes` decision nodes.

    `sop_100x_ratio` is of the same alerts on the multiplied SOP and on the single one;
    `sop_100x_ratio_spread` of alerts of ever another copy, whose nodes nobody evaluated lately.
    `start_s_4400` is of a library whose sources all differ and that was started once before;
    `_cold` is that first start, `_shared` has the same sources in all copies.
    """
    copies = copies_for(base, nodes)
    steps = 2 + pairs + 2 * starts + 1  # projects, pairs, starts, reloads
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(done, steps)

    with tempfile.TemporaryDirectory(prefix="triage-growth-") as name:
        folder = Path(name)
        single = multiply(base, folder / "single", 1)
        made: dict[Sources, Multiplied] = {}
        kinds: tuple[Sources, ...] = ("shared", "distinct")
        for sources in kinds:
            made[sources] = multiply(base, folder / sources, copies, sources)
            write_config(made[sources], load_sop(single.sop))
            step()
        figures: dict[str, Any] = {"copies": copies, "nodes": made["distinct"].nodes}
        figures |= asyncio.run(_measure_decisions(single, made["distinct"], pairs, step))
        figures |= _measure_starts(made["distinct"], starts, step)
        shared = _measure_starts(made["shared"], starts, step)
        figures |= {f"{key}_shared": value for key, value in shared.items()}
        figures |= {
            f"{key}_4400": value
            for key, value in _measure_reloads(made["distinct"], reloads).items()
        }
        step()
    return figures


# --- decisions --------------------------------------------------------------------------------


async def _measure_decisions(
    single: Multiplied, many: Multiplied, pairs: int, step: Callable[[], None]
) -> dict[str, Any]:
    """Microseconds of one decision; the two take turns, and who begins does as well."""
    alarms = list(load_sop(single.sop).alarms)
    one, hundred = decider(single), decider(many)
    same = alerts(load_sop(single.sop), alarms)
    for alert in same:
        first, second = (await one(alert)).decision, (await hundred(alert)).decision
        if first.decision_sha256 != second.decision_sha256:
            raise AssertionError(f"{alert.alarm} is decided otherwise by the multiplied SOP")
    sop = load_sop(many.sop)
    spread = [
        alerts(sop, [prefix(copy) + alarm for alarm in alarms])
        for copy in _spread(many.copies, pairs + WARM_UP)
    ]
    gc.collect()
    gc.freeze()
    took: dict[str, list[float]] = {"one": [], "hundred": [], "spread": []}
    for index in range(WARM_UP + pairs):
        turns = [("one", one, same), ("hundred", hundred, same), ("spread", hundred, spread[index])]
        for name, decide, batch in turns if index % 2 else turns[::-1]:
            seconds = await _timed(decide, batch)
            if index >= WARM_UP:
                took[name].append(1e6 * seconds)
        if index >= WARM_UP:
            step()
    gc.unfreeze()
    p50 = {name: statistics.median(values) for name, values in took.items()}
    return {
        "sop_100x_ratio": round(p50["hundred"] / p50["one"], 3),
        "sop_100x_ratio_spread": round(p50["spread"] / p50["one"], 3),
        "decide_single_p50_us": round(p50["one"], 1),
        "decide_100x_p50_us": round(p50["hundred"], 1),
        "pairs": pairs,
        "alerts_a_pair": len(same),
    }


def _spread(copies: int, wanted: int) -> Sequence[int]:
    """Copy numbers far from one another, all others before one comes again."""
    stride = next(
        n for n in range(max(1, round(copies * 0.618)), copies + 1) if _prime_to(n, copies)
    )
    return [(index * stride) % copies for index in range(wanted)]


def _prime_to(number: int, other: int) -> bool:
    while other:
        number, other = other, number % other
    return number == 1


async def _timed(decide: Decide, batch: Sequence[Alert]) -> float:
    """Seconds of CPU a decision: nothing here waits, and others' use of the machine is no
    matter."""
    began = time.thread_time()
    for alert in batch:
        await decide(alert)
    return (time.thread_time() - began) / len(batch)


def decider(project: Multiplied) -> Decide:
    """The real engine around a project, metrics and evidence on."""
    clock = SystemClock()
    sop = load_sop(project.sop)
    library = load_library(project.library, sop)
    if library.broken:
        raise AssertionError(f"tools of the multiplied project do not load: {library.findings[0]}")
    sites_file = project.folder / "sites.yaml"
    sites = load_sites(sites_file, sop) if sites_file.exists() else no_sites(sop)
    metrics = Metrics.register(version="bench", monotonic=clock.monotonic)
    metrics.nodes.for_nodes(sop.nodes)
    sources = {
        name: GuardedSource(
            MemorySource(name, answer, keep_asked=False),
            SourceLimits(),
            metrics.sources.cell(name),
            clock.monotonic,
        )
        for name in source_names(sop)
    }
    pinned = snapshot(sop, sites, library, sources)
    engine = Engine(options=EngineOptions(), clock=clock, marker=NoMark(), metrics=metrics.nodes)
    lanes = Lanes(fast=1, slow=1)

    async def decide(alert: Alert) -> Decided:
        slot = lanes.take()
        try:
            return await engine.decide(alert, pinned, lane=slot)
        finally:
            slot.release()

    return decide


# --- starts and reloads -----------------------------------------------------------------------


class _Start(NamedTuple):
    """`cpu_s` until ready, of the daemon and of the processes that it had and that have ended."""

    seconds: float
    cpu_s: float
    resident_mb: float


def _measure_starts(project: Multiplied, starts: int, step: Callable[[], None]) -> dict[str, Any]:
    shutil.rmtree(project.folder / "data", ignore_errors=True)
    cold = _start(project)
    warm = []
    for _ in range(starts):
        warm.append(_start(project))
        step()
    return {
        "start_s_4400": round(statistics.median(s.seconds for s in warm), 3),
        "start_s_4400_max": round(max(s.seconds for s in warm), 3),
        "start_cpu_s_4400": round(statistics.median(s.cpu_s for s in warm), 3),
        "start_resident_mb_4400": round(statistics.median(s.resident_mb for s in warm), 1),
        "start_s_4400_cold": round(cold.seconds, 3),
        "start_cpu_s_4400_cold": round(cold.cpu_s, 3),
    }


def _start(project: Multiplied) -> _Start:
    port = free_port()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "triage", "serve", "--listen", f"{HOST}:{port}"],
        cwd=project.folder,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: answers_ok(f"http://{HOST}:{port}/-/ready"),
            what="triage",
            process=process,
            within_s=READY_S,
        )
        seconds = time.monotonic() - began
        return _Start(seconds, _cpu_s(process.pid), resident_mb(process.pid))
    finally:
        process.terminate()
        process.wait(timeout=DRAIN_S)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _measure_reloads(project: Multiplied, reloads: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.growth.reload_probe", str(project.folder), str(reloads)],
        cwd=ROOT,
        env=_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"bench.growth.reload_probe: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _environment() -> dict[str, str]:
    """The configuration names a source of this package."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
