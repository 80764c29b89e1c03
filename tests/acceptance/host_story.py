"""What happened on the host example's stage, told once and looked at by many tests.

Prometheus, node exporter, Alertmanager, a service and the daemon run on free ports; a disk is
filled, the service killed and one core kept busy; everything is mended again and stopped. All that
anybody said about it on the way, the machine itself included, is in the `Story`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from examples.host import trouble
from examples.host.stage import PROGRAMS, Stage
from tests.acceptance import host_promql
from tests.payload_mutations import PAYLOADS
from tests.servers import binary, missing

Document = Mapping[str, Any]

POLL_S = 0.1
WITHIN_S = 60.0  # for anything that is waited for, on a machine that does other things as well
SCRAPES_BEFORE = 6  # of a healthy service, before it is killed
FILL_S = 8.0
FILL_PCT = 97.0
P99 = 'triage_decision_quantile_seconds{quantile="0.99"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """/proc/stat's first line at one time, seconds since the epoch."""

    at_s: float
    idle: int
    total: int


@dataclass(slots=True, kw_only=True)
class Story:
    """`decided` maps an alarm's name to the decision about the trouble caused here, `opinions`
    the clauses of these decisions, by (node, clause), to what Prometheus says by PromQL."""

    disk: Path | None = None
    disk_figures: os.statvfs_result | None = None
    burner_pid: int = 0
    shop_pid: int = 0
    shop_started_s: float = 0.0
    shop_is_gone: bool = False
    ticks: list[Ticks] = field(default_factory=list)

    page_before: str = ""
    page: str = ""
    scraped: Mapping[str, float] = field(default_factory=dict)
    p99_read_back: float = 0.0
    decided: dict[str, Document] = field(default_factory=dict)
    opinions: dict[tuple[str, str], float] = field(default_factory=dict)
    evidence: dict[str, httpx.Response] = field(default_factory=dict)

    resolves_accepted: float = 0.0
    decided_after_resolve: dict[str, Document] = field(default_factory=dict)
    posted: dict[str, httpx.Response] = field(default_factory=dict)
    decisions: Sequence[Document] = ()
    ledger: Document = field(default_factory=dict)
    delivered: Sequence[Document] = ()

    exit_status: int = -1
    log: Sequence[Document] = ()
    processes: dict[str, int] = field(default_factory=dict)
    alive_after: Sequence[str] = ()
    mounted_after: bool = False

    def busy_pct(self, from_s: float, to_s: float) -> float:
        """How busy /proc/stat says the processor was between the two."""
        first = min(self.ticks, key=lambda one: abs(one.at_s - from_s))
        last = min(self.ticks, key=lambda one: abs(one.at_s - to_s))
        return 100 * (1 - (last.idle - first.idle) / (last.total - first.total))


def tell(folder: Path) -> Story:
    """Takes about 40 s. Skips, or fails in CI, where a server is not installed."""
    for names in PROGRAMS.values():
        binary(*names, folders=("/usr/sbin", "/usr/local/bin"))
    if not Path("/proc/stat").exists():
        missing("a Linux kernel")
    story = Story()
    with contextlib.ExitStack() as undo:
        story.disk = undo.enter_context(trouble.small_disk(folder / "disk"))
        # From the first sample on, so that no window is half quiet.
        story.burner_pid = story.processes["burner"] = undo.enter_context(trouble.burner())
        with Stage(folder) as stage:
            _Teller(story, stage).tell(mend=undo.close)
    story.log = [json.loads(line) for line in _lines(folder / "triage.log")]
    story.alive_after = [
        name for name, pid in story.processes.items() if Path(f"/proc/{pid}").exists()
    ]
    story.mounted_after = str(folder) in Path("/proc/self/mounts").read_text(encoding="utf-8")
    return story


