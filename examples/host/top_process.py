#!/usr/bin/env python3
"""Write the busiest processes of this host for node exporter's textfile collector.

    top_process.py DIRECTORY [--interval SECONDS] [--count N] [--once]

writes `DIRECTORY/host_top_process.prom` every interval: `host_top_process_cpu_ratio{pid,comm}` is
a process's processor time over the interval against that of all cores together, 0 to 1. Needs
nothing but Python and /proc. Start it as a service beside the exporter.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

FILE = "host_top_process.prom"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def spent() -> dict[tuple[int, str], float]:
    """Processor seconds of every process so far, by (pid, command)."""
    seconds = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended since the directory was listed
        # The command stands in parentheses and may hold blanks and parentheses itself.
        comm, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        seconds[int(entry.name), comm] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return seconds


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def page(
    before: dict[tuple[int, str], float],
    after: dict[tuple[int, str], float],
    elapsed_s: float,
    *,
    cores: int,
    count: int,
) -> str:
    """The metric page of the `count` processes that used the most between the two."""
    used = {key: total - before.get(key, total) for key, total in after.items()}
    top = sorted(used, key=lambda key: used[key], reverse=True)[:count]
    lines = [
        "# HELP host_top_process_cpu_ratio Processor time of the busiest processes, of all cores'.",
        "# TYPE host_top_process_cpu_ratio gauge",
    ]
    for pid, comm in top:
        ratio = max(0.0, used[pid, comm]) / elapsed_s / cores
        lines.append(
            f'host_top_process_cpu_ratio{{pid="{pid}",comm="{escaped(comm)}"}} {ratio:.6f}'
        )
    return "\n".join(lines) + "\n"


def write(directory: Path, text: str) -> None:
    """Whole or not at all: the exporter may read at any moment."""
    scratch = directory / f".{FILE}.{os.getpid()}"
    scratch.write_text(text, encoding="utf-8")
    scratch.chmod(0o644)
    scratch.replace(directory / FILE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--interval", type=float, default=15.0, help="seconds, 15 by default")
    parser.add_argument("--count", type=int, default=5, help="processes, 5 by default")
    parser.add_argument("--once", action="store_true", help="write once, then end")
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    before, began = spent(), time.monotonic()
    while True:
        time.sleep(arguments.interval)
        after, now = spent(), time.monotonic()
        text = page(before, after, now - began, cores=cores, count=arguments.count)
        write(arguments.directory, text)
        if arguments.once:
            return
        before, began = after, now


if __name__ == "__main__":
    main()
