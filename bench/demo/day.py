"""`make demo`: a day of the outbound dock, decided by a real daemon while you watch.

Starts `triage serve` on this checkout's triage.toml, sends it the alerts of 29 November 2026 in
the order they fired, the day in under half a minute, and shows what it decides and what truly was.
Needs no server and takes about a minute; what the daemon stored stays in .demo/ to look at.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from bench.demo.play import LISTED, WATCHED, Day, Pace, Player, rehearse
from bench.demo.screen import (
    CAUSE,
    DAY_S,
    LiveScreen,
    PlainScreen,
    Screen,
    came_table,
    cause_table,
    step,
)
from bench.demo.truth import Truth
from bench.demo.wire import STORE, DemoDaemon, Wire
from bench.demo.world import DAYS, SITES, build_demo_world
from bench.dock import DEMO, ROOT, SOP
from bench.replay.alerts import historical_alerts
from bench.world.world import World
from triage.sop.load import load_sop
from triage.sop.procedure import Sop

ALERTS = 150
LEAST_ALERTS, LEAST_ALARMS = 100, 10
FOLDER = ROOT / ".demo"
TRIED = ("chute_full_pct", "25", "40")
"""A param of the SOP, its value, and another one that changes some of the day's decisions."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep the daemon until Ctrl-C")
    parser.add_argument("--world", action="store_true", help="only build what the sources read")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    console = Console(highlight=False, emoji=False, markup=False)
    if given.world:
        built(console, DEMO)
        return 0
    return perform(console, DEMO, FOLDER, keep=given.keep)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def perform(
    console: Console,
    sources: Path,
    folder: Path,
    *,
    days: int = DAYS,
    sites: int = SITES,
    alerts: int = ALERTS,
    least: tuple[int, int] = (LEAST_ALERTS, LEAST_ALARMS),
    pace: Pace | None = None,
    keep: bool = False,
) -> int:
    """The whole demo; its exit code: 0, 1 when something was wrong, 130 when it was stopped.

    The world lies in `sources`, and is built when it does not. `folder` is emptied before, and has
    the daemon's store afterwards. `least` are alerts and alarms that the day must have.
    """
    try:
        world = built(console, sources, days=days, sites=sites)
        # Where `make` has just installed everything, its pages are still on their way to the disk,
        # and the store's fsync would wait behind them.
        os.sync()
        problems = run(
            console, world, sources, folder, alerts=alerts, least=least, pace=pace, keep=keep
        )
    except (OSError, RuntimeError, httpx.HTTPError) as error:
        problems = [str(error)]
    except KeyboardInterrupt:
        console.print("demo: stopped")
        return 130
    for problem in problems:
        line = Text("demo: ", style="bold red").append(problem, style="not bold default")
        console.print(line, soft_wrap=True)
    return 1 if problems else 0


def built(console: Console, folder: Path, *, days: int = DAYS, sites: int = SITES) -> World:
    """The world of the demo, with a sign of life while it is built the first time."""
    with step(console, f"a dock of {sites} sites and {days} days") as building:
        return build_demo_world(folder, days=days, sites=sites, say=building.now)


def run(
    console: Console,
    world: World,
    sources: Path,
    folder: Path,
    *,
    alerts: int,
    least: tuple[int, int],
    pace: Pace | None,
    keep: bool,
) -> list[str]:
    """What `perform` does once the world is there; what was wrong, in words.

    Raises RuntimeError when the daemon does not start, and httpx.HTTPError when it does not
    answer.
    """
    shutil.rmtree(folder, ignore_errors=True)
    sop = load_sop(SOP)
    begins = world.end - DAY_S
    chosen = historical_alerts(world, alerts, between=(begins, world.end))
    truth = Truth(world.minutes.episodes)
    daemon = DemoDaemon(folder, sources)
    with Wire(daemon.url, {alarm: alias for alias, alarm in sop.aliases.items()}) as wire:
        try:
            _start(console, daemon, wire, begins, sop)
            began = time.monotonic()
            where = f"the outbound dock at {', '.join(site.name for site in world.sites)}"
            with _screen(console, begins, len(chosen), where) as screen:
                usual = WATCHED if console.is_terminal else LISTED
                day = Player(wire, screen, truth, pace or usual, begins).play(chosen)
            seconds = time.monotonic() - began
            problems = [*_problems(day, least), *_summary(console, day, truth, wire, seconds)]
            _look_further(console, day, folder)
            if keep:
                console.print(f"  {daemon.url} answers until Ctrl-C", style="dim")
                signal.pause()
        finally:
            daemon.stop()
    return problems


