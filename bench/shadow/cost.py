"""`python -m bench shadow`: what shadows cost the alerts beside them.

One real `triage serve`, and alerts in an open loop at a fixed rate. For some seconds some of its
nodes have a version in shadow and for some none has, in pairs whose order alternates; a reload
comes before each half, whether it changes anything or not. Of each half the p99 latency is taken,
and of each pair their ratio. What is reported is the median ratio of the pairs. In both halves of a
pair alerts are sent at the same moments from its begin: which of them come close together makes
more of a p99 than what is measured does.

Shadows are compared up to five seconds later, so the alerts of the first six seconds of a half do
not count: those that count all meet what came of some before them. A half with shadows is over when
all are compared, so that no half pays for the one before it.
"""

from __future__ import annotations

import re
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bench.load.open_loop import arrivals, run_precisely, send_all
from bench.load.small import NODES, make_project, payload
from bench.ranks import nearest_rank
from bench.served import DecidedLog, ServedTriage
from bench.servers import HOST, wait_until
from bench.shadow.changed import AT
from bench.watching import Progress, unseen
from triage.library.lifecycle import add_version, shadow_start, shadow_stop
from triage.library.manifest import source_path
from triage.model.decision import NodeId
from triage.ports import Compared
from triage.sop.load import load_sop
from triage.sop.procedure import Sop

SEED = 6
SETTLE_S = 60.0
LIMIT = 1.1

_COMPARED = re.compile(
    rb'^triage_shadow_comparisons_total\{node="[^"]+",result="([a-z]+)"\} (\S+)$', re.MULTILINE
)
_WAITING = re.compile(rb"^triage_shadow_waiting (\S+)$", re.MULTILINE)


