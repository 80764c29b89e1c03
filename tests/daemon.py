"""A project on disk, and the daemon that serves it.

Nothing waits for a fixed time: `Daemon` ends with its `with` block, by process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from tests.daemon_neighbours import SECRET, Client
from tests.servers import HOST, Server, wait_until
from triage.library.lifecycle import add_version, promote
from triage.model.decision import NodeId
from triage.sop.load import load_sop

AT = datetime(2026, 1, 1, tzinfo=UTC)
FIRED_AT = "2026-03-01T11:59:00Z"
SECRET_VARIABLE = "TEST_HOOK_SECRET"  # noqa: S105 - the name of one

GOOD = """
from triage.tool_api import compare, conclude, last, no_data, samples, selector


def queries(warehouse, timestamp, context):
    return [samples("metrics", selector("METRIC", entity=context.entity), timestamp, 300)]


def evaluate(warehouse, timestamp, context):
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no such metric")
    return conclude([compare("value", last(found[0]), ">", 10)], "looked at it")
"""

_SILENT = """
{imports}from triage.tool_api import compare, conclude


def queries(warehouse, timestamp, context):
    return []


def evaluate(warehouse, timestamp, context):
    {body}
    return conclude([compare("one", 1, "==", 1)], "always")
"""


def good_tool(metric: str = "depth") -> str:
    """TRUE when the metric of the alert's entity is above 10."""
    return GOOD.replace("METRIC", metric)


def silent_tool(body: str = "", imports: str = "") -> str:
    """Asks nothing. TRUE, unless `body` (one statement) ends it before."""
    return _SILENT.format(body=body or "one = 1", imports=imports)


