"""What stands in the library: every version verified, and rows for people to look at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.errors import Finding, InvalidFiles
from triage.library.files import Unreadable
from triage.library.loader import read_source, stale_finding, strange_folders
from triage.library.manifest import (
    Act,
    Manifest,
    ManifestVersion,
    VersionStatus,
    manifest_path,
    read_manifest,
    source_path,
    unreadable,
)
from triage.library.policy import check_source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from triage.model.decision import NodeId, NodeKind
    from triage.sop.procedure import Node, Sop

_SOURCE_NAME = re.compile(r"v([1-9][0-9]{0,6})\.py")


STALE_TEXT = "stale_text"
"""How a finding about a stale row is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One node's line in a list of tools.

    `status` is `active`, `retired`, `missing`, `broken` (the manifest cannot be used) or
    `quarantined`. `active` is None when no version is. Counts are (passed, total) of the active
    version. `versions` and `history` are as the manifest has them, empty when it is unusable.
    `problem` says why a row is broken. `stale`: its text is not that of the procedure any more.
    """

    node: NodeId
    kind: NodeKind
    status: str
    active: int | None = None
    shadow: int | None = None
    candidates: tuple[int, ...] = ()
    stale: bool = False
    dynamic: bool = False
    reads_parents: tuple[str, ...] = ()
    sha256: str = ""
    maker: str = ""
    approver: str = ""
    train: tuple[int, int] = (0, 0)
    heldout: tuple[int, int] = (0, 0)
    quarantined: str = ""
    problem: str = ""
    versions: tuple[ManifestVersion, ...] = ()
    history: tuple[Act, ...] = ()


def describe(
    root: Path, sop: Sop, *, quarantined: Mapping[str, str] | None = None
) -> list[ToolRow]:
    """A row for every node of the SOP, in its order. Sources are not read: see `verify`."""
    return [_row(root, node, quarantined or {}) for node in sop.nodes.values()]


def verify(root: Path, sop: Sop) -> list[Finding]:
    """Every version of every node: manifest, file, hash, policy, text. Raises nothing."""
    if not root.is_dir():
        return [Finding(file=str(root), problem="is not a folder", fix="create the library")]
    findings: list[Finding] = []
    for node in sop.nodes.values():
        try:
            manifest, _ = read_manifest(root, node.node)
        except Unreadable as error:
            findings.append(unreadable(error, node.node))
            continue
        except InvalidFiles as error:
            findings += error.findings
            continue
        if manifest.active is None:
            findings.append(
                Finding(
                    file=str(manifest_path(root, node.node)),
                    where=node.node,
                    problem="no version is active",
                    fix=f"`triage tools promote {node.node} VERSION`",
                )
            )
        for version in manifest.versions:
            findings += _verify_version(root, node, version)
        findings += _unlisted(root, node, manifest)
    return [*findings, *strange_folders(root, sop)]


def _verify_version(root: Path, node: Node, version: ManifestVersion) -> list[Finding]:
    try:
        source = read_source(root, node.node, version)
    except Unreadable as error:
        return [unreadable(error, node.node)]
    checked = check_source(
        source,
        file=str(source_path(root, node.node, version.version)),
        node=node.node,
        dynamic=version.dynamic,
    )
    findings = list(checked.findings)
    if version.status is VersionStatus.ACTIVE and version.sop_text_sha256 != node.text_sha256:
        findings.append(stale_finding(root, node.node, version.version))
    return findings


def _unlisted(root: Path, node: Node, manifest: Manifest) -> list[Finding]:
    known = {entry.version for entry in manifest.versions}
    return [
        Finding(
            file=str(path),
            where=node.node,
            problem="no version of the manifest is this file",
            fix="remove it, or add its source as a version",
            warning=True,
        )
        for path in sorted((root / node.node).iterdir())
        if (found := _SOURCE_NAME.fullmatch(path.name)) and int(found[1]) not in known
    ]


def _row(root: Path, node: Node, quarantined: Mapping[str, str]) -> ToolRow:
    try:
        manifest, _ = read_manifest(root, node.node)
    except Unreadable as error:
        status = "missing" if error.missing else "broken"
        return ToolRow(node=node.node, kind=node.kind, status=status, problem=str(error))
    except InvalidFiles as error:
        return ToolRow(node=node.node, kind=node.kind, status="broken", problem=str(error))
    candidates = tuple(
        entry.version for entry in manifest.versions if entry.status is VersionStatus.CANDIDATE
    )
    active = manifest.active_version
    if active is None:
        retired = bool(manifest.versions) and all(
            entry.status is VersionStatus.RETIRED for entry in manifest.versions
        )
        return ToolRow(
            node=node.node,
            kind=node.kind,
            status="retired" if retired else "missing",
            shadow=manifest.shadow,
            candidates=candidates,
            versions=manifest.versions,
            history=manifest.history,
        )
    reason = quarantined.get(active.sha256, "")
    return ToolRow(
        node=node.node,
        kind=node.kind,
        status="quarantined" if reason else "active",
        active=active.version,
        shadow=manifest.shadow,
        candidates=candidates,
        stale=active.sop_text_sha256 != node.text_sha256,
        dynamic=active.dynamic,
        reads_parents=active.reads_parents,
        sha256=active.sha256,
        maker=active.maker,
        approver=active.approver,
        train=(active.train_passed, active.train_total),
        heldout=(active.heldout_passed, active.heldout_total),
        quarantined=reason,
        versions=manifest.versions,
        history=manifest.history,
    )
