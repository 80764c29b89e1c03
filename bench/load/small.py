"""A small project for the load bench: six tools in four layers, each asking an SQLite table.

What a daemon does for an alert is all there (four round trips, evidence, a sink that syncs each
line), and the source is fast, so that it is the daemon that is measured.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from triage.library.lifecycle import add_version, promote
from triage.model.decision import NodeId
from triage.sop.load import load_sop

ENTITIES = 200
NODES: Mapping[str, tuple[str, ...]] = {
    "obs_backlog": ("rc_feed", "rc_exit"),
    "rc_feed": ("rc_jam",),
    "rc_exit": ("rc_slow",),
    "rc_jam": ("cn_safe",),
    "rc_slow": ("cn_safe",),
    "cn_safe": ("clear",),
}
ALARM = "backlog"
AT = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = "triage.toml"

_TOOL = '''"""Whether the newest readings of the alert's unit are high."""

from triage.tool_api import compare, conclude, mean, no_data, rows

SQL = (
    "SELECT minute, value FROM readings WHERE unit = :unit AND metric = :metric"
    " ORDER BY minute DESC LIMIT 10"
)


def queries(warehouse, timestamp, context):
    return [rows("plant", SQL, unit=context.entity, metric="METRIC")]


def evaluate(warehouse, timestamp, context):
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no reading of the unit")
    level = mean([row["value"] for row in found])
    return conclude([compare("level", level, ">", 50.0, "percent")], "the level is high")
'''


def make_project(folder: Path) -> Path:
    """Writes it all into `folder`; returns the path of its triage.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    _fill(folder / "plant.db")
    sop_file = folder / "sop.yaml"
    sop_file.write_text(_sop())
    sop = load_sop(sop_file)
    library = folder / "tools_lib"
    for node in NODES:
        source = _TOOL.replace("METRIC", node).encode()
        number = add_version(library, sop, NodeId(node), source, maker="bench", at=AT)
        promote(library, sop, NodeId(node), number, by="bench", at=AT)
    config = folder / CONFIG
    config.write_text(
        '[sources.plant]\ntype = "sql"\nurl = "sqlite:///plant.db"\n\n'
        '[sinks.decisions]\ntype = "jsonl"\npath = "data/decisions.jsonl"\n'
    )
    return config


def payload(n: int) -> Mapping[str, Any]:
    """The n-th alert: the units take turns, and each alert is an occurrence of its own."""
    return {
        "alarm": ALARM,
        "fired_at": "2026-03-01T12:00:00Z",
        "site": "north",
        "entity": f"unit-{n % ENTITIES}",
        "severity": "warning",
        "id": f"alert-{n}",
        "labels": {"line": f"l{n % 7}", "team": "outbound"},
        "annotations": {"summary": "the backlog grows faster than it is worked off"},
    }


def _sop() -> str:
    lines = ["sop: load", "version: 1", f"alarms: {{{ALARM}: [{next(iter(NODES))}]}}", "nodes:"]
    kinds = {"obs": "observation", "rc": "root_cause", "cn": "constraint"}
    for node, following in NODES.items():
        lines += [
            f"  {node}:",
            f"    kind: {kinds[node.partition('_')[0]]}",
            f"    text: Is the level of {node} high?",
            "    sources: [plant]",
            f"    on_true: [{', '.join(following)}]",
        ]
    return "\n".join([*lines, "actions: {clear: {text: Clear it., rank: 1, cost: low}}", ""])


def _fill(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE readings (unit TEXT, metric TEXT, minute INTEGER, value REAL,"
            " PRIMARY KEY (unit, metric, minute)) WITHOUT ROWID"
        )
        connection.executemany(
            "INSERT INTO readings VALUES (?, ?, ?, ?)",
            [
                (f"unit-{unit}", node, minute, 60.0 + (unit * 31 + minute * 17) % 300 / 10)
                for unit in range(ENTITIES)
                for node in NODES
                for minute in range(10)
            ],
        )
