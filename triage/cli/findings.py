"""Findings as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from triage.cli.text import printable
from triage.errors import Finding


def shown_path(file: str) -> str:
    """As seen from here, where that is shorter."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else file
    except (ValueError, OSError):
        return file


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """`file:line: where: problem — fix`, one a line, errors first."""
    for finding in sorted(findings, key=lambda finding: finding.warning):
        line = Text(printable(str(replace(finding, file=shown_path(finding.file)))))
        if finding.warning:
            line.append(" (warning)", style="yellow")
        else:
            line.stylize("red", 0, len(printable(shown_path(finding.file))))
        console.print(line, soft_wrap=True)


def counted(findings: Iterable[Finding]) -> tuple[int, int]:
    """Errors and warnings."""
    kinds = [finding.warning for finding in findings]
    return kinds.count(False), kinds.count(True)


def in_words(errors: int, warnings: int) -> str:
    return f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}"


def finding_document(finding: Finding) -> dict[str, Any]:
    return {
        "severity": "warning" if finding.warning else "error",
        "file": finding.file,
        "line": finding.line,
        "where": finding.where,
        "problem": finding.problem,
        "fix": finding.fix,
    }


def findings_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """All of them, with how many there are of each kind."""
    errors, warnings = counted(findings)
    return {
        "ok": not errors,
        "errors": errors,
        "warnings": warnings,
        "findings": [finding_document(finding) for finding in findings],
    }


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
