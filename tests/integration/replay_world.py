"""A procedure of four questions with its tools and facts, and alerts for every way through it."""

from __future__ import annotations

import shutil
import sqlite3
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from tests.unit.library.building import add_active
from triage.sop.load import check_sop

TOML = """\
[sop]
file = "sop.yaml"
sites = "sites.yaml"
[sources.tables]
type = "sql"
url = "sqlite:///facts.db"
[intake]
default_site = "home"
"""

SOP = """\
sop: queues
version: 1
alarms: {QueueDeep: [obs_deep], QueueSlow: [obs_slow], QueueLost: [obs_lost]}
params: {depth: {value: 10, unit: jobs}}
nodes:
  obs_deep:
    kind: observation
    text: Is the queue too deep?
    sources: [tables]
    on_true: [cause_stuck]
    on_false: [close_alert]
    on_no_data: [look]
  cause_stuck:
    kind: root_cause
    text: Is its worker stuck?
    sources: [tables]
    on_true: [restart, look]
    on_false: [add_worker]
  obs_slow:
    kind: observation
    text: Do jobs wait too long?
    sources: [tables]
    on_true: [add_worker]
    on_false: [close_alert]
  obs_lost:
    kind: observation
    text: Were jobs lost?
    sources: [tables]
    on_true: [look]
    on_failed: [look]
actions:
  close_alert: {text: Close it, rank: 1, cost: low, yields: true}
  look: {text: Look, rank: 2, cost: low, yields: true}
  add_worker: {text: Add a worker, rank: 3, cost: low}
  restart: {text: Restart the worker, rank: 4, cost: low}
"""

SITES = "sites: {home: {zone: UTC}}\n"

_TOOL = """\
from triage.tool_api import compare, conclude, no_data, rows


def queries(warehouse, timestamp, context):
    return [rows("tables", "SQL", name=context.entity)]


def evaluate(warehouse, timestamp, context):
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no such queue")
    value = float(found[0]["COLUMN"])
    return conclude([compare("COLUMN", value, ">", LIMIT)], f"COLUMN is {value:g}")
"""


def tool(column: str, limit: str, *, table: str = "queues") -> bytes:
    sql = f"select {column} from {table} where name = :name"  # noqa: S608 - of this file's words
    return _TOOL.replace("SQL", sql).replace("COLUMN", column).replace("LIMIT", limit).encode()


TOOLS = {
    "obs_deep": tool("depth", 'float(context.params["depth"])'),
    "cause_stuck": tool("stuck", "0.0"),
    "obs_slow": tool("age", "50.0"),
    "obs_lost": tool("lost", "0.0", table="absent"),
}
QUEUES = [("mail", 40, 5, 1), ("bulk", 100, 100, 0), ("idle", 0, 0, 0)]

ALERTS: Mapping[str, Mapping[str, str]] = {
    "deep mail": {"alarm": "QueueDeep", "entity": "mail"},
    "deep bulk": {"alarm": "QueueDeep", "entity": "bulk"},
    "deep idle": {"alarm": "QueueDeep", "entity": "idle"},
    "deep gone": {"alarm": "QueueDeep", "entity": "gone"},
    "slow mail": {"alarm": "QueueSlow", "entity": "mail"},
    "slow bulk": {"alarm": "QueueSlow", "entity": "bulk"},
    "lost mail": {"alarm": "QueueLost", "entity": "mail"},
    "unrouted": {"alarm": "QueueGone", "entity": "mail"},
    "resolved": {"alarm": "QueueSlow", "entity": "gone", "status": "resolved"},
}
"""By the name that tests call them."""


def make_replay_project(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "triage.toml").write_text(TOML)
    (folder / "sop.yaml").write_text(SOP)
    (folder / "sites.yaml").write_text(SITES)
    add_library(folder / "tools_lib", TOOLS)
    with closing(sqlite3.connect(folder / "facts.db")) as facts, facts:
        facts.execute("create table queues (name text, depth integer, age integer, stuck integer)")
        facts.executemany("insert into queues values (?, ?, ?, ?)", QUEUES)
    return folder


def add_library(root: Path, tools: Mapping[str, bytes]) -> Path:
    sop, findings = check_sop(SOP.encode(), "sop.yaml")
    assert sop is not None, findings
    root.mkdir()
    for node, source in tools.items():
        add_active(root, sop, node, source)
    return root


def post(url: str, alert: Mapping[str, str]) -> str:
    """The alert's id."""
    body = orjson.dumps({"fired_at": "2026-06-01T12:31:00Z", **alert})
    request = urllib.request.Request(f"{url}/api/v1/alerts", data=body)  # noqa: S310 - our own local URL
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
        answer: Any = orjson.loads(response.read())
    return str(answer["alerts"][0]["alert_id"])


def copy_project(project: Path, to: Path) -> Path:
    """With the store as it now is, whoever writes to it."""
    shutil.copytree(project, to, ignore=shutil.ignore_patterns("data"))
    (to / "data").mkdir()
    with (
        closing(sqlite3.connect(project / "data" / "triage.db")) as live,
        closing(sqlite3.connect(to / "data" / "triage.db")) as copy,
    ):
        live.backup(copy)
    return to
