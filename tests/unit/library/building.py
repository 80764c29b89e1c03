"""Procedures and tools built by hand, for the tests of the library."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from triage.library.lifecycle import add_version, promote
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId, NodeKind
from triage.sop.procedure import WORDS, Node, Sop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

AT = datetime(2026, 1, 1, tzinfo=UTC)

GOOD = b'''"""Is the queue deep?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import fsum

from triage.tool_api import Context, Query, Verdict, compare, conclude, no_data, samples, selector

WINDOW_S = 300


@dataclass(frozen=True)
class Depth:
    value: float


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    return [samples("metrics", selector("queue_depth", site=warehouse), timestamp, WINDOW_S)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    series = context.answer(queries(warehouse, timestamp, context)[0])
    if not series:
        return no_data("no samples")
    depth = Depth(fsum(series[0].values) / len(series[0].values))
    return conclude([compare("depth", depth.value, ">", 8.0)], f"depth {depth.value:.1f}")
'''

DYNAMIC = b"""from triage.tool_api import conclude, compare, rows


async def evaluate(warehouse, timestamp, context):
    found = await context.ask(rows("tables", "select 1 as n"))
    return conclude([compare("n", found[0]["n"], "==", 1)], "one")
"""


def node(name: str, targets: Mapping[str, Sequence[str]] | None = None, text: str = "") -> Node:
    text = text or f"Is {name} so?"
    return Node(
        node=NodeId(name),
        kind=NodeKind.OBSERVATION,
        text=text,
        text_sha256=sha256_hex(text.encode()),
        sources=("metrics",),
        targets={word: tuple((targets or {}).get(word, ())) for word in WORDS},
    )


def sop(*nodes: Node, alarms: Mapping[str, Sequence[str]] | None = None) -> Sop:
    entries = {"al": [nodes[0].node]} if alarms is None else alarms
    return Sop(
        name="test",
        version=1,
        sha256="",
        file="sop.yaml",
        alarms={name: tuple(NodeId(n) for n in names) for name, names in entries.items()},
        aliases={},
        params={},
        nodes={n.node: n for n in nodes},
        actions={},
    )


def add_active(
    root: Path,
    procedure: Sop,
    name: str,
    source: bytes = GOOD,
    *,
    dynamic: bool = False,
    reads_parents: Sequence[NodeId] = (),
) -> int:
    number = add_version(
        root,
        procedure,
        NodeId(name),
        source,
        maker="hand",
        at=AT,
        dynamic=dynamic,
        reads_parents=reads_parents,
    )
    promote(root, procedure, NodeId(name), number, by="ann", at=AT)
    return number
