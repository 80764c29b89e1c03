"""What a second replica brings: rate, and CPU time an alert.

Each source call takes 20 ms, in four layers, and each replica works on few alerts at once, so that
a replica's rate is bound by its sources and not by this machine's cores. Alerts are sent beforehand
in arrays, to all replicas that run; what is measured is a stretch in which there is always more to
do. One and two replicas take turns, each time started anew, and medians are given.

CPU time is the daemons' own (user and system, of the process, from /proc) over that stretch,
divided by the alerts decided in it by their own log; the servers' is given apart.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.chaos.project import slow_project
from bench.load.small import payload
from bench.processes import cpu_s, tree_cpu_s
from bench.queued import Queued, queue_servers
from bench.served import DecidedLog, ServedTriage
from bench.watching import Progress, unseen

SOURCE_MS = 20.0
LAYERS = 4
SLOTS = 4
ARRAY = 100
WARM_UP = 40  # alerts a replica, before anything is measured
SETTLE_S = 180.0


class ScaleFailed(Exception):
    """It could not be measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Durations are seconds. `lead_s` is left out after the alerts were sent."""

    rounds: int = 3
    measured_s: float = 15.0
    lead_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """`cpu_ms` and `servers_cpu_ms` are milliseconds an alert."""

    replicas: int
    per_s: float
    cpu_ms: float
    servers_cpu_ms: Mapping[str, float]


def measure_scale(
    queue: str = "redis", plan: Plan | None = None, progress: Progress = unseen
) -> dict[str, Any]:
    """`progress` counts stretches. Raises ScaleFailed, MissingServer, and RuntimeError when a
    daemon does not start."""
    plan = plan or Plan()
    stretches: list[Stretch] = []
    with tempfile.TemporaryDirectory(prefix="triage-scale-") as name, ExitStack() as stack:
        folder = Path(name)
        config = slow_project(folder / "project", delay_ms=SOURCE_MS)
        queued = stack.enter_context(queue_servers(queue, "postgres", folder))
        sent = 0
        for _ in range(plan.rounds):
            for replicas in (1, 2):
                run = _Run(folder, config, queued, plan, first=sent)
                stretches.append(run.measure(replicas))
                sent = run.sent
                progress(len(stretches), 2 * plan.rounds)
    return _figures(queue, plan, stretches)


class _Run:
    def __init__(self, folder: Path, config: Path, queued: Queued, plan: Plan, first: int) -> None:
        self.sent = first
        self._folder = folder
        self._config = config
        self._queued = queued
        self._plan = plan

    def measure(self, replicas: int) -> Stretch:
        with ExitStack() as stack:
            daemons = [
                stack.enter_context(
                    ServedTriage(self._own(number), self._config, self._settings(number))
                )
                for number in range(replicas)
            ]
            logs = [DecidedLog(daemon.log) for daemon in daemons]
            self._send(daemons, WARM_UP * replicas)
            daemons[0].settled_ledger(within_s=SETTLE_S)
            self._send(daemons, self._backlog(replicas))
            stretch = self._stretch(daemons, logs)
            ledger = daemons[0].settled_ledger(within_s=SETTLE_S)
        if not ledger["balances"] or ledger["decided"] != self.sent:
            raise ScaleFailed(f"{self.sent} alerts were sent, and the ledger has {ledger}")
        for number in range(replicas):  # their logs are of this stretch alone
            (self._own(number) / "triage.log").unlink()
        return stretch

    def _stretch(self, daemons: Sequence[ServedTriage], logs: Sequence[DecidedLog]) -> Stretch:
        pids = [daemon.process.pid for daemon in daemons if daemon.process is not None]
        time.sleep(self._plan.lead_s)
        began, cpu, servers = time.time(), sum(map(cpu_s, pids)), self._servers()
        time.sleep(self._plan.measured_s)
        ended, cpu_after, servers_after = time.time(), sum(map(cpu_s, pids)), self._servers()
        daemons[0].settled_ledger(within_s=SETTLE_S)
        moments: list[float] = []
        for log in logs:
            log.wait_for((), within_s=SETTLE_S)
            moments += log.at.values()
        count = sum(began < at <= ended for at in moments)
        if not count or max(moments) <= ended:
            raise ScaleFailed(
                f"the alerts sent beforehand were all decided before the end: {len(moments)}"
            )
        return Stretch(
            replicas=len(daemons),
            per_s=count / (ended - began),
            cpu_ms=1000 * (cpu_after - cpu) / count,
            servers_cpu_ms={
                name: 1000 * (servers_after[name] - before) / count
                for name, before in servers.items()
            },
        )

    def _backlog(self, replicas: int) -> int:
        """More than sources allow until the end of the stretch."""
        highest = replicas * SLOTS / (LAYERS * SOURCE_MS / 1000)
        return int(1.1 * highest * (self._plan.lead_s + self._plan.measured_s)) + ARRAY

    def _send(self, daemons: Sequence[ServedTriage], count: int) -> None:
        """In arrays, to each in turn. Returns when all have been answered with 202."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        for turn, start in enumerate(range(0, count, ARRAY)):
            body = orjson.dumps([payload(n) for n in numbers[start : start + ARRAY]])
            request = urllib.request.Request(  # noqa: S310 - our own local URL
                f"{daemons[turn % len(daemons)].url}/api/v1/alerts",
                data=body,
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - as above
                if response.status != 202:
                    raise ScaleFailed(f"an array of alerts was answered with {response.status}")

    def _servers(self) -> dict[str, float]:
        return {name: tree_cpu_s(pid) for name, pid in self._queued.servers.items()}

    def _own(self, number: int) -> Path:
        return self._folder / f"replica-{number}"

    def _settings(self, number: int) -> dict[str, str]:
        return {
            **self._queued.settings,
            "STORE__DATA": str(self._own(number) / "data"),
            "ENGINE__FAST_SLOTS": str(SLOTS),
        }


def _figures(queue: str, plan: Plan, stretches: Sequence[Stretch]) -> dict[str, Any]:
    one, two = ([s for s in stretches if s.replicas == count] for count in (1, 2))
    one_per_s, two_per_s = (statistics.median(s.per_s for s in each) for each in (one, two))
    one_cpu, two_cpu = (statistics.median(s.cpu_ms for s in each) for each in (one, two))
    return {
        "one_replica_per_s": round(one_per_s, 2),
        "two_replicas_per_s": round(two_per_s, 2),
        "ratio": round(two_per_s / one_per_s, 3),
        "cpu_ms_per_alert_one": round(one_cpu, 3),
        "cpu_ms_per_alert_two": round(two_cpu, 3),
        "cpu_ratio": round(two_cpu / one_cpu, 3),
        **{
            f"{name}_cpu_ms_per_alert_{word}": round(
                statistics.median(s.servers_cpu_ms[name] for s in each), 3
            )
            for name in one[0].servers_cpu_ms
            for word, each in (("one", one), ("two", two))
        },
        "by_round": [[s.replicas, round(s.per_s, 2), round(s.cpu_ms, 3)] for s in stretches],
        "queue": queue,
        "store": "postgres",
        "source_ms": SOURCE_MS,
        "layers": LAYERS,
        "slots_a_replica": SLOTS,
        "measured_s": plan.measured_s,
    }
