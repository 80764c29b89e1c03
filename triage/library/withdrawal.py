"""Versions on their way in and out of use: shadow, deprecated, retired.

Each act holds the node's lock, is checked before anything is written, and is one line of history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.errors import ConfigError, Finding
from triage.library.editing import ManifestEdit, edit_manifest
from triage.library.manifest import Act, Verb, VersionStatus
from triage.library.soundness import changed, named, node_of, sound, version_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from triage.library.manifest import Manifest, ManifestVersion
    from triage.model.decision import NodeId
    from triage.sop.procedure import Sop


def shadow_start(
    root: Path, sop: Sop, node: NodeId, version: int, *, by: str, at: datetime, note: str = ""
) -> list[Finding]:
    """Put `version` in shadow: evaluated beside the active one, deciding nothing, approved by
    nobody. Returns warnings.

    One version of a node is in shadow at a time. Raises Unreadable, InvalidFiles or ConfigError,
    and then nothing has changed.
    """
    owner = node_of(sop, node)
    named(by, "who puts it in shadow")
    with edit_manifest(root, node) as edit:
        entry = version_of(edit.manifest, edit.path, version)
        match entry.status:
            case VersionStatus.ACTIVE:
                raise ConfigError(
                    f"{edit.path}: version {version} is active — a shadow is another version"
                )
            case VersionStatus.RETIRED:
                raise ConfigError(
                    f"{edit.path}: version {version} is retired — add its source as a new version"
                )
            case VersionStatus.SHADOW:
                raise ConfigError(f"{edit.path}: version {version} is in shadow already")
            case VersionStatus.CANDIDATE | VersionStatus.DEPRECATED:
                pass
        if edit.manifest.shadow is not None:
            raise ConfigError(
                f"{edit.path}: version {edit.manifest.shadow} is in shadow — "
                f"`triage tools shadow {node} --stop` it first"
            )
        warnings = sound(root, owner, entry)
        edit.set_status(version, VersionStatus.SHADOW)
        edit.set_shadow(version)
        edit.add_act(Act(at=at, verb=Verb.SHADOW, version=version, by=by, note=note))
        edit.save()
    return warnings


def shadow_stop(
    root: Path, sop: Sop, node: NodeId, *, by: str, at: datetime, note: str = ""
) -> int:
    """Take the node's version out of shadow and return its number.

    It becomes what it was: deprecated when it was approved before, else a candidate. Raises
    Unreadable, InvalidFiles or ConfigError, and then nothing has changed.
    """
    node_of(sop, node)
    named(by, "who takes it out of shadow")
    with edit_manifest(root, node) as edit:
        number = edit.manifest.shadow
        if number is None:
            raise ConfigError(
                f"{edit.path}: no version is in shadow — "
                f"`triage tools shadow {node} --start VERSION` puts one there"
            )
        entry = version_of(edit.manifest, edit.path, number)
        status = VersionStatus.DEPRECATED if entry.approver else VersionStatus.CANDIDATE
        act = Act(at=at, verb=Verb.SHADOW_STOP, version=number, by=by, note=note)
        _withdraw(edit, status, act)
    return number


def deprecate(
    root: Path, sop: Sop, node: NodeId, version: int, *, by: str, at: datetime, note: str = ""
) -> list[Finding]:
    """Say that `version` is not to be used again: a rollback passes over it, and only a promotion
    brings it back. Returns warnings.

    Raises Unreadable, InvalidFiles or ConfigError, and then nothing has changed.
    """
    node_of(sop, node)
    named(by, "who deprecates it")
    with edit_manifest(root, node) as edit:
        entry = version_of(edit.manifest, edit.path, version)
        if entry.status is VersionStatus.ACTIVE:
            raise ConfigError(f"{edit.path}: version {version} is active — {_instead(node)}")
        if entry.status is VersionStatus.RETIRED:
            raise ConfigError(f"{edit.path}: version {version} is retired, which is more")
        if _deprecated_last(edit.manifest, version):
            raise ConfigError(f"{edit.path}: version {version} is deprecated already")
        warnings = changed(root, node, entry)
        act = Act(at=at, verb=Verb.DEPRECATE, version=version, by=by, note=note)
        _withdraw(edit, VersionStatus.DEPRECATED, act)
    return warnings


def retire(
    root: Path,
    sop: Sop,
    node: NodeId,
    version: int,
    *,
    by: str,
    at: datetime,
    note: str = "",
    leave_without_tool: bool = False,
) -> list[Finding]:
    """End `version` for good: nothing brings it back, and its file stays. Returns warnings.

    The active one is refused unless `leave_without_tool`: then the node has no tool, and the
    fallback answers for it, or it is failed where there is none. Raises Unreadable, InvalidFiles
    or ConfigError, and then nothing has changed.
    """
    node_of(sop, node)
    named(by, "who retires it")
    with edit_manifest(root, node) as edit:
        entry = version_of(edit.manifest, edit.path, version)
        if entry.status is VersionStatus.RETIRED:
            raise ConfigError(f"{edit.path}: version {version} is retired already")
        if entry.status is VersionStatus.ACTIVE:
            if not leave_without_tool:
                raise ConfigError(
                    f"{edit.path}: version {version} is active — {_instead(node)}; "
                    "--leave-without-tool retires it all the same, and the fallback answers"
                )
            edit.clear_active()
        warnings = changed(root, node, entry)
        act = Act(at=at, verb=Verb.RETIRE, version=version, by=by, note=note)
        _withdraw(edit, VersionStatus.RETIRED, act)
    return warnings


def before(manifest: Manifest) -> ManifestVersion | None:
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
            case Verb.ADD | Verb.SHADOW | Verb.SHADOW_STOP | Verb.RELEASE:
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


def _withdraw(edit: ManifestEdit, status: VersionStatus, act: Act) -> None:
    """The act's version has that status from now on, and is not in shadow."""
    if edit.manifest.shadow == act.version:
        edit.clear_shadow()
    edit.set_status(act.version, status)
    edit.add_act(act)
    edit.save()


def _deprecated_last(manifest: Manifest, version: int) -> bool:
    """Whether a person deprecated it, and did nothing else to it since."""
    acts = [act.verb for act in manifest.history if act.version == version]
    return bool(acts) and acts[-1] is Verb.DEPRECATE


def _instead(node: NodeId) -> str:
    return f"`triage tools promote {node} VERSION` another, or `triage tools rollback {node}`"
