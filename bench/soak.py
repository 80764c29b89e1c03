"""One daemon at half of what it sustains, for long: does its memory grow, do files stay open.

The rate is searched on a daemon of its own, so that what an overload leaves in memory is not taken
for the normal state. Figures are medians over a minute (less in a short run), of samples every ten
seconds: at five minutes (or a sixth of a short run), when all that is built once has been, and at
the end.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.load.small import make_project, payload
from bench.load.sustained import LoadTarget, Plan, Session
from bench.processes import open_files
from bench.queued import queue_servers
from bench.ranks import nearest_rank
from bench.served import ServedTriage
from bench.servers import resident_mb
from bench.watching import Progress, unseen

SEARCH = Plan(first_rate=50.0, trial_s=4.0, confirm_s=8.0, close=1.2)
WARM_UP_S = 5.0
SAMPLE_S = 10.0
CHUNK_S = 30.0
MARK_S = 300.0
WINDOW_S = 60.0
SETTLE_S = 300.0
SPARE_FILES = 8  # a pool may open some more at any time; a leak opens more than that


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`at_s` is from the start of the load."""

    at_s: float
    resident_mb: float
    files: int


@dataclass(slots=True)
class Sampler:
    """Looks at a process every SAMPLE_S, in a thread of its own."""

    pid: int
    samples: list[Sample] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, progress: Progress, seconds: float) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, args=(progress, seconds), name="sampler")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self, progress: Progress, seconds: float) -> None:
        began = time.monotonic()
        every_s = min(SAMPLE_S, seconds / 20)
        while True:
            at_s = time.monotonic() - began
            try:
                sample = Sample(
                    at_s=at_s, resident_mb=resident_mb(self.pid), files=open_files(self.pid)
                )
            except OSError:
                return  # it has ended, and the load says so
            self.samples.append(sample)
            progress(min(int(at_s), int(seconds)), int(seconds))
            if self._over.wait(every_s):
                return


def measure_soak(
    queue: str = "sqlite",
    *,
    seconds: float = 1800.0,
    rate: float | None = None,
    progress: Progress = unseen,
) -> dict[str, Any]:
    """`progress` counts seconds. Raises LoadFailed, MissingServer, and RuntimeError when the daemon
    does not start or does not keep up."""
    store = "postgres" if queue == "postgres" else "sqlite"
    with tempfile.TemporaryDirectory(prefix="triage-soak-") as name:
        folder = Path(name)
        target = LoadTarget(config=make_project(folder / "project"), payload=payload)
        highest = None
        if rate is None:
            with _session(folder / "search", target, queue, store) as session:
                session.trial(SEARCH.unloaded_rate, WARM_UP_S)
                highest = session.highest_rate(SEARCH)
            rate = highest / 2
        with _session(folder / "soak", target, queue, store) as session:
            figures = _soaked(session, rate, seconds, progress)
    return {
        **figures,
        "rate_per_s": round(rate, 1),
        "max_rate_per_s": None if highest is None else round(highest, 1),
        "queue": queue,
        "store": store,
    }


@contextmanager
def _session(folder: Path, target: LoadTarget, queue: str, store: str) -> Iterator[Session]:
    with queue_servers(queue, store, folder) as queued:
        daemon = ServedTriage(folder / "run", target.config, queued.settings)
        with daemon:
            yield Session(daemon=daemon, target=target, progress=unseen, steps=1)


def _soaked(session: Session, rate: float, seconds: float, progress: Progress) -> dict[str, Any]:
    assert session.daemon.process is not None
    sampler = Sampler(session.daemon.process.pid)
    began = time.monotonic()
    with sampler.running(progress, seconds):
        while (left := began + seconds - time.monotonic()) > 0.5:
            session.trial(rate, min(CHUNK_S, left))
    ledger = session.daemon.settled_ledger(within_s=SETTLE_S)
    latencies = [one for trial in session.trials for one in trial.latencies]
    figures = memory_figures(sampler.samples, seconds)
    balances = ledger["balances"] and ledger["accepted"] == len(session.accepted)
    return {
        "ok": balances and figures["files_growth"] <= SPARE_FILES,
        **figures,
        "within_5_percent": figures["growth"] <= 1.05,
        "alerts": len(session.accepted),
        "refused": sum(trial.refused for trial in session.trials),
        "balances": balances,
        "p50_ms": round(1000 * nearest_rank(latencies, 0.5), 3),
        "p99_ms": round(1000 * nearest_rank(latencies, 0.99), 3),
        "seconds": seconds,
        "samples": [
            [round(one.at_s, 1), round(one.resident_mb, 2), one.files] for one in sampler.samples
        ],
    }


def memory_figures(samples: Sequence[Sample], seconds: float) -> dict[str, Any]:
    """Medians about the mark and at the end. Raises ValueError when there are no samples there."""
    mark, window = min(MARK_S, seconds / 6), min(WINDOW_S, seconds / 6)
    early = [one for one in samples if abs(one.at_s - mark) <= window / 2]
    late = [one for one in samples if one.at_s >= samples[-1].at_s - window]
    if not early or not late:
        raise ValueError(f"{len(samples)} samples are too few for {seconds:g} s")
    before, after = (statistics.median(one.resident_mb for one in part) for part in (early, late))
    files, files_after = (statistics.median(one.files for one in part) for part in (early, late))
    return {
        "resident_mb_5min": round(before, 2),
        "resident_mb_end": round(after, 2),
        "growth": round(after / before, 4),
        "fds_5min": files,
        "fds_end": files_after,
        "files_growth": files_after - files,
        "mark_s": mark,
    }


def draw(figures: Mapping[str, Any], path: Path) -> Path:
    """Memory and files over the time, as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    minutes = [at_s / 60 for at_s, _, _ in figures["samples"]]
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
    upper.plot(minutes, [resident for _, resident, _ in figures["samples"]])
    upper.axvline(figures["mark_s"] / 60, color="grey", linestyle=":")
    upper.axhline(figures["resident_mb_5min"] * 1.05, color="grey", linestyle="--")
    upper.set(
        ylabel="resident, MiB",
        ylim=(0, None),
        title=f"{figures['rate_per_s']:g} alerts a second, {figures['queue']}",
    )
    lower.plot(minutes, [files for _, _, files in figures["samples"]])
    lower.set(ylabel="open files", xlabel="minutes", ylim=(0, None))
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
