"""What code in the sandbox may use up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """`feed_s` is of one run and counts only while its code executes, not while it waits for a
    host function. `suspensions` are the host calls of a session, until it begins anew.
    `result_bytes` is the most a host function may be given, or may give; what a run prints past
    `printed_bytes` is dropped. `workers` sessions at once have a process each, which is replaced
    after `checkouts_a_worker` of them: it does not give memory back. `nice` is what its priority
    is lowered by, 0 to 19, where nobody waits for what runs there.

    There is no limit on sleeping, because nothing sleeps: it returns at once.
    """

    memory_bytes: int = 128 << 20
    feed_s: float = 10.0
    recursion: int = 200
    suspensions: int = 2_000
    printed_bytes: int = 64 * 1024
    result_bytes: int = 1 << 20
    workers: int = 2
    checkouts_a_worker: int = 50
    nice: int = 0