class CostFailed(Exception):
    """It could not be measured, or a half was not what it must be; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`shadows` of the project's six nodes have one, each of which every alert reaches. `half_s` is
    the time that counts of each half, after `lead_s`, which is longer than decisions are gathered
    for."""

    rate_per_s: float = 20.0
    lead_s: float = 6.0
    half_s: float = 30.0
    pairs: int = 10
    shadows: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Seconds with shadows or without. Latencies are seconds, ascending."""

    on: bool
    latencies: Sequence[float]
    counts: Mapping[Compared, int]
    sender_late_s: float

    @property
    def p99_s(self) -> float:
        return nearest_rank(self.latencies, 0.99)


@dataclass(slots=True, kw_only=True)
class _Library:
    """The project's tools: those that may be in shadow differ in nothing but a comment, so that a
    half with shadows has as much to write as one that goes well."""

    root: Path
    sop: Sop
    nodes: Sequence[NodeId]
    versions: dict[NodeId, int] = field(default_factory=dict)
    is_on: bool = False

    def add(self) -> None:
        for node in self.nodes:
            text = source_path(self.root, node, 1).read_text("utf-8") + "# in shadow\n"
            self.versions[node] = add_version(
                self.root, self.sop, node, text.encode(), maker="bench", at=AT
            )

    def put(self, *, on: bool) -> None:
        for node, version in self.versions.items():
            if on and not self.is_on:
                shadow_start(self.root, self.sop, node, version, by="bench", at=AT)
            elif self.is_on and not on:
                shadow_stop(self.root, self.sop, node, by="bench", at=AT)
        self.is_on = on


@dataclass(slots=True, kw_only=True)
class _Session:
    daemon: ServedTriage
    library: _Library
    plan: Plan
    decided: DecidedLog = field(init=False)
    accepted: int = 0

    def __post_init__(self) -> None:
        self.decided = DecidedLog(self.daemon.log)

    def half(self, *, on: bool, pair: int) -> Half:
        """`pair` says when alerts are sent. Raises CostFailed when an alert is refused or degraded,
        or when what is compared is not what was decided."""
        self.library.put(on=on)
        self._ask("/-/reload", method="POST")
        before = self._counts()
        due = arrivals(self.plan.rate_per_s, self.plan.lead_s + self.plan.half_s, SEED + pair)
        first, self.accepted = self.accepted, self.accepted + len(due)
        sent = run_precisely(send_all(self.daemon.port, due, self._request, first))
        if refused := [one for one in sent if one.status != 202]:
            raise CostFailed(f"{len(refused)} alerts were not accepted: {refused[0].status}")
        ids = {
            alert_id: one.due for one in sent for alert_id in orjson.loads(one.body)["alert_ids"]
        }
        self.decided.wait_for(ids.keys(), within_s=SETTLE_S)
        if hurt := ids.keys() & self.decided.degraded:
            raise CostFailed(f"{len(hurt)} alerts were degraded")
        wanted = len(due) * len(self.library.nodes) if on else 0
        counts = self._compared(before, wanted)
        counted_from = min(ids.values()) + self.plan.lead_s
        return Half(
            on=on,
            latencies=sorted(
                self.decided.at[alert_id] - at for alert_id, at in ids.items() if at >= counted_from
            ),
            counts=counts,
            sender_late_s=nearest_rank([one.left - one.due for one in sent], 0.99),
        )

    def _compared(self, before: Mapping[Compared, int], wanted: int) -> Mapping[Compared, int]:
        """What came to be counted since, once it is all there."""
        since: dict[Compared, int] = {}

        def all_there() -> bool:
            nonlocal since
            # Counters of a shadow that is not there any more are gone as well.
            since = {
                result: max(0, count - before[result]) for result, count in self._counts().items()
            }
            return sum(since.values()) >= wanted and not self._waiting()

        wait_until(
            all_there,
            what=f"{wanted} comparisons",
            process=self.daemon.process,
            within_s=SETTLE_S,
        )
        if sum(since.values()) != wanted:
            raise CostFailed(f"{sum(since.values())} were compared, and {wanted} were decided")
        return since

    def _counts(self) -> dict[Compared, int]:
        counts = dict.fromkeys(Compared, 0)
        for result, value in _COMPARED.findall(self._ask("/metrics")):
            counts[Compared(result.decode())] += int(float(value))
        return counts

    def _waiting(self) -> bool:
        found = _WAITING.search(self._ask("/metrics"))
        return found is not None and float(found[1]) > 0

    def _ask(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(f"{self.daemon.url}{path}", method=method)  # noqa: S310 - our own local URL
        with urllib.request.urlopen(request, timeout=SETTLE_S) as response:  # noqa: S310 - likewise
            body: bytes = response.read()
        return body

    def _request(self, n: int) -> bytes:
        body = orjson.dumps(payload(n))
        return (
            b"POST /api/v1/alerts HTTP/1.1\r\nHost: %b:%d\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (HOST.encode(), self.daemon.port, len(body), body)
        )


def measure_cost(plan: Plan | None = None, progress: Progress = unseen) -> dict[str, Any]:
    """Raises CostFailed, and RuntimeError when the daemon does not start or an alert is not decided
    in time. `progress` counts halves."""
    plan = plan or Plan()
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as name:
        folder = Path(name)
        config = make_project(folder / "project")
        library = _Library(
            root=config.parent / "tools_lib",
            sop=load_sop(config.parent / "sop.yaml"),
            nodes=[NodeId(node) for node in NODES][: plan.shadows],
        )
        library.add()
        with ServedTriage(folder / "run", config) as daemon:
            session = _Session(daemon=daemon, library=library, plan=plan)
            found = _measured(session, progress)
            ledger = daemon.settled_ledger(within_s=SETTLE_S)
    if not ledger["balances"] or ledger["decided"] != session.accepted:
        raise CostFailed(f"{session.accepted} were accepted, and the ledger has {ledger}")
    return found | {"accepted": ledger["accepted"], "decided": ledger["decided"]}


def _measured(session: _Session, progress: Progress) -> dict[str, Any]:
    steps = 2 + 2 * session.plan.pairs
    for done, on in enumerate((True, False), 1):
        session.half(on=on, pair=-1)  # warms everything up
        progress(done, steps)
    pairs: list[tuple[Half, Half]] = []
    done = 2
    for index in range(session.plan.pairs):
        halves: dict[bool, Half] = {}
        for on in (True, False) if index % 2 == 0 else (False, True):
            halves[on] = session.half(on=on, pair=index)
            done += 1
            progress(done, steps)
        pairs.append((halves[True], halves[False]))
    return figures(session.plan, pairs)


def figures(plan: Plan, pairs: Sequence[tuple[Half, Half]]) -> dict[str, Any]:
    """Of pairs (with shadows, without). Percentiles by nearest rank."""
    ratios = [on.p99_s / off.p99_s for on, off in pairs]
    halves = [half for pair in pairs for half in pair]
    counts = {result.value: sum(on.counts.get(result, 0) for on, _ in pairs) for result in Compared}
    medians: dict[str, Callable[[Half], float]] = {
        "p99": lambda half: half.p99_s,
        "p50": lambda half: nearest_rank(half.latencies, 0.5),
    }
    return {
        "p99_ratio": round(median(ratios), 3),
        "p99_ratios": [round(ratio, 3) for ratio in ratios],
        **{
            f"{name}_ms_{'on' if on else 'off'}": _ms(
                median(of(half) for half in halves if half.on is on)
            )
            for name, of in medians.items()
            for on in (True, False)
        },
        "pairs": plan.pairs,
        "rate_per_s": plan.rate_per_s,
        "lead_s": plan.lead_s,
        "half_s": plan.half_s,
        "nodes_with_shadow": plan.shadows,
        "alerts": sum(len(half.latencies) for half in halves),
        "comparisons": counts,
        "sender_late_p99_ms": _ms(max(half.sender_late_s for half in halves)),
        "seed": SEED,
    }


def is_cheap(found: Mapping[str, Any]) -> bool:
    return bool(found["p99_ratio"] <= LIMIT)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
