"""What the commands of `triage cases` work on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.app.settings import Settings
from triage.cli.nodes import node_named
from triage.maker.cases_file import cases_path, read_cases
from triage.maker.cases_reading import CasesRead
from triage.maker.cases_split import Split, split_cases
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.sop.load import load_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """`root` is the library."""

    sop: Sop
    sites: Sites
    root: Path

    def node(self, name: str, hint: str = "NODE") -> NodeId:
        """Raises BadParameter for a node that the SOP does not have."""
        return node_named(self.sop, name, hint)

    def read(self, node: NodeId) -> CasesRead:
        return read_cases(cases_path(self.root, node), self.sop, self.sites)

    def split(self, cases: Sequence[LabelledCase]) -> Split:
        return split_cases(cases, sites=self.sites)


def bench(config: Path) -> Bench:
    """Raises ConfigError for a configuration, SOP or sites file that cannot be read."""
    settings = Settings.load(config, os.environ, read_secrets=False)
    sop = load_sop(settings.sop.file)
    sites = load_sites(settings.sop.sites, sop)
    return Bench(sop=sop, sites=sites, root=settings.sop.library)
