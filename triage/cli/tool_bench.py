"""What the commands of `triage tools` work on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from triage.app.data_folder import data_folder
from triage.app.settings import Settings
from triage.cli.nodes import node_named
from triage.library import lifecycle, quarantine
from triage.library.overview import ToolRow
from triage.model.decision import NodeId
from triage.sop.load import load_sop
from triage.sop.procedure import Sop

Node = Annotated[str, typer.Argument(metavar="NODE", help="The node whose tool it is.")]
RELOAD = "a running daemon takes it up on SIGHUP or POST /-/reload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """`settings` are without their secrets."""

    settings: Settings
    sop: Sop
    root: Path
    quarantined: Mapping[str, str]

    def rows(self) -> list[ToolRow]:
        return lifecycle.describe(self.root, self.sop, quarantined=self.quarantined)

    def node(self, name: str) -> NodeId:
        """Raises BadParameter for a node that the SOP does not have."""
        return node_named(self.sop, name)

    def row(self, name: str) -> ToolRow:
        node = self.node(name)
        return next(row for row in self.rows() if row.node == node)


def bench(config: Path) -> Bench:
    """Raises ConfigError for a configuration, SOP or quarantine that cannot be read."""
    settings = Settings.load(config, os.environ, read_secrets=False)
    return Bench(
        settings=settings,
        sop=load_sop(settings.sop.file),
        root=settings.sop.library,
        quarantined=quarantine.read(data_folder(settings).quarantine),
    )
