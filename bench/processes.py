"""What a process uses, from Linux's /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 4, 14, 15, 16, 17
"""Numbers of fields of /proc/PID/stat, from 1."""


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and all its threads, user and system. Raises OSError when there is
    no such process."""
    fields = _stat(pid)
    return (fields[_USER] + fields[_SYSTEM]) / _TICKS_PER_S


def tree_cpu_s(pid: int) -> float:
    """Of a process, its children, and those children that have ended."""
    fields = _stat(pid)
    ticks = sum(fields[n] for n in (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM))
    seconds = ticks / _TICKS_PER_S
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if _stat(int(folder.name))[_PARENT] == pid:
                seconds += cpu_s(int(folder.name))
        except OSError:
            continue  # it has ended meanwhile
    return seconds


def open_files(pid: int) -> int:
    """How many file descriptors it has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def forget_peak(pid: int) -> None:
    """From now on `peak_resident_mb` counts anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_resident_mb(pid: int) -> float:
    """The most that was ever resident, in MiB: the kernel's own count, which misses no peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"process {pid} has no VmHWM")


def _stat(pid: int) -> dict[int, int]:
    rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return {number: int(rest[number - 3]) for number in (_PARENT, *range(_USER, 18))}