@dataclass(slots=True, kw_only=True)
class Project:
    """`nodes` maps a node's id to its tool's source. The alarm `al_x` enters at node `x`, and
    when it is so the action is `act`.

    `more` is put at the end of triage.toml. `metrics_url` is the one source's address. `rows` is
    for a store in the SQLite file.
    """

    folder: Path
    nodes: Mapping[str, str]
    metrics_url: str = "http://127.0.0.1:9"
    hook_url: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    http: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    store: Mapping[str, Any] = field(default_factory=lambda: {"url": "sqlite:///data/triage.db"})
    queue: Mapping[str, Any] = field(default_factory=dict)
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    more: str = ""

    def write(self) -> Project:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sop.write_text(self.sop_text())
        sop = load_sop(self.sop)
        for node, source in self.nodes.items():
            root = self.folder / "tools_lib"
            number = add_version(root, sop, NodeId(node), source.encode(), maker="test", at=AT)
            promote(root, sop, NodeId(node), number, by="test", at=AT)
        self.config.write_text(self.config_text())
        return self

    @property
    def config(self) -> Path:
        return self.folder / "triage.toml"

    @property
    def sop(self) -> Path:
        return self.folder / "sop.yaml"

    @property
    def database(self) -> Path:
        return self.folder / "data" / "triage.db"

    @property
    def quarantine(self) -> dict[str, str]:
        path = self.folder / "data" / "quarantine.json"
        loaded: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return loaded

    def sop_text(self, *, version: int = 1, action: str = "act") -> str:
        lines = ["sop: test", f"version: {version}", "alarms:"]
        lines += [f"  al_{node}: [{node}]" for node in self.nodes]
        lines.append("nodes:")
        for node in self.nodes:
            lines += [
                f"  {node}:",
                "    kind: observation",
                f"    text: Is {node} so?",
                "    sources: [metrics]",
                f"    on_true: [{action}]",
            ]
        lines += ["actions:", f"  {action}: {{text: Do it., rank: 1, cost: low}}", ""]
        return "\n".join(lines)

    def config_text(self) -> str:
        sections: dict[str, Mapping[str, Any]] = {
            "store": self.store,
            "queue": self.queue,
            **{f"streams.{name}": stream for name, stream in self.streams.items()},
            "engine": self.engine,
            "http": self.http,
            "sources.metrics": {"type": "prometheus", "url": self.metrics_url, **self.source},
            "log": {"format": "json"},
        }
        if self.hook_url:
            sections["sinks.hook"] = {
                "type": "webhook",
                "url": self.hook_url,
                "secret_env": SECRET_VARIABLE,
            }
        text = ""
        for name, keys in sections.items():
            text += f"[{name}]\n"
            text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        return text + self.more

    # --- the store, past the daemon ---------------------------------------------------------------

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Read from the database file itself."""
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


class Daemon(Server):
    """`python -m triage serve` of a project. `prefix` comes before its command line. `replica`
    names one of several of the same project: it has a folder of its own for what is its own."""

    name = "triage"
    ready_path = "/-/ready"

    def __init__(
        self,
        project: Project,
        *,
        prefix: Sequence[str] = (),
        listen: str = "",
        replica: str = "",
    ) -> None:
        super().__init__(project.folder / f"run{replica}")
        self.project = project
        self._replica = replica
        self._prefix = list(prefix)
        self._listen = listen or f"{HOST}:{self.port}"
        os.environ.setdefault(SECRET_VARIABLE, SECRET)

    def argv(self) -> list[str]:
        data = self.project.folder / f"data{self._replica}"
        own = ["env", f"TRIAGE_STORE__DATA={data}"] if self._replica else []
        return [
            *self._prefix,
            *own,
            sys.executable,
            *("-m", "triage", "serve", "--config", str(self.project.config)),
            *("--listen", self._listen),
        ]

    async def until_ready(self, *, ready: bool = True, within_s: float = 60) -> dict[str, Any]:
        """What readiness says, once it says so."""
        told: dict[str, Any] = {}

        def said() -> bool:
            nonlocal told
            with contextlib.suppress(OSError):
                told = self.get("/-/ready")
            return told.get("ready") is ready

        await asyncio.to_thread(wait_until, said, what=f"ready is {ready}", within_s=within_s)
        return told

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def ended(self, within_s: float = 60) -> int:
        """The exit code, once the process has ended."""
        assert self.process is not None
        code = await asyncio.to_thread(self.process.wait, within_s)
        self.process = None
        return code

    async def terminated(self) -> int:
        """SIGTERM, and the exit code."""
        self.send(signal.SIGTERM)
        return await self.ended()

    async def started(self) -> Daemon:
        """As `start`, while the test's own servers go on answering."""
        await asyncio.to_thread(self.start)
        return self

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def logged(self, event: str) -> list[dict[str, Any]]:
        found = []
        for line in self.text().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and entry.get("event") == event:
                    found.append(entry)
        return found

    async def until_logged(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        await asyncio.to_thread(
            wait_until, lambda: len(self.logged(event)) >= count, what=f"{count} x {event}"
        )
        return self.logged(event)

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(one for one in status.splitlines() if one.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    # --- its interface ----------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """The JSON at a path, whatever the status. Raises OSError when nobody answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as response:  # noqa: S310 - ours
                return json.load(response)
        except urllib.error.HTTPError as error:
            return json.load(error)

    async def ask(self, path: str) -> Any:
        return await asyncio.to_thread(self.get, path)

    async def decision(self, alert_id: str, within_s: float = 60) -> dict[str, Any]:
        """The decision, as soon as there is one."""
        found: dict[str, Any] = {}

        def decided() -> bool:
            nonlocal found
            with contextlib.suppress(OSError):
                found = self.get(f"/api/v1/decisions/{alert_id}")
            return "outcome" in found

        await asyncio.to_thread(
            wait_until, decided, what=f"decision of {alert_id}", within_s=within_s
        )
        return found

    async def settled(self, within_s: float = 60) -> dict[str, Any]:
        """The ledger, as soon as nothing is pending and nothing waits to be sent."""
        ledger: dict[str, Any] = {}

        def settled() -> bool:
            nonlocal ledger
            with contextlib.suppress(OSError):
                ledger = self.get("/api/v1/ledger?full=1")
            return ledger.get("pending") == 0 and ledger.get("outbox_pending") == 0

        await asyncio.to_thread(wait_until, settled, what="everything decided", within_s=within_s)
        return ledger


def native(alert_id: str, alarm: str, entity: str = "unit-1") -> dict[str, Any]:
    return {
        "alarm": alarm,
        "fired_at": FIRED_AT,
        "site": "north",
        "entity": entity,
        "id": alert_id,
    }


async def post(daemon: Daemon, *alerts: Mapping[str, Any]) -> list[str]:
    """The alert ids of an accepted request."""
    async with Client(daemon.port) as client:
        reply = await client.request("POST", "/api/v1/alerts", body=orjson.dumps(list(alerts)))
    assert reply.status == 202, reply.body
    ids: list[str] = orjson.loads(reply.body)["alert_ids"]
    return ids


@contextlib.contextmanager
def running(daemon: Daemon) -> Iterator[Daemon]:
    """Not started yet, and surely ended."""
    try:
        yield daemon
    finally:
        daemon.kill()


@contextlib.asynccontextmanager
async def served(project: Project, **more: Any) -> AsyncIterator[Daemon]:
    """A daemon that is ready."""
    with running(Daemon(project, **more)) as daemon:
        await daemon.started()
        yield daemon
