"""Loads and checks what an attempt is decided with: SOP, sites and library, as one whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triage.app.settings import Settings
from triage.errors import Finding, InvalidFiles
from triage.library.ahead import Ahead
from triage.library.catalogue import Library
from triage.library.check import check_parents
from triage.library.loader import load_library
from triage.library.memory import Memory
from triage.library.shadow import ShadowTool, shadow_sources
from triage.model.decision import NodeId
from triage.sop.load import check_sop
from triage.sop.procedure import Sop
from triage.sop.reading import read_file
from triage.sop.sites import Sites, check_sites, no_sites


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """`findings` are warnings when it came from `load_procedure`. A part that could not be read
    is None, and so is all that needs it."""

    sop: Sop | None
    sites: Sites | None
    library: Library | None
    findings: tuple[Finding, ...]
    shadows: Mapping[NodeId, ShadowTool] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.warning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A procedure that may be served. `shadows` are the versions beside it that decide nothing."""

    sop: Sop
    sites: Sites
    library: Library
    warnings: tuple[Finding, ...]
    shadows: Mapping[NodeId, ShadowTool] = field(default_factory=dict)


def check_procedure(
    settings: Settings,
    quarantined: Mapping[str, str] | None = None,
    *,
    memory: Memory | None = None,
    ahead: Ahead | None = None,
) -> Procedure:
    """Everything that is wrong, as far as it can be read. Blocking: reads files.

    `memory` and `ahead` are the library's: what the load before left, what was begun already.
    """
    findings: list[Finding] = []
    sop = _sop(settings.sop.file, findings)
    if sop is None:
        return Procedure(sop=None, sites=None, library=None, findings=tuple(findings))
    sites = _sites(settings.sop.sites, sop, findings)
    findings += _undeclared_sources(sop, settings)
    root, memory = settings.sop.library, memory or Memory()
    library = load_library(root, sop, quarantined=quarantined, memory=memory, ahead=ahead)
    for finding in library.findings:
        findings.append(finding)
    findings += check_parents(root, sop, library)
    shadows = shadow_sources(root, sop, known=memory.latest)
    findings += shadows.findings
    return Procedure(
        sop=sop, sites=sites, library=library, findings=tuple(findings), shadows=shadows.tools
    )


def load_procedure(
    settings: Settings,
    quarantined: Mapping[str, str] | None = None,
    *,
    memory: Memory | None = None,
    ahead: Ahead | None = None,
) -> Loaded:
    """Raises InvalidFiles with every finding when one is an error.

    With `sop.allow_broken_tools` a node without a usable tool is a warning: it will fail, or be
    answered by the fallback.
    """
    procedure = check_procedure(settings, quarantined, memory=memory, ahead=ahead)
    errors = procedure.errors
    if settings.sop.allow_broken_tools and procedure.library is not None:
        broken = {f for f in procedure.library.findings if f.where in procedure.library.broken}
        errors = tuple(finding for finding in errors if finding not in broken)
    if errors or procedure.sop is None or procedure.sites is None or procedure.library is None:
        raise InvalidFiles(procedure.findings)
    return Loaded(
        sop=procedure.sop,
        sites=procedure.sites,
        library=procedure.library,
        warnings=procedure.findings,
        shadows=procedure.shadows,
    )


def _sop(path: Path, findings: list[Finding]) -> Sop | None:
    body, unreadable = read_file(path)
    if unreadable is not None:
        findings.append(unreadable)
        return None
    sop, found = check_sop(body, str(path))
    findings += found
    return sop


def _sites(path: Path | None, sop: Sop, findings: list[Finding]) -> Sites | None:
    if path is None:
        return no_sites(sop)
    body, unreadable = read_file(path)
    if unreadable is not None:
        findings.append(unreadable)
        return None
    sites, found = check_sites(body, str(path), sop)
    findings += found
    return sites


def _undeclared_sources(sop: Sop, settings: Settings) -> list[Finding]:
    configured = ", ".join(sorted(settings.sources)) or "none"
    return [
        Finding(
            file=sop.file,
            line=node.line,
            where=node.node,
            problem=f"asks source {source!r}, which is not configured (configured: {configured})",
            fix=f"add [sources.{source}] to the configuration",
        )
        for node in sop.nodes.values()
        for source in node.sources
        if source not in settings.sources
    ]
