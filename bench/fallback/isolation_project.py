"""A small project in which one alert in some has a node without a tool.

It is that of the load bench, whose source is fast, and beside its alarm another that enters a node
of its own. The endpoint learned an answer for that node; the library that is served has none.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.load.small import ALARM, AT, NODES, make_project, payload
from triage.library.lifecycle import add_version, promote
from triage.library.manifest import source_path
from triage.model.decision import NodeId
from triage.sop.load import load_sop

STRAY_ALARM = "stray"
STRAY_NODE = NodeId("obs_stray")
STRAY_TEXT = "Does anything stand where nothing should stand?"
EVERY = 5
"""Of so many alerts one is the stray one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationProject:
    """`config` is the project's triage.toml. `taught` is a library that has every node's tool."""

    config: Path
    sop: Path
    taught: Path


def make_isolation_project(folder: Path) -> IsolationProject:
    """Writes it all into `folder`."""
    config = make_project(folder)
    sop_file = folder / "sop.yaml"
    _add_the_node(sop_file)
    first = next(iter(NODES))
    with closing(sqlite3.connect(folder / "plant.db")) as connection, connection:
        connection.execute(
            "INSERT INTO readings SELECT unit, ?, minute, value FROM readings WHERE metric = ?",
            (STRAY_NODE, first),
        )
    taught = folder / "taught"
    shutil.copytree(folder / "tools_lib", taught)
    tool = source_path(taught, NodeId(first), 1).read_text().replace(first, STRAY_NODE)
    sop = load_sop(sop_file)
    number = add_version(taught, sop, STRAY_NODE, tool.encode(), maker="bench", at=AT)
    promote(taught, sop, STRAY_NODE, number, by="bench", at=AT)
    return IsolationProject(config=config, sop=sop_file, taught=taught)


def _add_the_node(sop_file: Path) -> None:
    document = yaml.safe_load(sop_file.read_text())
    document["alarms"][STRAY_ALARM] = [STRAY_NODE]
    document["nodes"][STRAY_NODE] = {
        "kind": "observation",
        "text": STRAY_TEXT,
        "sources": ["plant"],
        "on_true": ["clear"],
    }
    sop_file.write_text(yaml.safe_dump(document, sort_keys=False))


def is_stray(n: int) -> bool:
    """Whether the n-th alert needs the fallback."""
    return n % EVERY == EVERY - 1


def mixed_payload(n: int) -> Mapping[str, Any]:
    """The n-th alert."""
    return {**payload(n), "alarm": STRAY_ALARM if is_stray(n) else ALARM}
