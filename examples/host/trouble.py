"""Real problems, small enough for any machine: each is caused, measured, and undone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20


@contextlib.contextmanager
def small_disk(folder: Path, *, size_mib: int = 64) -> Iterator[Path | None]:
    """A file system of its own in memory, None where this user may not mount one."""
    folder.mkdir()
    mounting = ("mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=700", "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        # Lazily: the exporter may be looking at it this moment.
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


def fill(disk: Path, *, to_pct: float, seconds: float) -> None:
    """Write until `to_pct` percent of the file system are used, evenly over `seconds`."""
    start = used_pct(disk)
    began = time.monotonic()
    with (disk / "debug.log").open("wb", buffering=0) as log:
        while (used := used_pct(disk)) < to_pct:
            due = start + (to_pct - start) * min(1.0, (time.monotonic() - began) / seconds)
            if used < due:
                log.write(bytes(MIB // 4))
            else:
                time.sleep(0.02)


def used_pct(disk: Path) -> float:
    """What `df` says, from the kernel and not from any monitoring."""
    figures = os.statvfs(disk)
    return 100 * (1 - figures.f_bavail / figures.f_blocks)


@contextlib.contextmanager
def burner() -> Iterator[int]:
    """A busy loop that stays on one core; yields its process id."""
    core = max(os.sched_getaffinity(0))
    loop = subprocess.Popen(
        (
            sys.executable,
            "-c",
            f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass",
        ),
        start_new_session=True,
    )
    try:
        yield loop.pid
    finally:
        loop.kill()
        loop.wait()


def busy_pct(seconds: float) -> float:
    """How busy the processor is over the next `seconds`, from /proc/stat."""
    before = processor_time()
    time.sleep(seconds)
    after = processor_time()
    idle, total = after[0] - before[0], after[1] - before[1]
    return 100 * (1 - idle / total) if total else 0.0


def processor_time() -> tuple[int, int]:
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ticks = [int(field) for field in fields]
    return ticks[3] + ticks[4], sum(ticks)
