"""The acts a person does to a tool: add a version, promote it, roll back.

Each act holds the node's lock, is checked before anything is written, and is one line of history
in the manifest. Errors are ConfigError: what, where, what to do next.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from triage.errors import ConfigError, Finding, InvalidFiles
from triage.library.editing import ManifestEdit, edit_manifest
from triage.library.files import write_new
from triage.library.loader import read_source, stale_finding
from triage.library.manifest import (
    MAX_NAME,
    MAX_VERSION,
    Act,
    Manifest,
    ManifestVersion,
    Verb,
    VersionStatus,
    source_path,
)
from triage.library.overview import describe, verify
from triage.library.policy import check_source
from triage.model.canonical import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from triage.model.decision import NodeId
    from triage.sop.procedure import Node, Sop

__all__ = ["add_version", "describe", "promote", "rollback", "verify"]

_SOURCE_NAME = re.compile(r"v([1-9][0-9]{0,6})\.py")


def add_version(
    root: Path,
    sop: Sop,
    node: NodeId,
    source: bytes,
    *,
    maker: str,
    at: datetime,
    dynamic: bool = False,
    reads_parents: Sequence[NodeId] = (),
    train: tuple[int, int] = (0, 0),
    heldout: tuple[int, int] = (0, 0),
    note: str = "",
) -> int:
    """Register `source` as the node's next candidate and return its number.

    `at` is aware. `train` and `heldout` are (passed, total) cases. Never overwrites: the number
    is above every one in the manifest or the folder. Raises InvalidFiles for a source that the
    policy refuses, ConfigError for what the SOP does not know.
    """
    owner = _node(sop, node)
    _named(maker, "maker")
    for parent in reads_parents:
        if parent not in sop.nodes or parent == node:
            raise ConfigError(
                f"{node}: reads_parents names {parent!r} — name nodes that come before it"
            )
    with edit_manifest(root, node, create=True) as edit:
        number = _fresh(edit.manifest, root / node)
        path = source_path(root, node, number)
        _refuse_errors(check_source(source, file=str(path), node=node, dynamic=dynamic).findings)
        edit.add_version(
            ManifestVersion(
                version=number,
                sha256=sha256_hex(source),
                sop_text_sha256=owner.text_sha256,
                status=VersionStatus.CANDIDATE,
                maker=maker,
                made_at=at,
                dynamic=dynamic,
                reads_parents=tuple(reads_parents),
                train_passed=train[0],
                train_total=train[1],
                heldout_passed=heldout[0],
                heldout_total=heldout[1],
            )
        )
        edit.add_act(Act(at=at, verb=Verb.ADD, version=number, by=maker, note=note))
        # The source first: a crash between the two leaves a file that nothing names, not a name
        # without a file.
        try:
            write_new(path, source)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
        edit.save()
    return number


def promote(
    root: Path,
    sop: Sop,
    node: NodeId,
    version: int,
    *,
    by: str,
    at: datetime,
    note: str = "",
) -> list[Finding]:
    """Make `version` the active one; the one before becomes deprecated. Returns warnings.

    Approval binds to the content: the hash and the policy are checked again here. Raises
    Unreadable, InvalidFiles or ConfigError, and then nothing has changed.
    """
    owner = _node(sop, node)
    _named(by, "approver")
    with edit_manifest(root, node) as edit:
        entry = edit.manifest.version(version)
        if entry is None:
            known = ", ".join(str(v.version) for v in edit.manifest.versions) or "none"
            raise ConfigError(f"{edit.path}: there is no version {version} — there are: {known}")
        if entry.status is VersionStatus.ACTIVE:
            raise ConfigError(f"{edit.path}: version {version} is active already")
        if entry.status is VersionStatus.RETIRED:
            raise ConfigError(
                f"{edit.path}: version {version} is retired — add its source as a new version"
            )
        warnings = _sound(root, owner, entry)
        _activate(edit, entry)
        edit.approve(version, by=by, at=at)
        edit.add_act(Act(at=at, verb=Verb.PROMOTE, version=version, by=by, note=note))
        edit.save()
    return warnings


def rollback(root: Path, sop: Sop, node: NodeId, *, by: str, at: datetime, note: str = "") -> int:
    """Make the version that was active before this one active again and return its number.

    Its earlier approval stands, since its hash has to be the one approved. A second rollback goes
    one further back. Raises Unreadable, InvalidFiles or ConfigError; then nothing has changed.
    """
    owner = _node(sop, node)
    _named(by, "who rolls back")
    with edit_manifest(root, node) as edit:
        entry = _before(edit.manifest)
        if entry is None:
            raise ConfigError(
                f"{edit.path}: no version was active before this one — "
                f"`triage tools promote {node} VERSION` another"
            )
        _sound(root, owner, entry)
        _activate(edit, entry)
        if not (entry.approver and entry.approved_at):
            edit.approve(entry.version, by=by, at=at)
        edit.add_act(Act(at=at, verb=Verb.ROLLBACK, version=entry.version, by=by, note=note))
        edit.save()
        return entry.version


def _activate(edit: ManifestEdit, entry: ManifestVersion) -> None:
    if edit.manifest.active is not None:
        edit.set_status(edit.manifest.active, VersionStatus.DEPRECATED)
    if edit.manifest.shadow == entry.version:
        edit.clear_shadow()
    edit.set_status(entry.version, VersionStatus.ACTIVE)
    edit.set_active(entry.version)


def _before(manifest: Manifest) -> ManifestVersion | None:
    """What a rollback returns to: history replayed as a stack, retired versions left out."""
    stack: list[int] = []
    for act in manifest.history:
        match act.verb:
            case Verb.PROMOTE:
                stack.append(act.version)
            case Verb.ROLLBACK:
                while stack and stack[-1] != act.version:
                    stack.pop()
                stack = stack or [act.version]
            case Verb.DEPRECATE | Verb.RETIRE:
                stack = [number for number in stack if number != act.version]
            case Verb.ADD | Verb.SHADOW | Verb.RELEASE:
                pass
    if manifest.active is not None and manifest.active in stack:
        while stack.pop() != manifest.active:
            pass
    for number in reversed(stack):
        entry = manifest.version(number)
        usable = entry is not None and entry.status is not VersionStatus.RETIRED
        if usable and number != manifest.active:
            return entry
    return None


def _sound(root: Path, node: Node, entry: ManifestVersion) -> list[Finding]:
    """Verify hash and policy; returns warnings."""
    source = read_source(root, node.node, entry)
    path = source_path(root, node.node, entry.version)
    findings = check_source(source, file=str(path), node=node.node, dynamic=entry.dynamic).findings
    _refuse_errors(findings)
    stale = entry.sop_text_sha256 != node.text_sha256
    return [*findings, *([stale_finding(root, node.node, entry.version)] if stale else [])]


def _refuse_errors(findings: Iterable[Finding]) -> None:
    errors = [finding for finding in findings if not finding.warning]
    if errors:
        raise InvalidFiles(errors)


def _fresh(manifest: Manifest, folder: Path) -> int:
    numbers = [entry.version for entry in manifest.versions]
    names = (_SOURCE_NAME.fullmatch(path.name) for path in folder.iterdir())
    numbers += [int(name[1]) for name in names if name]
    number = max(numbers, default=0) + 1
    if number > MAX_VERSION:
        raise ConfigError(f"{folder}: has a version {max(numbers)} — remove the stray file")
    return number


def _node(sop: Sop, node: NodeId) -> Node:
    found = sop.nodes.get(node)
    if found is None:
        raise ConfigError(f"{sop.file}: the SOP has no node {node!r} — name one of its nodes")
    return found


def _named(who: str, role: str) -> None:
    if not who.strip() or len(who) > MAX_NAME:
        raise ConfigError(f"the {role} must be named — in at most {MAX_NAME} characters")
