"""`make demo-host`: something breaks on this machine, a real rule fires, triage says what to do.

Starts Prometheus, node exporter, Alertmanager, a small service and the daemon, fills a small file
system (where this user may not mount one, wears out one core instead), stops the service, and
shows what is decided. Takes about a minute; leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import httpx
from rich.console import Console
from rich.rule import Rule

from examples.host import trouble
from examples.host.stage import INSTANCE, Stage, StageError

BASELINE_S = 8.0  # of healthy figures before anything breaks
FILL_S = 8.0
FILL_PCT = 97.0
DECIDED_S = 45.0
QUANTILE = re.compile(
    r'^triage_decision_quantile_seconds\{quantile="([\d.]+)"\} (\S+)', re.MULTILINE
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo-host", description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep all running until Ctrl-C")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, _end)
    folder = Path(tempfile.mkdtemp(prefix="triage-demo-"))
    try:
        with Stage(folder) as stage:
            try:
                run(console, stage, keep=arguments.keep)
            except (StageError, httpx.HTTPError) as error:
                console.print(f"[red]demo:[/] {error}", markup=True)
                if stage.log("triage").exists():
                    console.print(
                        Rule("end of the daemon's log"), stage.tail("triage"), markup=False
                    )
                return 1
    except KeyboardInterrupt:
        console.print("demo: stopped")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def run(console: Console, stage: Stage, *, keep: bool) -> None:
    with contextlib.ExitStack() as undo:
        with step(console, "start Prometheus, node exporter, Alertmanager and a service"):
            # Where `make` has just installed everything, its pages are still on their way to the
            # disk, and the store's fsync would wait behind them: 150 ms instead of 3.
            os.sync()
            disk = undo.enter_context(trouble.small_disk(stage.folder / "disk"))
            stage.start_servers()
        with step(console, "start triage") as note:
            began = time.monotonic()
            stage.start_triage()
            note(f"ready after {time.monotonic() - began:.1f} s at {stage.url('triage')}")
        with step(console, f"{BASELINE_S:g} s of an ordinary day, scraped every second"):
            time.sleep(BASELINE_S)

        expected = {"ServiceDown": "shop"}
        with step(console, "break it") as note:
            stage.stop("shop")
            if disk is not None:
                expected = {"HostDiskFilling": str(disk), **expected}
                trouble.fill(disk, to_pct=FILL_PCT, seconds=FILL_S)
                note(f"the service was killed, and a log filled {disk} to {FILL_PCT:g} %")
            else:
                expected = {"HostHighCpu": "", **expected}
                pid = undo.enter_context(trouble.burner())
                note(f"the service was killed, and process {pid} keeps one core busy")
                note("(this user may not mount a file system to fill)")
        with step(console, "rules fire, Alertmanager delivers, triage decides") as note:
            documents = wait_decided(stage, expected)
            note(
                ", ".join(
                    f"{alarm}: {document['outcome']}" for alarm, document in documents.items()
                )
            )

        for alarm, document in documents.items():
            console.print()
            console.print(Rule(f"{alarm} on {INSTANCE}", align="left"))
            show(document["alert_id"], stage)
            for line in compared(document, disk):
                console.print(line, markup=False, soft_wrap=True)
        console.print()
        console.print(Rule("how fast", align="left"))
        for line in latency(stage, list(documents.values())):
            console.print(line, markup=False, soft_wrap=True)
        console.print()
        console.print(Rule("look further", align="left"))
        text = further(stage, next(iter(documents.values()))["alert_id"], keep=keep)
        console.print(text, markup=False, soft_wrap=True)
        if keep:
            signal.pause()
        with step(console, "undo it and stop everything"):
            undo.close()


@contextlib.contextmanager
def step(console: Console, title: str) -> Iterator[Callable[[str], None]]:
    """One line of progress; what the block notes stands below it."""
    notes: list[str] = []
    began = time.monotonic()
    with console.status(title):
        yield notes.append
    console.print(f"[green]✓[/] {title} [dim]({time.monotonic() - began:.1f} s)[/]")
    for text in notes:
        console.print(f"  {text}", style="dim", markup=False, soft_wrap=True)


def wait_decided(stage: Stage, expected: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The decision of each alarm in `expected`, which maps it to the subject it is about."""
    deadline = time.monotonic() + DECIDED_S
    decided: dict[str, dict[str, Any]] = {}
    while time.monotonic() < deadline:
        for alarm in expected.keys() - decided.keys():
            if (document := stage.decided(alarm, expected[alarm])) is not None:
                decided[alarm] = document
        if len(decided) == len(expected):
            return {alarm: decided[alarm] for alarm in expected}
        time.sleep(0.2)
    waiting = [alarm for alarm in expected if alarm not in decided]
    raise StageError(
        f"not decided in {DECIDED_S:g} s: {', '.join(waiting)}; "
        f"firing in Prometheus: {', '.join(sorted(stage.firing())) or 'nothing'}"
    )


