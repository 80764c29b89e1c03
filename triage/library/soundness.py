"""What every act on a tool checks before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.errors import ConfigError, Finding, InvalidFiles
from triage.library.files import Unreadable
from triage.library.loader import read_source, stale_finding
from triage.library.manifest import MAX_NAME, source_path, unreadable
from triage.library.policy import check_source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from triage.library.manifest import Manifest, ManifestVersion
    from triage.model.decision import NodeId
    from triage.sop.procedure import Node, Sop


def sound(root: Path, node: Node, entry: ManifestVersion) -> list[Finding]:
    """Verify hash and policy of a version that is about to be used; returns warnings.

    Raises Unreadable or InvalidFiles.
    """
    source = read_source(root, node.node, entry)
    path = source_path(root, node.node, entry.version)
    findings = check_source(source, file=str(path), node=node.node, dynamic=entry.dynamic).findings
    refuse_errors(findings)
    stale = entry.sop_text_sha256 != node.text_sha256
    return [*findings, *([stale_finding(root, node.node, entry.version)] if stale else [])]


def changed(root: Path, node: NodeId, entry: ManifestVersion) -> list[Finding]:
    """A warning when the file of a version is not what the manifest speaks of. What goes out of
    use may be damaged: that can be why it goes."""
    try:
        read_source(root, node, entry)
    except Unreadable as error:
        found = unreadable(error, node)
        return [
            Finding(
                file=found.file,
                where=found.where,
                problem=found.problem,
                fix="nothing runs it now; its file stays as it is",
                warning=True,
            )
        ]
    return []


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raises InvalidFiles when one is more than a warning."""
    errors = [finding for finding in findings if not finding.warning]
    if errors:
        raise InvalidFiles(errors)


def node_of(sop: Sop, node: NodeId) -> Node:
    """Raises ConfigError."""
    found = sop.nodes.get(node)
    if found is None:
        raise ConfigError(f"{sop.file}: the SOP has no node {node!r} — name one of its nodes")
    return found


def version_of(manifest: Manifest, path: Path, version: int) -> ManifestVersion:
    """`path` is the manifest's. Raises ConfigError."""
    entry = manifest.version(version)
    if entry is None:
        known = ", ".join(str(v.version) for v in manifest.versions) or "none"
        raise ConfigError(f"{path}: there is no version {version} — there are: {known}")
    return entry


def named(who: str, role: str) -> None:
    """Raises ConfigError."""
    if not who.strip() or len(who) > MAX_NAME:
        raise ConfigError(f"the {role} must be named — in at most {MAX_NAME} characters")
