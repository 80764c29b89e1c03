"""What the process's exit code says. The numbers are those of BSD's sysexits where one fits."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FINDINGS = 1
    """It ran, and the answer is bad news: a fault found, an alert escalated, a ledger off."""
    USAGE = 2
    UNRECORDED = 3
    """No bad news, but some of what was asked could not be told for want of recorded answers."""
    UNAVAILABLE = 69
    """A daemon or address that is needed cannot be had."""
    INTERNAL = 70
    """A fault of triage, or a tool that blocked the event loop: the log says which."""
    UNFINISHED = 75
    """Stopped with alerts still being decided; they are kept and taken up at the next start."""
    CONFIG = 78
