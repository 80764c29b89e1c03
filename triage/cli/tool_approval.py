"""What `triage tools promote` does around the promotion itself."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from triage.app.settings import Settings
from triage.cli.output import busy, progress
from triage.cli.tool_bench import Bench
from triage.errors import ConfigError, Finding
from triage.library.manifest import ManifestVersion
from triage.model.decision import NodeId


def try_both(library: Bench, config: Path, node: NodeId, entry: ManifestVersion) -> list[Finding]:
    """Runs the node's cases in both interpreters; warnings. Raises ConfigError when they differ,
    InvalidFiles for cases that cannot be read."""
    # What tries a tool is more than the other commands of `triage tools` need.
    from triage.app.approval import Approval

    settings = _with_secrets(config)
    approval = Approval(
        settings=settings or library.settings,
        sop=library.sop,
        node=node,
        entry=entry,
        live=settings is not None,
    )
    with busy(f"reading the cases of {node}"):
        sites, cases = approval.cases()
    if not cases:
        return [approval.untried(None)]
    with progress(f"trying version {entry.version} in both interpreters", len(cases)) as bar:

        def moved(done: int, total: int) -> None:
            bar.update(bar.task_ids[0], completed=done, total=total)

        agreed = asyncio.run(approval.agree(sites, cases, moved))
    refused = approval.refused(agreed)
    if refused is not None:
        raise refused
    return [] if agreed.compared else [approval.untried(agreed)]


def _with_secrets(config: Path) -> Settings | None:
    """None where they are not there: then recorded answers have to do."""
    try:
        return Settings.load(config, os.environ)
    except ConfigError:
        return None
