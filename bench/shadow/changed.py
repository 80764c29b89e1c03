"""Tools of the dock with one threshold changed, put in shadow beside their own active versions."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from triage.library.lifecycle import add_version, shadow_start
from triage.library.manifest import read_manifest, source_path
from triage.library.shadow import ShadowTool, shadow_sources
from triage.model.decision import NodeId
from triage.sop.procedure import Sop

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`before` stands once in the tool of `node`."""

    node: NodeId
    before: str
    after: str


CHANGES = (
    # Metrics, tables and an MCP server; one in which a count is compared and not a share.
    Change(
        node=NodeId("obs_pick_fail_elevated"),
        before='float(context.params["pick_fail_pct"])',
        after='1.5 * float(context.params["pick_fail_pct"])',
    ),
    Change(
        node=NodeId("obs_staging_crowded"),
        before='float(context.params["staging_pct"])',
        after='0.5 * float(context.params["staging_pct"])',
    ),
    Change(
        node=NodeId("con_alt_chute_free"),
        before='float(context.params["alternate_full_pct"])',
        after='0.0 * float(context.params["alternate_full_pct"])',
    ),
    Change(
        node=NodeId("con_ticket_open"),
        before='">=", 1, "tickets"',
        after='">=", 2, "tickets"',
    ),
)


def put_in_shadow(root: Path, sop: Sop, change: Change) -> int:
    """The version. Raises ValueError when the tool is not the one that the change is for."""
    source = _changed(root, change)
    number = add_version(root, sop, change.node, source.encode(), maker="bench", at=AT)
    shadow_start(root, sop, change.node, number, by="bench", at=AT)
    return number


def shadows_of(library: Path, folder: Path, sop: Sop) -> Mapping[NodeId, ShadowTool]:
    """All changes in shadow in a copy of the library in `folder`."""
    root = folder / library.name
    shutil.copytree(library, root)
    for change in CHANGES:
        put_in_shadow(root, sop, change)
    return shadow_sources(root, sop).tools


def _changed(root: Path, change: Change) -> str:
    manifest, _ = read_manifest(root, change.node)
    assert manifest.active is not None
    text = source_path(root, change.node, manifest.active).read_text("utf-8")
    if text.count(change.before) != 1:
        raise ValueError(f"{change.node}: {change.before!r} does not stand there once")
    return text.replace(change.before, change.after)
