"""`triage tools quarantine`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.cli.output import cell, columns, out, print_json, warn
from triage.clock import SystemClock
from triage.library import lifecycle, quarantine
from triage.library.editing import edit_manifest
from triage.library.manifest import Act, Verb
from triage.sop.load import load_sop

application = options.application("Look at tools that blocked the daemon, and release them.")

MIN_PREFIX = 6
_HEX = re.compile(r"[0-9a-f]+")

Owners = dict[str, tuple[str, int]]
"""SHA-256 of a version's source to its node and number."""


@application.command("list")
def list_quarantined(
    as_json: options.Json = False, config: options.Config = options.CONFIG
) -> None:
    """List the tools that may not run, and why.

    Exit codes: 0; 78 the configuration or the SOP was refused.
    """
    settings = Settings.load(config, os.environ, read_secrets=False)
    entries = quarantine.read(data_folder(settings).quarantine)
    owners = _owners(settings)
    rows = [
        {
            "sha256": digest,
            "node": owners.get(digest, ("", 0))[0],
            "version": owners.get(digest, ("", 0))[1] or None,
            "reason": reason,
        }
        for digest, reason in sorted(entries.items())
    ]
    if as_json:
        print_json({"quarantined": rows})
        return
    if not rows:
        warn("no tool is quarantined")
        return
    table = columns("sha256", "node", "version", "reason")
    for row in rows:
        version = f"v{row['version']}" if row["version"] else ""
        table.add_row(
            cell(row["sha256"]), cell(row["node"]), cell(version), cell(row["reason"], "yellow")
        )
    out().print(table)


@application.command("release")
def release(
    node_or_sha: Annotated[
        str, typer.Argument(metavar="NODE_OR_SHA", help="A node, or the first 6 or more of a hash.")
    ],
    by: options.By = "",
    note: options.Note = "",
    config: options.Config = options.CONFIG,
) -> None:
    """Let a quarantined tool run again. It is one line of the tool's history.

    Exit codes: 0; 1 it is not quarantined; 2 a hash that begins several; 78 the configuration or
    the SOP was refused.
    """
    settings = Settings.load(config, os.environ, read_secrets=False)
    file = data_folder(settings).quarantine
    owners = _owners(settings)
    digest = _quarantined(node_or_sha, quarantine.read(file), owners)
    person = options.person(by, "--by")
    if digest in owners:
        # History first: a release that nobody can be asked about would be worse than a line about
        # one that did not come to be.
        node, version = owners[digest]
        _note_release(settings.sop.library, node, version, person, note)
    quarantine.release(file, digest)
    typer.echo(f"{' version '.join(map(str, owners.get(digest, (digest,))))}: released")
    warn("a running daemon takes it up on SIGHUP or POST /-/reload")


def _owners(settings: Settings) -> Owners:
    rows = lifecycle.describe(settings.sop.library, load_sop(settings.sop.file))
    return {entry.sha256: (row.node, entry.version) for row in rows for entry in row.versions}


def _quarantined(given: str, entries: dict[str, str], owners: Owners) -> str:
    """The one hash that is meant. Raises BadParameter or CommandFailed."""
    found = [digest for digest in entries if owners.get(digest, ("",))[0] == given]
    if not found and len(given) >= MIN_PREFIX and _HEX.fullmatch(given.lower()):
        found = [digest for digest in entries if digest.startswith(given.lower())]
    if not found:
        there = ", ".join(
            f"{owners[digest][0]} ({digest[:12]})" if digest in owners else digest[:12]
            for digest in entries
        )
        raise CommandFailed(
            f"{given} is not quarantined; there are: {there or 'none'}", Exit.FINDINGS
        )
    if len(found) > 1:
        raise typer.BadParameter(
            f"{given} means several: give one of {', '.join(found)}", param_hint="NODE_OR_SHA"
        )
    return found[0]


def _note_release(root: Path, node: str, version: int, by: str, note: str) -> None:
    with edit_manifest(root, node) as edit:
        edit.add_act(
            Act(at=SystemClock().now(), verb=Verb.RELEASE, version=version, by=by, note=note)
        )
        edit.save()
