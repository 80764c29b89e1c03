"""Readiness, outages, order of a burst, memory of a soak: figures from what was seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.burst import Settled, criticals_first
from bench.chaos.facts import read_asks
from bench.chaos.faults import Outage, unshown
from bench.chaos.readiness import Said, darkness, none_ready
from bench.chaos.replicas import Replica
from bench.processes import cpu_s, open_files, peak_resident_mb, tree_cpu_s
from bench.servers import resident_mb
from bench.soak import Sample, memory_figures


def said(at: float, replica: int, ready: bool | None) -> Said:
    return Said(at=at, replica=replica, ready=ready)


def test_dark_is_when_nobody_is_ready() -> None:
    log = [
        said(0, 0, True),
        said(0, 1, True),
        said(1, 0, False),
        said(2, 1, None),
        said(3, 0, True),
        said(5, 0, None),
        said(6, 1, None),
    ]
    assert none_ready(log, 2) == [(0, 0), (2, 3), (5, 6)]
    assert none_ready([], 2) == []


def test_an_outage_is_dark_until_somebody_is_ready_again() -> None:
    log = [said(0, 0, True), said(0, 1, True), said(11, 0, True), said(16, 1, True)]
    assert darkness(log, 2, [(10, 15)]) == [(0, 0), (10, 16)]
    assert darkness(log, 2, [(10, 15), (12, 20)]) == [(0, 0), (10, 20)]


def replicas(folder: Path, count: int) -> list[Replica]:
    return [Replica(n, folder / str(n), folder / "triage.toml", {}) for n in range(count)]


def test_a_replica_that_never_spoke_of_an_outage_is_found(tmp_path: Path) -> None:
    outage = Outage(what="broker", how="", since=10, until=20)
    log = [said(10 + step, 0, True) for step in range(1, 10)]
    (found,) = unshown([outage], log, replicas(tmp_path, 1))
    assert found == "replica-0 said it was ready through 10 s without broker"


@pytest.mark.parametrize(
    ("outage_s", "ready"),
    [(10.0, [True, False, True]), (10.0, [True, None, True]), (4.0, [True, True]), (10.0, [])],
    ids=["told", "did not answer", "a short one", "was not asked"],
)
def test_readiness_that_told_the_truth(
    tmp_path: Path, outage_s: float, ready: list[bool | None]
) -> None:
    outage = Outage(what="store", how="", since=10, until=10 + outage_s)
    log = [said(11 + step, 0, one) for step, one in enumerate(ready)]
    assert unshown([outage], log, replicas(tmp_path, 1)) == []


def test_the_sources_record_is_read_without_its_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "asked.log"
    path.write_text("2.5 c-1\n1.5 c-2\n3.5 c-1\n4.0 c-")
    asks = read_asks({0: path, 1: tmp_path / "none"})
    assert {entity: [one.at for one in its] for entity, its in asks.items()} == {
        "c-1": [2.5, 3.5],
        "c-2": [1.5],
    }


def settled(severity: str, accepted_at: float, decided_at: float) -> Settled:
    return Settled(severity=severity, accepted_at=accepted_at, decided_at=decided_at)


def test_criticals_that_went_first() -> None:
    lesser = [settled("warning", n, 100 + n) for n in range(4)]
    figures = criticals_first([*lesser, settled("critical", 10, 11)])
    assert figures == {
        "criticals_that_met_lesser": 1,
        "criticals_before_last_lesser": 1.0,
        "lesser_overtaken_mean": 1.0,
    }


def test_criticals_that_waited_their_turn() -> None:
    lesser = [settled("info", n, 100 + n) for n in range(4)]
    last, middle = settled("critical", 10, 200), settled("critical", 10, 102)
    figures = criticals_first([*lesser, last, middle])
    assert figures["criticals_before_last_lesser"] == 0.5
    assert figures["lesser_overtaken_mean"] == pytest.approx(0.125)


def test_a_critical_that_met_nobody_proves_nothing() -> None:
    alone = [settled("warning", 0, 1), settled("error", 0, 50), settled("critical", 10, 11)]
    assert criticals_first(alone)["criticals_before_last_lesser"] is None


def test_memory_is_compared_at_the_mark_and_at_the_end() -> None:
    samples = [
        Sample(at_s=10.0 * n, resident_mb=100 + (n > 60) * 7, files=20 + n // 100)
        for n in range(181)
    ]
    figures = memory_figures(samples, 1800.0)
    assert (figures["resident_mb_5min"], figures["resident_mb_end"]) == (100, 107)
    assert figures["growth"] == 1.07
    assert (figures["fds_5min"], figures["fds_end"], figures["files_growth"]) == (20, 21, 1)


def test_one_sample_that_stands_out_is_no_growth() -> None:
    samples = [Sample(at_s=10.0 * n, resident_mb=100, files=20) for n in range(180)]
    samples.append(Sample(at_s=1800.0, resident_mb=900, files=900))
    assert memory_figures(samples, 1800.0)["growth"] == 1.0


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        memory_figures([Sample(at_s=0.0, resident_mb=1, files=1)], 1800.0)


def test_what_a_process_uses() -> None:
    pid = os.getpid()
    before = cpu_s(pid)
    assert sum(range(2_000_000)) > 0
    assert 0 < before <= cpu_s(pid) <= tree_cpu_s(pid) + 1.0
    assert peak_resident_mb(pid) >= resident_mb(pid) * 0.9
    files = open_files(pid)
    with Path("/dev/null").open("rb"):
        assert open_files(pid) == files + 1
