"""What a store holds for people: from the store itself, or over HTTP from a daemon that has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import typer

from triage.app.exits import Exit
from triage.cli.exit_codes import CommandFailed
from triage.cli.origin import Origin
from triage.cli.text import printable
from triage.model.alert import ALERT_ID_LENGTH
from triage.model.gap import GAP_ID_CHARS
from triage.ports import DecisionFilter

MIN_PREFIX = 6
_DIGITS = frozenset("0123456789abcdef")


class Reader(Protocol):
    async def page(
        self, wanted: DecisionFilter, *, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        """Heads, newest first, and the cursor of the next page, "" on the last. Raises
        PayloadError for a cursor that was not made there."""

    async def decision(self, alert_id: str) -> Mapping[str, Any] | None:
        """As `DecisionLog.get`."""

    async def ids(self, prefix: str) -> list[str]:
        """Ids of decisions that begin so: all of them, or a few when there are many."""

    async def evidence(self, answer_sha256: str) -> bytes | None: ...

    async def labels(self, alert_id: str) -> Mapping[str, str] | None:
        """The alert's. None where there is no such alert, and over HTTP: decisions are served,
        alerts are not."""

    async def ledger(self, *, full: bool) -> Mapping[str, Any]:
        """As `ledger_document`."""


class GapReader(Protocol):
    async def gap_page(
        self, *, closed: bool, node: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        """As `GapLog.gap_page`, each as `group_document`."""

    async def gap(self, gap_id: str, *, cases: int) -> Mapping[str, Any] | None:
        """As `group_document`, with up to that many cases."""

    async def gap_ids(self, prefix: str) -> list[str]:
        """Ids of gaps that begin so: all of them, or a few when there are many."""

    async def close_gap(self, gap_id: str, *, by: str, note: str) -> None:
        """Raises CommandFailed when there is none that is open."""


class DeadLetterReader(Protocol):
    async def dead_letter_page(
        self, *, reason: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        """As `DeadLetterLog.dead_letter_page`, each as `dead_letter_document`."""

    async def dead_letter(self, dead_letter_id: str) -> Mapping[str, Any] | None:
        """As `whole_document`."""

    async def dead_letter_ids(self, prefix: str) -> list[str]:
        """Ids of dead letters that begin so: all of them, or a few when there are many."""

    async def redrive(self, dead_letter_id: str, *, by: str) -> Mapping[str, Any] | None:
        """As `Redriven.document`, None when there is none. Raises PayloadError when it cannot be
        an alert still."""

    async def discard(self, dead_letter_id: str, *, by: str, note: str) -> bool:
        """False when there is none."""


class ShadowReader(Protocol):
    async def shadows(self, node: str) -> list[Mapping[str, Any]]:
        """As `ShadowLog.tallies`, each as `tally_document`."""

    async def comparison_page(
        self, node: str, *, shadow: int, active: int, result: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        """As `ShadowLog.comparison_page`, each as `comparison_document`, of the newest pair of
        these versions. Raises CommandFailed when there is none."""


class FindingReader(Protocol):
    async def finding_page(
        self, *, node: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        """The open ones, each as `finding_document`."""


class Opened(Reader, GapReader, DeadLetterReader, ShadowReader, FindingReader, Protocol):
    """What stands behind any of them."""


@asynccontextmanager
async def reader(origin: Origin, *, changes: bool = False) -> AsyncIterator[Opened]:
    """`close_gap`, `redrive` and `discard` are only for one that `changes`. Raises ConfigError or
    CommandFailed for what cannot be reached."""
    if origin.url:
        # Here: each of the two costs more than the rest of the command.
        from triage.cli.remote import remote_reader

        async with remote_reader(origin.url, origin.token) as remote:
            yield remote
        return
    if origin.token_env or origin.token_file:
        raise typer.BadParameter("a token goes with --url; a store is read without one")
    from triage.cli.local import local_reader

    async with local_reader(origin.config, changes=changes) as local:
        yield local


async def accepted(source: Reader, given: str) -> tuple[str, Mapping[str, Any]]:
    """The whole id of the alert that is, or begins with, `given`, and what `decision` says of it.
    Raises BadParameter, and CommandFailed when there is no such alert."""
    alert_id = await whole_id(source, given)
    document = await source.decision(alert_id)
    if document is None:
        raise CommandFailed(f"no alert {printable(given)} was ever accepted here", Exit.FINDINGS)
    return alert_id, document


def undecided(given: str, document: Mapping[str, Any]) -> CommandFailed:
    """What to raise for an alert that was accepted and has no decision yet."""
    status = printable(str(document.get("status", "unknown")))
    return CommandFailed(f"{printable(given)} has no decision: it is {status}", Exit.FINDINGS)


async def whole_id(source: Reader, given: str) -> str:
    """`given`, or the one alert's id that begins with it. Raises BadParameter."""
    return await _whole(given, source.ids, ALERT_ID_LENGTH)


async def whole_gap_id(source: GapReader, given: str) -> str:
    """`given`, or the one gap's id that begins with it. Raises BadParameter."""
    return await _whole(given, source.gap_ids, GAP_ID_CHARS)


async def whole_dead_letter_id(source: DeadLetterReader, given: str) -> str:
    """`given`, or the one dead letter's id that begins with it. Raises BadParameter."""
    return await _whole(given, source.dead_letter_ids, ALERT_ID_LENGTH)


async def _whole(given: str, ids: Callable[[str], Awaitable[list[str]]], length: int) -> str:
    text = given.strip().lower()
    if len(text) >= length or not _DIGITS.issuperset(text):
        return given
    if len(text) < MIN_PREFIX:
        raise typer.BadParameter(
            f"{printable(given)} is too short: give at least {MIN_PREFIX} characters of the id"
        )
    found = await ids(text)
    if len(found) > 1:
        raise typer.BadParameter(
            f"{text} begins several ids: give more of one of {', '.join(map(printable, found))}"
        )
    return found[0] if found else given
