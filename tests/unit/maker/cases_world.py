"""A small procedure, and lines of cases about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson

from triage.maker.cases_file import cases_path
from triage.maker.cases_reading import CasesRead, parse_cases
from triage.model.case import LabelledCase, RecordedAnswer, case_id
from triage.model.decision import NodeId
from triage.model.query import Answer, Query, encode_answer, query_document
from triage.model.site import ParamValue
from triage.sop.load import parse_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, no_sites, parse_sites

SOP = b"""\
sop: shop
version: 3
alarms: {QueueDeep: [obs_deep], QueueSlow: [obs_slow]}
params:
  depth: {value: 10, unit: jobs, min: 1, max: 100}
  slow_s: {value: 2.5, unit: s}
  strict: {value: false}
nodes:
  obs_deep:
    kind: observation
    text: Is it deep?
    sources: [metrics, tables]
    on_true: [cause_worker]
    on_false: [close]
  obs_slow:
    kind: observation
    text: Is it slow?
    sources: [metrics]
    on_true: [cause_worker]
    on_no_data: [close]
  cause_worker:
    kind: root_cause
    text: Is a worker gone?
    sources: [metrics, equipment]
    on_true: [restart_safe]
    on_false: [close]
    on_no_data: [close]
  restart_safe:
    kind: constraint
    text: Do the others carry it?
    sources: [metrics]
    on_true: [restart]
actions:
  close: {text: Close, rank: 1, cost: low, yields: true}
  restart: {text: Restart, rank: 4, cost: low}
"""

SITES = b"""\
defaults: {zone: Europe/Berlin}
sites:
  north: {aliases: [N1], params: {depth: 20}}
  south: {}
"""

NODE = NodeId("cause_worker")
AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
LINE: Mapping[str, Any] = {
    "warehouse": "north",
    "timestamp": "2026-06-01T12:31:00Z",
    "context": {"entity": "mail"},
    "expected": "true",
}
SQL: Mapping[str, Any] = {
    "kind": "rows",
    "source": "tables",
    "sql": "select depth from queues where name = :name",
    "params": {"name": "mail"},
}


def shop() -> Sop:
    return parse_sop(SOP, "sop.yaml")


def shop_sites(sop: Sop) -> Sites:
    return parse_sites(SITES, "sites.yaml", sop)


def line(**changed: Any) -> bytes:
    """LINE with some keys changed; those that are None are left out."""
    document = {key: value for key, value in {**LINE, **changed}.items() if value is not None}
    return orjson.dumps(document) + b"\n"


def parsed(*lines: bytes, node: str = NODE, without_sites: bool = False) -> CasesRead:
    sop = shop()
    sites = no_sites(sop) if without_sites else shop_sites(sop)
    return parse_cases(BytesIO(b"".join(lines)), "one.jsonl", node, sop, sites)


def told(*lines: bytes, node: str = NODE) -> list[str]:
    """The findings, without the file's name."""
    return [str(one).removeprefix("one.jsonl:") for one in parsed(*lines, node=node).findings]


def one(**changed: Any) -> LabelledCase:
    read = parsed(line(**changed))
    assert not read.findings, read.findings
    (case,) = read.cases
    return case


def labelled(
    number: int,
    expected: str = "true",
    *,
    hours: float | None = None,
    site: str = "north",
    split: str = "",
    node: NodeId = NODE,
    params: Mapping[str, ParamValue] | None = None,
    answers: tuple[tuple[Query, Answer], ...] = (),
    **fields: Any,
) -> LabelledCase:
    """A case `hours` (by default a day a number) after AT."""
    at = AT + timedelta(hours=24 * number if hours is None else hours)
    entity = f"mail-{number}"
    return LabelledCase(
        case_id=case_id(node, site, at, entity, params or {}),
        node=node,
        warehouse=site,
        timestamp=at,
        expected=expected,
        entity=entity,
        params=params or {},
        split=split,
        answers=tuple(
            RecordedAnswer(query_document(query), encode_answer(answer))
            for query, answer in answers
        ),
        **fields,
    )


def library(root: Path, *lines: bytes, node: str = NODE) -> Path:
    """The path of the node's cases in the library at `root`, with these lines in it."""
    path = cases_path(root, node)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path
