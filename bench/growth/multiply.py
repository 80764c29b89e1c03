"""A project many times over: the same procedure and tools, K copies of them in one folder.

The first copy keeps its names, so that the project's alerts are the multiplied one's as well; the
others bear a prefix in every node, alarm and alias. Actions and params are shared.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomlkit
import yaml

from triage.library.manifest import manifest_path, source_path
from triage.model.canonical import sha256_hex
from triage.sop.procedure import WORDS
from triage.sop.reading import locate
from triage.sop.sop_file import SOP_SECTIONS

Sources = Literal["shared", "distinct"]
"""Whether the copies of a tool have one source, or each its own: what a load may share differs."""

EDGES = frozenset(f"on_{word}" for word in WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplied:
    """`nodes` counts the decision nodes of all copies."""

    folder: Path
    sop: Path
    library: Path
    copies: int
    nodes: int


def copies_for(base: Path, nodes: int) -> int:
    """How many copies of the project come closest to this many nodes."""
    return max(1, round(nodes / len(_document(base / "sop.yaml")["nodes"])))


def prefix(copy: int) -> str:
    """What the names of a copy begin with; the first, number 0, keeps its own."""
    return f"c{copy}_" if copy else ""


def multiply(base: Path, folder: Path, copies: int, sources: Sources = "shared") -> Multiplied:
    """Write the project `base` into `folder`, `copies` times.

    `base` holds sop.yaml, tools_lib and, where it has sites, sites.yaml. Raises ValueError when
    its SOP cannot be read, OSError when a file of a tool is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    one = _document(base / "sop.yaml")
    sop = folder / "sop.yaml"
    sop.write_text(_yaml(_many(one, copies)))
    if (base / "sites.yaml").exists():
        shutil.copyfile(base / "sites.yaml", folder / "sites.yaml")
    library = folder / "tools_lib"
    for node in one["nodes"]:
        _copy_tool(base / "tools_lib", library, node, copies, sources)
    return Multiplied(
        folder=folder, sop=sop, library=library, copies=copies, nodes=copies * len(one["nodes"])
    )


def _document(file: Path) -> dict[str, Any]:
    """As the daemon reads it: in YAML 1.2, where `no` is a word."""
    located, findings = locate(file.read_bytes(), str(file), SOP_SECTIONS)
    if located is None:
        raise ValueError("\n".join(map(str, findings)))
    return located.data


def _many(one: Mapping[str, Any], copies: int) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    alarms: dict[str, Any] = {}
    aliases: dict[str, Any] = {}
    for copy in range(copies):
        before = prefix(copy)
        for name, entry in one["nodes"].items():
            nodes[before + name] = {
                key: _prefixed(value, before, one["nodes"]) if key in EDGES else value
                for key, value in entry.items()
            }
        for name, entry in one["alarms"].items():
            alarms[before + name] = _prefixed(entry, before, one["nodes"])
        for alias, alarm in one.get("aliases", {}).items():
            aliases[before + alias] = before + alarm
    many = {**one, "alarms": alarms, "nodes": nodes}
    return {**many, "aliases": aliases} if aliases else many


def _prefixed(targets: str | list[str], before: str, nodes: Mapping[str, Any]) -> list[str]:
    listed = [targets] if isinstance(targets, str) else targets
    return [before + target if target in nodes else target for target in listed]


class _Dumper(yaml.SafeDumper):
    """Writes YAML that reads the same in 1.1 and 1.2."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        """The SOP's reader refuses anchors."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # `1e3` is a word in YAML 1.1 and a number in 1.2.
    quoted = text[:1] in "+-.0123456789"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _text)


def _yaml(document: Mapping[str, Any]) -> str:
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _copy_tool(base: Path, library: Path, node: str, copies: int, sources: Sources) -> None:
    text = manifest_path(base, node).read_text()
    versions = [version["version"] for version in tomllib.loads(text)["versions"]]
    document = tomlkit.parse(text)
    bodies = {version: source_path(base, node, version).read_bytes() for version in versions}
    parents = [version.get("reads_parents", []) for version in tomllib.loads(text)["versions"]]
    for copy in range(copies):
        before = prefix(copy)
        name = before + node
        (library / name).mkdir(parents=True)
        document["node"] = name
        for index, number in enumerate(versions):
            body = bodies[number]
            if sources == "distinct":
                body = body.rstrip() + f'\n\nCOPY = "{name}"\n'.encode()
            entry: Any = document["versions"][index]
            entry["sha256"] = sha256_hex(body)
            if parents[index]:
                entry["reads_parents"] = [before + parent for parent in parents[index]]
            source_path(library, name, number).write_bytes(body)
        manifest_path(library, name).write_text(tomlkit.dumps(document))
