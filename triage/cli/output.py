"""Where output goes: the answer to standard output, everything about it to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO, TypeVar, cast

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from triage.cli.text import printable

T = TypeVar("T")

PAGE = 500  # rows asked for at once
_BLANKS = re.compile(r" +$", re.MULTILINE)
UNBROKEN = 10_000  # columns: a file or a pipe has no width, and grep wants whole lines


class _Unpadded:
    """A stream without the blanks that tables and trees end their lines with: as wide as a file is
    taken to be, one line of a thousand bytes would be followed by nine thousand blanks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_BLANKS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def console_for(stream: TextIO) -> Console:
    """Colours on a terminal only, and not where NO_COLOR says so. Text is never markup."""
    has_width = stream.isatty() or "COLUMNS" in os.environ
    return _Console(
        file=stream if has_width else cast(TextIO, _Unpadded(stream)),
        width=None if has_width else UNBROKEN,
        markup=False,
        emoji=False,
        highlight=False,
    )


def out() -> Console:
    return console_for(sys.stdout)


def err() -> Console:
    return console_for(sys.stderr)


def print_json(document: object) -> None:
    """To standard output, with nothing else there."""
    try:
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    except TypeError:
        # File names may hold bytes that are no UTF-8; here they become escapes.
        text = json.dumps(document, indent=2).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()


def warn(message: str) -> None:
    """One line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(f"{printable(message)}\n")


def columns(*names: str) -> Table:
    """A table without lines, whose cells are folded rather than cut."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def cell(value: object, style: str = "") -> Text:
    """Text from anywhere as text: no markup, no control characters."""
    return Text(printable(str(value)), style=style)


async def all_pages(
    what: str,
    page: Callable[[str, int], Awaitable[tuple[list[T], str]]],
    *,
    cursor: str,
    limit: int,
    at_once: int = PAGE,
) -> tuple[list[T], str]:
    """Up to `limit` of what `page(cursor, at_most)` gives, with the cursor after the last; a bar
    meanwhile, on a terminal."""
    found: list[T] = []
    with progress(f"reading {what}", -(-limit // at_once)) as bar:
        while len(found) < limit:
            some, cursor = await page(cursor, min(at_once, limit - len(found)))
            found += some
            bar.advance(bar.task_ids[0])
            if not cursor:
                break
    return found, cursor


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A spinner on standard error while the block runs, on a terminal only."""
    console = err()
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield


@contextmanager
def progress(what: str, total: int) -> Iterator[Progress]:
    """A bar on standard error, on a terminal only; its one task has id 0."""
    console = err()
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal or total < 2,  # noqa: PLR2004 - a bar of one step says nothing
        transient=True,
    ) as bar:
        bar.add_task(what, total=total)
        yield bar
