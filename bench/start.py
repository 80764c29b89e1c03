"""How soon a fresh project's daemon is ready, and how much memory it keeps when idle."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.servers import HOST, answers_ok, free_port, resident_mb, wait_until

ROUNDS = 5
DRAIN_S = 30.0


def measure(rounds: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Seconds from exec to the first 200 of `/-/ready`, and VmRSS in MB a moment after."""
    ready: list[float] = []
    resident: list[float] = []
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as folder:
        project = Path(folder) / "project"
        _triage("init", str(project), cwd=Path(folder))
        for index in range(rounds):
            seconds, megabytes = _start_once(project)
            ready.append(seconds)
            resident.append(megabytes)
            progress(index + 1, rounds)
    return {
        "ready_s_p50": round(statistics.median(ready), 3),
        "ready_s_max": round(max(ready), 3),
        "resident_mb_p50": round(statistics.median(resident), 1),
        "resident_mb_max": round(max(resident), 1),
        "starts": rounds,
    }


def _start_once(project: Path) -> tuple[float, float]:
    port = free_port()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "triage", "serve", "--listen", f"{HOST}:{port}"],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: answers_ok(f"http://{HOST}:{port}/-/ready"), what="triage", process=process
        )
        seconds = time.monotonic() - began
        return seconds, resident_mb(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=DRAIN_S)


def _triage(*arguments: str, cwd: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "triage", *arguments],
        cwd=cwd,
        check=True,
        stdout=subprocess.DEVNULL,
    )
