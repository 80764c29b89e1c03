"""Nodes as a person names them."""

from __future__ import annotations

import typer

from triage.cli.findings import shown_path
from triage.model.decision import NodeId
from triage.sop.nearest import Nearest
from triage.sop.procedure import Sop


def node_named(sop: Sop, name: str, hint: str = "NODE") -> NodeId:
    """Raises BadParameter, which speaks of `hint`, for a node that the SOP does not have."""
    if name in sop.nodes:
        return NodeId(name)
    advice = Nearest()(name, sop.nodes) or "see `triage tools list`"
    raise typer.BadParameter(
        f"{shown_path(sop.file)} has no node {name!r}: {advice}", param_hint=hint
    )
