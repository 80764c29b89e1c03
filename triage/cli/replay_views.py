"""How `triage replay` shows what it finds, while it finds it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Protocol, Self

import orjson
from rich.console import Console
from rich.text import Text

from triage.app.procedure import Loaded
from triage.app.replayed import Replayed, Skip, Status, Tally, replayed_document
from triage.cli.difference_tree import WHY, difference_tree, headline, missing_line
from triage.cli.output import cell, out

SHOWN_EVERY = 20  # decisions between two looks of the progress line
SKIPPED: Mapping[Skip, str] = MappingProxyType(
    {
        Skip.RESOLVED: "resolved before they were walked",
        Skip.NO_ALERT: "whose alert is not stored",
        Skip.UNREADABLE: "that another version wrote",
    }
)


class View(Protocol):
    def begin(self) -> None: ...

    def show(self, replayed: Replayed) -> None:
        """One that is changed or unrecorded."""

    def end(self, tally: Tally) -> None: ...


class TextView:
    def __init__(self, *, list_unrecorded: bool) -> None:
        self._list_unrecorded = list_unrecorded
        self._console = out()

    def begin(self) -> None:
        """Nothing stands above the first."""

    def show(self, replayed: Replayed) -> None:
        if replayed.status is Status.CHANGED:
            self._console.print(difference_tree(replayed))
            self._console.print()
        elif self._list_unrecorded:
            self._console.print(headline(replayed.old), soft_wrap=True)
            for missing in replayed.missing:
                self._console.print(Text("  ").append_text(missing_line(missing)), soft_wrap=True)

    def end(self, tally: Tally) -> None:
        for line in _summary(tally):
            self._console.print(cell(line), soft_wrap=True)


def _summary(tally: Tally) -> Iterator[str]:
    counts = ", ".join(f"{tally.statuses[status]} {status.value}" for status in Status)
    yield f"{tally.read} read: {counts}"
    if tally.incomplete:
        yield f"of those changed, {tally.incomplete} whose new outcome is not known"
    if tally.newly_routed:
        yield f"of those unrecorded, {tally.newly_routed} that no alarm was routed for, and now is"
    for (node, why), count in sorted(tally.nodes.items()):
        yield f"unrecorded in {count}: {node} {WHY[why]}"
    for skip, count in sorted(tally.skipped.items()):
        yield f"skipped: {count} {SKIPPED[skip]}"
    if tally.degraded:
        yield f"{tally.degraded} were degraded: what failed then was taken to fail again"


class JsonView:
    """One document, written as it comes about: a store's decisions need not fit into memory."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._between = b""

    def begin(self) -> None:
        _write(b'{"decisions": [')

    def show(self, replayed: Replayed) -> None:
        _write(self._between + b"\n" + orjson.dumps(replayed_document(replayed)))
        self._between = b","

    def end(self, tally: Tally) -> None:
        loaded = self._loaded
        summary: dict[str, Any] = {
            **tally.document(),
            "sop": loaded.sop.name,
            "sop_version": loaded.sop.version,
            "sop_sha256": loaded.sop.sha256,
            "sites_sha256": loaded.sites.sha256,
            "library_sha256": loaded.library.sha256,
        }
        _write(b'\n],\n"summary": ' + orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"}\n")


def _write(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


class Counter:
    """A line on standard error that counts, on a terminal only."""

    def __init__(self, console: Console, tally: Tally) -> None:
        self._tally = tally
        self._status = console.status("") if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def counted(self) -> None:
        if self._status is not None and self._tally.read % SHOWN_EVERY == 0:
            changed = self._tally.statuses[Status.CHANGED]
            self._status.update(Text(f"{self._tally.read} decided again, {changed} changed"))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Out of the way of what is printed meanwhile: both may be on one terminal."""
        if self._status is None:
            yield
            return
        self._status.stop()
        try:
            yield
        finally:
            self._status.start()
