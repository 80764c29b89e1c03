"""The day as one watches it: on a terminal a calm panel under what has been said, else lines."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.status import Status
from rich.table import Table
from rich.text import Text

from bench.demo.truth import CAME, Document, came_of
from bench.replay.alerts import HistoricalAlert
from triage.cli.text import printable
from triage.cli.tree import decision_tree

LATEST = 8  # decisions that the panel shows
WIDEST = 118  # columns; a wider panel is hard to read across
DAY_S = 86_400
CAUSE = "rc_"


class Screen(Protocol):
    """What the demo tells. `at` are seconds since the epoch, of the day that is replayed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, at: float, sent: int) -> None: ...

    def decided(self, alert: HistoricalAlert, document: Document) -> None: ...

    def walk(self, title: str, document: Document, truth: str) -> None: ...


class Step:
    """Something under way: a sign of life on a terminal, one line when it is done."""

    def __init__(self, title: str, status: Status) -> None:
        self._title = title
        self._status = status
        self.notes: list[str] = []

    def now(self, text: str) -> None:
        """What of it is being done."""
        self._status.update(f"{self._title}: {text}")


@contextmanager
def step(console: Console, title: str) -> Iterator[Step]:
    began = time.monotonic()
    with console.status(title) as status:
        running = Step(title, status)
        yield running
    line = Text("✓ ", style="green").append(title, style="default")
    console.print(line.append(f"  {time.monotonic() - began:.1f} s", style="dim"))
    for note in running.notes:
        console.print(Text(f"  {note}", style="dim"), soft_wrap=True)


# --- on a terminal ----------------------------------------------------------------------------


class LiveScreen:
    def __init__(self, console: Console, *, begins: int, total: int, where: str) -> None:
        self._begins = begins
        self._total = total
        self._where = where
        self._width = min(console.width, WIDEST)
        self._latest: deque[tuple[HistoricalAlert, Document]] = deque(maxlen=LATEST)
        self._came: Counter[str] = Counter()
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, at: float, sent: int) -> None:
        self._live.update(self._panel(at, sent), refresh=True)

    def decided(self, alert: HistoricalAlert, document: Document) -> None:
        self._latest.append((alert, document))
        self._came[came_of(document)] += 1

    def walk(self, title: str, document: Document, truth: str) -> None:
        self._live.console.print(whole_walk(title, document, truth))

    def _panel(self, at: float, sent: int) -> RenderableType:
        done = self._came.total()
        sums = Text(f"{sent} of {self._total} alerts, {done} decided", style="bold")
        came_of_them = Text("   ").join(
            Text(f"{came} ", style="dim").append(str(self._came[came]), style=f"not dim {style}")
            for came, style in CAME.items()
        )
        latest = _lines()
        for alert, document in self._latest:
            latest.add_row(*_line(alert, document))
        for _ in range(LATEST - len(self._latest)):
            latest.add_row("")
        clock = datetime.fromtimestamp(at, UTC)
        bar = ProgressBar(
            total=DAY_S, completed=at - self._begins, complete_style="cyan", finished_style="cyan"
        )
        head = Table.grid(padding=(0, 2, 0, 0), expand=True)
        head.add_column(no_wrap=True)
        head.add_column(ratio=1)
        head.add_row(Text(clock.strftime("%A %-d %B %Y  %H:%M UTC"), style="bold cyan"), bar)
        return Panel(
            Group(head, sums, came_of_them, Text(""), latest),
            title=Text(self._where, style="dim"),
            title_align="left",
            box=box.ROUNDED,
            border_style="dim",
            padding=(0, 1),
            width=self._width,
        )


# --- in a file or a pipe ----------------------------------------------------------------------


class PlainScreen:
    """A line a decision, as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held."""

    def show(self, at: float, sent: int) -> None:
        """The clock of the day stands in each line."""

    def decided(self, alert: HistoricalAlert, document: Document) -> None:
        clock, site, alarm, entity, came, took = _line(alert, document)
        text = f"{clock} {site} {alarm} {entity}: {came}  {took}"
        self._console.print(Text(text), soft_wrap=True)

    def walk(self, title: str, document: Document, truth: str) -> None:
        self._console.print(whole_walk(title, document, truth))


# --- both -------------------------------------------------------------------------------------


def whole_walk(title: str, document: Document, truth: str) -> RenderableType:
    told = Text("what truly was  ", style="dim").append(truth, style="default")
    return Group(
        Text(""),
        Rule(Text(title, style="bold"), align="left", style="dim"),
        decision_tree(document),
        told,
        Text(""),
    )


def _lines() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
    table.add_column(no_wrap=True, justify="right", style="dim")
    return table


def _line(alert: HistoricalAlert, document: Document) -> tuple[str, str, str, str, Text, str]:
    return (
        datetime.fromtimestamp(alert.at, UTC).strftime("%H:%M"),
        printable(document["site"]),
        printable(document["alarm"].removeprefix("al_")),
        printable(document["entity"]),
        what_came(document),
        f"{document['accepted_to_decided_ms']:.0f} ms",
    )


def what_came(document: Document) -> Text:
    """Causes, where some were found, and actions."""
    causes = ", ".join(cause["node"].removeprefix(CAUSE) for cause in document["root_causes"])
    line = Text(f"{printable(causes)} " if causes else "")
    actions = ", ".join(dict.fromkeys(action["action"] for action in document["actions"]))
    return line.append(f"→ {printable(actions or document['outcome'])}", CAME[came_of(document)])


def came_table(decided: Sequence[tuple[HistoricalAlert, Document]]) -> Table:
    """Alarms by what came of their alerts."""
    counts = Counter((alert.alarm, came_of(document)) for alert, document in decided)
    alarms = Counter(alert.alarm for alert, _ in decided)
    table = _figures("alarm", "alerts", *CAME)
    for alarm, count in alarms.most_common():
        cells = [_count(counts[alarm, came], style) for came, style in CAME.items()]
        table.add_row(alarm, str(count), *cells)
    sums = [sum(counts[alarm, came] for alarm in alarms) for came in CAME]
    table.add_section()
    table.add_row(f"{len(alarms)} alarms", str(len(decided)), *map(str, sums), style="bold")
    return table


def cause_table(named: Counter[str], real: Counter[str]) -> Table:
    """Root causes, and how many of those named were on in the world."""
    table = _figures("root cause", "named", "truly on")
    for cause, count in named.most_common():
        table.add_row(cause, str(count), _count(real[cause], "green"))
    return table


def _figures(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _count(count: int, style: str) -> Text:
    return Text(str(count), style=style) if count else Text("·", style="dim")
