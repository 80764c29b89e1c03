"""Tools' sources, wherever they lie, and libraries made of changed ones.

A changed tool goes the way of every tool: a folder with a manifest, then verified, linted and
compiled by the loader. So whatever refuses a mutant is what would refuse the tool.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.library.catalogue import Library
from triage.library.loader import load_library
from triage.library.manifest import manifest_path, read_manifest, source_path
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.sop.procedure import Sop


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSource:
    """One tool's file, and what its manifest says about how it is to be called."""

    text: str
    dynamic: bool = False
    reads_parents: tuple[str, ...] = ()

    def with_text(self, text: str) -> ToolSource:
        return replace(self, text=text)


def registered(root: Path, nodes: Mapping[NodeId, object]) -> dict[NodeId, ToolSource]:
    """The active version of every node that has one.

    Raises triage.errors.InvalidFiles, and Unreadable for a manifest or file that is not there.
    """
    found: dict[NodeId, ToolSource] = {}
    for node in nodes:
        if not manifest_path(root, node).exists():
            continue
        manifest, _ = read_manifest(root, node)
        version = manifest.active_version
        if version is not None:
            found[node] = ToolSource(
                text=source_path(root, node, version.version).read_text("utf-8"),
                dynamic=version.dynamic,
                reads_parents=version.reads_parents,
            )
    return found


def lying_in(folder: Path, nodes: Mapping[NodeId, object]) -> dict[NodeId, ToolSource]:
    """Files NODE.py, of tools that are not registered yet. Raises SyntaxError."""
    found: dict[NodeId, ToolSource] = {}
    for node in nodes:
        path = folder / f"{node}.py"
        if path.exists():
            text = path.read_text("utf-8")
            dynamic = any(
                isinstance(one, ast.AsyncFunctionDef) and one.name == "evaluate"
                for one in ast.parse(text).body
            )
            found[node] = ToolSource(text=text, dynamic=dynamic)
    return found


def compiled(sources: Mapping[NodeId, ToolSource], sop: Sop) -> Library:
    """A library of these alone; nothing of it stays on disk. A source that is refused is among
    the library's `broken`."""
    with TemporaryDirectory(prefix="tools-") as name:
        root = Path(name)
        for node, source in sources.items():
            body = source.text.encode()
            (root / node).mkdir()
            source_path(root, node, 1).write_bytes(body)
            manifest_path(root, node).write_text(
                _MANIFEST.format(
                    node=node,
                    sha256=sha256_hex(body),
                    text_sha256=sop.nodes[node].text_sha256,
                    dynamic=str(source.dynamic).lower(),
                    parents=", ".join(f'"{parent}"' for parent in source.reads_parents),
                )
            )
        return load_library(root, sop)


_MANIFEST = """\
node = "{node}"
active = 1

[[versions]]
version = 1
sha256 = "{sha256}"
sop_text_sha256 = "{text_sha256}"
status = "active"
maker = "bench"
made_at = 2026-01-01T00:00:00Z
approver = "bench"
approved_at = 2026-01-01T00:00:00Z
dynamic = {dynamic}
reads_parents = [{parents}]
"""