def _start(console: Console, daemon: DemoDaemon, wire: Wire, begins: int, sop: Sop) -> None:
    """Returns when the daemon has decided a first alert, a minute before the day: its sources
    are connected then."""
    with step(console, "triage serve, and a first alert") as starting:
        starting.now("starting")
        daemon.start()
        starting.now("waiting for the first decision")
        rehearse(wire, begins - 60)
        starting.notes.append(
            f"{len(sop.nodes)} decision nodes, {len(sop.actions)} actions,"
            f" {len(sop.alarms)} alarms, at {daemon.url}"
        )


def _screen(console: Console, begins: int, total: int, where: str) -> Screen:
    if console.is_terminal:
        return LiveScreen(console, begins=begins, total=total, where=where)
    return PlainScreen(console)


def _problems(day: Day, least: tuple[int, int]) -> list[str]:
    alarms = {alert.alarm for alert in day.sent.values()}
    found = []
    if len(day.sent) < least[0] or len(alarms) < least[1]:
        found.append(
            f"the day had {len(day.sent)} alerts of {len(alarms)} alarms:"
            f" at least {least[0]} of {least[1]} were expected"
        )
    if undecided := day.sent.keys() - day.decided.keys():
        found.append(f"{len(undecided)} alerts were not decided, {min(undecided)} among them")
    if degraded := [one for one, document in day.decided.items() if document["degraded"]]:
        found.append(f"{len(degraded)} decisions are degraded, {degraded[0]} among them")
    return found


def _summary(console: Console, day: Day, truth: Truth, wire: Wire, seconds: float) -> list[str]:
    """Prints it; returns what is wrong with the ledger."""
    named: Counter[str] = Counter()
    real: Counter[str] = Counter()
    model_calls = 0
    for alert, document in day.pairs:
        model_calls += [node["answered_by"] for node in document["nodes"]].count("fallback")
        for node, is_real in truth.real(document, alert).items():
            named[node.removeprefix(CAUSE)] += 1
            real[node.removeprefix(CAUSE)] += is_real
    _head(console, "The day")
    console.print(came_table(day.pairs))
    _head(console, "What was found, and what truly was")
    console.print(cause_table(named, real))
    if named:
        console.print(
            f"{real.total()} of {named.total()} root causes named were on in the world"
            ", which no source of the daemon tells.",
            style="dim",
        )
    _head(console, "How it went")
    ledger = wire.ledger()
    rest = ("decided", "pending", "dead_lettered", "discarded")
    sums = " + ".join(f"{ledger[name]} {name.replace('_', '-')}" for name in rest)
    quantiles = wire.quantiles_s()
    for name, value in (
        ("ledger", f"{ledger['accepted']} accepted = {sums}"),
        ("latency", f"{_ms(quantiles, 0.5)} p50, {_ms(quantiles, 0.99)} p99, accepted to decided"),
        ("the day took", f"{seconds:.0f} s"),
        ("model calls", f"{model_calls}"),
    ):
        console.print(Text(f"{name:14}", style="dim").append(value, style="default"))
    accepted = len(day.sent) + 1  # and the first alert
    if ledger["balances"] and ledger["accepted"] == ledger["decided"] == accepted:
        return []
    return [f"the ledger does not balance: {dict(ledger)}"]


def _ms(quantiles: dict[float, float], q: float) -> str:
    return f"{1000 * quantiles[q]:.1f} ms" if q in quantiles else "unknown"


def _head(console: Console, title: str) -> None:
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left", style="dim"))


def _look_further(console: Console, day: Day, folder: Path) -> None:
    here = Path.cwd()
    command = Path(sys.executable).with_name("triage")
    triage = command.relative_to(here) if command.is_relative_to(here) else command
    folder = folder.relative_to(here) if folder.is_relative_to(here) else folder
    shown = (day.shown or list(day.decided) or [""])[0][:12]
    name, value, other = TRIED
    _head(console, "Look further")
    for line in (
        f"export TRIAGE_STORE__URL=sqlite:///{folder / STORE}",
        f"export TRIAGE_SOP__GOLDEN={folder / 'golden'}",
        f"{triage} decisions show {shown}",
        f"sed '/^  {name}:/s/{value}/{other}/' sop.yaml >{folder}/sop.yaml",
        f"{triage} replay --sop {folder}/sop.yaml",
        f"{triage} test add {shown}",
        f"{triage} test",
    ):
        console.print(Text(f"  {line}"), soft_wrap=True)