def show(alert_id: str, stage: Stage) -> None:
    """The walk as a tree, by the command anyone would use."""
    command = (sys.executable, "-m", "triage", "decisions", "show", alert_id)
    status = subprocess.run((*command, "--url", stage.url("triage")), check=False).returncode
    if status:
        raise StageError(f"`triage decisions show {alert_id}` ended with status {status}")


def compared(document: dict[str, Any], disk: Path | None) -> list[str]:
    """What the tools saw beside what the machine itself says."""
    seen = {
        (node["node"], clause["name"]): clause["observed"]
        for node in document["nodes"]
        for clause in node["clauses"]
    }
    if disk is not None and ("obs_disk_full", "used") in seen:
        tool, machine = seen["obs_disk_full", "used"], trouble.used_pct(disk)
        return [f"the tool saw {tool:.1f} % used when the rule fired; df says {machine:.1f} % now"]
    if ("obs_cpu_busy", "processor busy") in seen:
        tool, machine = seen["obs_cpu_busy", "processor busy"], trouble.busy_pct(1.0)
        return [f"the tool saw {tool:.1f} % busy; /proc/stat says {machine:.1f} % now"]
    return []


def latency(stage: Stage, heads: list[dict[str, Any]]) -> list[str]:
    """The daemon's own quantiles, and the same read back from Prometheus."""
    quantiles = {name: float(value) for name, value in QUANTILE.findall(stage.metrics())}
    lines = [
        f"accepted to decided, {len(heads)} alerts: "
        + ", ".join(
            f"p{100 * float(name):g} {1000 * seconds:.1f} ms"
            for name, seconds in sorted(quantiles.items(), key=lambda item: float(item[0]))
        )
    ]
    expression = 'triage_decision_quantile_seconds{quantile="0.99"}'
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        read = [float(one["value"][1]) for one in stage.query(expression)]
        if read and read[0] == read[0]:  # NaN until the first scrape after a decision
            lines.append(f"Prometheus scrapes the daemon: {expression} = {1000 * read[0]:.1f} ms")
            break
        time.sleep(0.2)
    return lines


def further(stage: Stage, alert_id: str, *, keep: bool) -> str:
    command = Path(sys.executable).with_name("triage")
    here = Path.cwd()
    triage = command.relative_to(here) if command.is_relative_to(here) else command
    ours = (
        f"""\
  {triage} decisions list --url {stage.url("triage")}
  {triage} decisions show {alert_id} --json --url {stage.url("triage")}
  {triage} ledger --url {stage.url("triage")}
  Prometheus {stage.url("prometheus")}, Alertmanager {stage.url("alertmanager")}
  Ctrl-C ends it all"""
        if keep
        else "  make demo-host ARGS=--keep               the same, left running to look at"
    )
    return f"""{ours}
  {triage} check --config examples/host/triage.toml
  {triage} tools list --config examples/host/triage.toml
  examples/host/README.md                  the same for a host of your own"""


if __name__ == "__main__":
    sys.exit(main())
