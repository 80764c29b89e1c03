"""The acts a person does to a tool: add a version, promote it, roll back; the others are in
`withdrawal`.

Each act holds the node's lock, is checked before anything is written, and is one line of history
in the manifest. Errors are ConfigError: what, where, what to do next.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from triage.errors import ConfigError, Finding
from triage.library.editing import ManifestEdit, edit_manifest
from triage.library.files import write_new
from triage.library.manifest import (
    MAX_VERSION,
    Act,
    Manifest,
    ManifestVersion,
    Verb,
    VersionStatus,
    manifest_path,
    read_manifest,
    source_path,
)
from triage.library.overview import describe, verify
from triage.library.policy import check_source
from triage.library.soundness import named, node_of, refuse_errors, sound, version_of
from triage.library.withdrawal import before, deprecate, retire, shadow_start, shadow_stop
from triage.model.canonical import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from triage.model.decision import NodeId
    from triage.sop.procedure import Sop

__all__ = [
    "add_version",
    "deprecate",
    "describe",
    "promotable",
    "promote",
    "retire",
    "rollback",
    "shadow_start",
    "shadow_stop",
    "verify",
]

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
    max_queries: int = 0,
    gap: str = "",
    note: str = "",
) -> int:
    """Register `source` as the node's next candidate and return its number.

    `at` is aware. `train` and `heldout` are (passed, total) cases, `max_queries` the most that it
    asked in one of them, `gap` the id of the gap that it was made for. Never overwrites: the
    number is above every one in the manifest or the folder. Raises InvalidFiles for a source that
    the policy refuses, ConfigError for what the SOP does not know.
    """
    owner = node_of(sop, node)
    named(maker, "maker")
    for parent in reads_parents:
        if parent not in sop.nodes or parent == node:
            raise ConfigError(
                f"{node}: reads_parents names {parent!r} — name nodes that come before it"
            )
    with edit_manifest(root, node, create=True) as edit:
        number = _fresh(edit.manifest, root / node)
        path = source_path(root, node, number)
        refuse_errors(check_source(source, file=str(path), node=node, dynamic=dynamic).findings)
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
                max_queries=max_queries,
                gap=gap,
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


def promotable(
    root: Path, sop: Sop, node: NodeId, version: int, *, by: str, two_persons: bool = False
) -> ManifestVersion:
    """The version, which a promotion now would take. Nothing is locked or written: for whoever
    has more to try before it. Raises as `promote` does."""
    owner = node_of(sop, node)
    named(by, "approver")
    manifest, _ = read_manifest(root, node)
    path = manifest_path(root, node)
    entry = version_of(manifest, path, version)
    _refuse_promotion(path, entry, by=by, two_persons=two_persons)
    sound(root, owner, entry)
    return entry


def promote(
    root: Path,
    sop: Sop,
    node: NodeId,
    version: int,
    *,
    by: str,
    at: datetime,
    note: str = "",
    two_persons: bool = False,
    sha256: str = "",
) -> list[Finding]:
    """Make `version` the active one; the one before becomes deprecated. Returns warnings.

    Approval binds to the content: the hash and the policy are checked again here, and the hash is
    kept beside the approver. With `two_persons` whoever made the version is refused. `sha256` is
    of what was tried before, empty when nothing was: another one is refused. Raises Unreadable,
    InvalidFiles or ConfigError, and then nothing has changed.
    """
    owner = node_of(sop, node)
    named(by, "approver")
    with edit_manifest(root, node) as edit:
        entry = version_of(edit.manifest, edit.path, version)
        _refuse_promotion(edit.path, entry, by=by, two_persons=two_persons)
        if sha256 and sha256 != entry.sha256:
            raise ConfigError(
                f"{edit.path}: version {version} was changed while it was tried — promote again"
            )
        warnings = sound(root, owner, entry)
        _activate(edit, entry)
        edit.approve(entry, by=by, at=at)
        edit.add_act(Act(at=at, verb=Verb.PROMOTE, version=version, by=by, note=note))
        edit.save()
    return warnings


def rollback(root: Path, sop: Sop, node: NodeId, *, by: str, at: datetime, note: str = "") -> int:
    """Make the version that was active before this one active again and return its number.

    Its earlier approval stands, since its hash has to be the one approved. A second rollback goes
    one further back. Raises Unreadable, InvalidFiles or ConfigError; then nothing has changed.
    """
    owner = node_of(sop, node)
    named(by, "who rolls back")
    with edit_manifest(root, node) as edit:
        entry = before(edit.manifest)
        if entry is None:
            raise ConfigError(
                f"{edit.path}: no version was active before this one — "
                f"`triage tools promote {node} VERSION` another"
            )
        if entry.approved_sha256 not in ("", entry.sha256):
            raise ConfigError(
                f"{edit.path}: version {entry.version} is not what {entry.approver} approved — "
                f"`triage tools promote {node} {entry.version}` approves it as it is"
            )
        sound(root, owner, entry)
        _activate(edit, entry)
        if not (entry.approver and entry.approved_at):
            edit.approve(entry, by=by, at=at)
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


def _fresh(manifest: Manifest, folder: Path) -> int:
    numbers = [entry.version for entry in manifest.versions]
    names = (_SOURCE_NAME.fullmatch(path.name) for path in folder.iterdir())
    numbers += [int(name[1]) for name in names if name]
    number = max(numbers, default=0) + 1
    if number > MAX_VERSION:
        raise ConfigError(f"{folder}: has a version {max(numbers)} — remove the stray file")
    return number


def _refuse_promotion(path: Path, entry: ManifestVersion, *, by: str, two_persons: bool) -> None:
    if entry.status is VersionStatus.ACTIVE:
        raise ConfigError(f"{path}: version {entry.version} is active already")
    if entry.status is VersionStatus.RETIRED:
        raise ConfigError(
            f"{path}: version {entry.version} is retired — add its source as a new version"
        )
    if two_persons and _same_person(by, entry.maker):
        raise ConfigError(
            f"{path}: version {entry.version} was made by {entry.maker} — with make.two_persons "
            "another person must approve it"
        )


def _same_person(one: str, other: str) -> bool:
    """However the name is typed: `Ann ` must not approve what `ann` made."""
    return one.strip().casefold() == other.strip().casefold()
