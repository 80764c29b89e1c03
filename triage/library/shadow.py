"""The version of each node that is in shadow, as text: it is never compiled here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from triage.errors import Finding, InvalidFiles
from triage.library.files import Unreadable, is_folder_name
from triage.library.loader import read_source
from triage.library.manifest import read_manifest, source_path
from triage.library.memory import Remembered
from triage.model.decision import NodeId

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from triage.library.manifest import Manifest
    from triage.sop.procedure import Sop


class ShadowTool(NamedTuple):
    """A version in shadow. `text` is the source whose bytes have the hash `sha256`. Nobody need
    have approved it: it runs in the sandbox and nowhere else."""

    node: NodeId
    version: int
    sha256: str
    text: str
    dynamic: bool = False
    reads_parents: tuple[NodeId, ...] = ()


class ShadowSources(NamedTuple):
    """`findings` are warnings: a node whose shadow cannot be used is decided as ever, and has
    none."""

    tools: Mapping[NodeId, ShadowTool]
    findings: tuple[Finding, ...] = ()


def shadow_sources(root: Path, sop: Sop, *, known: Remembered | None = None) -> ShadowSources:
    """What is in shadow, every source verified. Raises nothing for what the files hold; a manifest
    that cannot be used is for `load_library` to tell. Blocking.

    `known` is what a load of the library has just left: its manifests are not read again.
    """
    manifests = {} if known is None else known.of(root).manifests
    tools: dict[NodeId, ShadowTool] = {}
    findings: list[Finding] = []
    for node in sop.nodes:
        manifest = manifests[node][1] if node in manifests else _manifest(root, node)
        if manifest is None or manifest.shadow is None:
            continue
        try:
            tools[node] = _tool(root, node, manifest, manifest.shadow)
        except Unreadable as error:
            findings.append(_unusable(error.path, node, error.problem, error.fix))
        except UnicodeDecodeError as error:
            findings.append(
                _unusable(
                    source_path(root, node, manifest.shadow),
                    node,
                    f"is not UTF-8: {error.reason} at byte {error.start}",
                    "save it as UTF-8 and add it as a new version",
                )
            )
    return ShadowSources(tools=tools, findings=tuple(findings))


def _manifest(root: Path, node: NodeId) -> Manifest | None:
    if not is_folder_name(node):
        return None
    try:
        return read_manifest(root, node)[0]
    except (Unreadable, InvalidFiles):
        return None


def _tool(root: Path, node: NodeId, manifest: Manifest, number: int) -> ShadowTool:
    version = manifest.version(number)
    assert version is not None, "a manifest whose shadow is none of its versions was read"
    return ShadowTool(
        node=node,
        version=number,
        sha256=version.sha256,
        text=read_source(root, node, version).decode(),
        dynamic=version.dynamic,
        reads_parents=tuple(NodeId(parent) for parent in version.reads_parents),
    )


def _unusable(path: Path, node: NodeId, problem: str, fix: str) -> Finding:
    return Finding(
        file=str(path),
        where=node,
        problem=f"is in shadow, and {problem}",
        fix=f"{fix}; or `triage tools shadow {node} --stop`",
        warning=True,
    )