class _Teller:
    def __init__(self, story: Story, stage: Stage) -> None:
        self.story = story
        self.stage = stage
        self.triage = stage.url("triage")

    def tell(self, *, mend: Callable[[], None]) -> None:
        self.begin()
        with ThreadPoolExecutor(1) as pool:
            filling = pool.submit(self.break_things)
            self.wait_for_decisions()
            filling.result()
        self.look_at_decisions()
        self.read_p99()
        self.wait_for_resolves(mend)
        self.post_payloads()
        self.close_books()
        self.story.exit_status = self.stage.stop("triage")

    def begin(self) -> None:
        stage, story = self.stage, self.story
        stage.start_servers()
        stage.start_triage()
        for name in ("exporter", "top", "shop", "alertmanager", "prometheus", "triage"):
            story.processes[name] = stage.pid(name)
        story.shop_pid = stage.pid("shop")
        story.shop_started_s = _started_s(story.shop_pid)
        story.page_before = stage.metrics()
        self.until(
            "an ordinary day",
            lambda: self.number('sum_over_time(up{job="shop"}[1m])') >= SCRAPES_BEFORE,
        )

    def break_things(self) -> None:
        self.stage.stop("shop")
        self.story.shop_is_gone = not Path(f"/proc/{self.story.shop_pid}").exists()
        if self.story.disk is not None:
            trouble.fill(self.story.disk, to_pct=FILL_PCT, seconds=FILL_S)

    def wait_for_decisions(self) -> None:
        subjects = {"ServiceDown": "shop", "HostHighCpu": ""}
        if self.story.disk is not None:
            subjects["HostDiskFilling"] = str(self.story.disk)

        def all_decided() -> bool:
            for alarm in subjects.keys() - self.story.decided.keys():
                if (document := self.stage.decided(alarm, subjects[alarm])) is not None:
                    self.story.decided[alarm] = document
            return self.story.decided.keys() == subjects.keys()

        self.until("decisions of " + ", ".join(sorted(subjects)), all_decided)

    def look_at_decisions(self) -> None:
        if self.story.disk is not None:
            self.story.disk_figures = os.statvfs(self.story.disk)
        for document in self.story.decided.values():
            for node in document["nodes"]:
                for asked in node["asked"]:
                    digest = asked["answer_sha256"]
                    self.story.evidence[digest] = self.get(f"/api/v1/evidence/{digest}")
                for clause in node["clauses"]:
                    expression = host_promql.figure(node["node"], clause["name"], self.story.disk)
                    if expression:
                        self.story.opinions[node["node"], clause["name"]] = self.number(
                            expression, at=document["fired_at"]
                        )

    def read_p99(self) -> None:
        """Until the scrape after the last decision has arrived, Prometheus has an older figure."""

        def same() -> bool:
            self.story.page = self.stage.metrics()
            self.story.p99_read_back = self.number(P99)
            return self.story.p99_read_back == read(self.story.page, P99)

        self.until("p99 in Prometheus as on the page", same)
        self.story.scraped = {
            name: self.number(f'{name}{{job="triage"}}')
            for name in ("up", "scrape_samples_scraped", "triage_ledger_balanced")
        }

    def wait_for_resolves(self, mend: Callable[[], None]) -> None:
        self.stage.start_shop()
        self.story.processes["shop again"] = self.stage.pid("shop")
        if self.story.disk is not None:
            (self.story.disk / "debug.log").unlink()
        # Other load may keep the processor busy after ours: its resolve is not waited for.
        wanted = len(self.story.decided.keys() - {"HostHighCpu"})
        resolved = 'triage_intake_alerts_total{format="alertmanager",status="resolved"}'

        def all_resolved() -> bool:
            self.story.resolves_accepted = read(self.stage.metrics(), resolved)
            return self.story.resolves_accepted >= wanted

        self.until(f"{wanted} resolves", all_resolved)
        mend()
        for alarm, document in self.story.decided.items():
            after = self.stage.decision(document["alert_id"])
            self.story.decided_after_resolve[alarm] = after

    def post_payloads(self) -> None:
        for path in sorted(PAYLOADS.glob("*.json")):
            name = path.name.split("-", 1)[0]
            kind = "cloudevents+json" if name == "cloudevents" else "json"
            self.story.posted[path.name] = httpx.post(
                f"{self.triage}/api/v1/alerts/{name}",
                content=path.read_bytes(),
                headers={"Content-Type": f"application/{kind}"},
            )

    def close_books(self) -> None:
        def settled() -> bool:
            self.story.ledger = self.get("/api/v1/ledger?full=1").json()
            return not self.story.ledger["pending"] and not self.story.ledger["outbox_pending"]

        self.until("a ledger with nothing pending", settled)
        self.story.decisions = self.get("/api/v1/decisions?limit=1000").json()["decisions"]
        lines = _lines(self.stage.folder / "decisions.jsonl")
        self.story.delivered = [json.loads(line) for line in lines]

    # --- asking and waiting -------------------------------------------------------------------

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.triage + path)

    def number(self, expression: str, *, at: str = "") -> float:
        """The one value of an instant query, NaN when there is none."""
        response = httpx.get(
            self.stage.url("prometheus") + "/api/v1/query",
            params={"query": expression, **({"time": at} if at else {})},
        )
        found = response.raise_for_status().json()["data"]["result"]
        assert len(found) <= 1, (expression, found)
        return float(found[0]["value"][1]) if found else float("nan")

    def until(self, what: str, ready: Callable[[], bool]) -> None:
        """The one place that waits; keeps /proc/stat's figures while it does."""
        deadline = time.monotonic() + WITHIN_S
        pause = threading.Event()
        while True:
            idle, total = trouble.processor_time()
            self.story.ticks.append(Ticks(at_s=time.time(), idle=idle, total=total))
            if ready():
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no {what} in {WITHIN_S:g} s; firing: {sorted(self.stage.firing())}\n"
                    + self.stage.tail("triage")
                )
            pause.wait(POLL_S)


def read(page: str, series: str) -> float:
    """The value of one series of a metrics page, written as the page writes it."""
    values = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(series)]
    assert len(values) == 1, (series, values)
    return float(values[0])


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _started_s(pid: int) -> float:
    """When the process was started, seconds since the epoch, by the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return time.time() - uptime_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")
