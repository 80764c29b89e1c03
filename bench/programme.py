"""`python -m bench all`: every measurement, each as its own command, into one folder.

Steps that only count what is right share the machine's two cores; whatever measures time runs
alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.record import RESULTS
from bench.watching import Say

QUEUES = ("sqlite", "redis", "nats")
CHAOS = ("--seconds", "300", "--alerts", "6000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`name` is the file's as well. `arguments` are those of `python -m bench`."""

    name: str
    arguments: tuple[str, ...]


def _step(name: str, *arguments: str) -> Step:
    return Step(name=name, arguments=arguments)


STEPS: tuple[tuple[Step, ...], ...] = (
    (_step("world", "world"), _step("world-sealed", "world", "--sealed")),
    (
        _step("cases", "cases"),
        _step("replay-sealed", "replay", "--sealed", "--plots", str(RESULTS)),
    ),
    (_step("replay", "replay", "--plots", str(RESULTS)),),
    (
        _step("replay-subtree", "replay", "--prefetch", "subtree"),
        _step("real-servers", "real-servers"),
    ),
    (_step("peers", "peers"),),
    (_step("load", "load"),),
    (_step("growth", "growth"),),
    (_step("overhead", "overhead"),),
    (_step("prefetch", "prefetch"),),
    (_step("start", "start"),),
)
"""Steps of one group run side by side."""

FALLBACK_STEPS: tuple[tuple[Step, ...], ...] = (
    (_step("fallback", "fallback"),),
    (_step("replay-delegated", "replay", "--mode", "delegated"),),
    (_step("replay-codeact", "replay", "--mode", "codeact"),),
    (_step("isolation", "isolation"),),
)
"""Of the fallback: as long again as everything else."""

DELIVERY_STEPS: tuple[tuple[Step, ...], ...] = (
    *(
        (_step(f"chaos-{queue}", *("chaos", "--queue", queue, *CHAOS)),)
        for queue in ("sqlite", "postgres", "redis", "nats")
    ),
    (_step("scale", "scale"),),
    *((_step(f"burst-{queue}", "burst", "--queue", queue),) for queue in QUEUES),
    (_step("soak", "soak", "--plot", str(RESULTS / "soak.png")),),
)
"""Of deliveries: 25 minutes of faults, and half an hour of steady load, take an hour in all."""

MAKING_STEPS: tuple[tuple[Step, ...], ...] = (
    (_step("make", "make"),),
    (_step("shadow", "shadow"),),
    (_step("drift", "drift"),),
)
"""Of making and watching tools."""

PARTS: Mapping[str, Sequence[Sequence[Step]]] = {
    "decisions": STEPS,
    "fallback": FALLBACK_STEPS,
    "deliveries": DELIVERY_STEPS,
    "making": MAKING_STEPS,
}


async def run(say: Say, steps: Sequence[Sequence[Step]] = STEPS, folder: Path = RESULTS) -> int:
    """How many steps failed. Each writes its figures into `folder`, and its output beside them
    when it fails."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    began, failed = time.monotonic(), 0
    for number, group in enumerate(steps, 1):
        names = " and ".join(step.name for step in group)
        say(f"{_clock(began)}  {number}/{len(steps)}  {names}")
        codes = await asyncio.gather(*(_run(step, folder, say) for step in group))
        failed += len([code for code in codes if code])
    say(f"{_clock(began)}  done, {failed} failed; figures in {folder.name}/")
    return failed


async def _run(step: Step, folder: Path, say: Say) -> int:
    file = folder / f"{step.name}.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench", *step.arguments, "--json", str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
    code = await process.wait()
    if code:
        say(f"{step.name} ended with {code}:\n{output.decode(errors='replace')}")
    return code


def _clock(began: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    return f"{minutes:02d}:{seconds:02d}"
