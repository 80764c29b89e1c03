"""The shadow bench on the small dock: exactly the known subset; and its cost, in short halves."""

from __future__ import annotations

from typing import Any

import pytest

from bench.dock import LIBRARY, DockFiles, procedure
from bench.shadow.changed import CHANGES, Change, put_in_shadow, shadows_of
from bench.shadow.cost import Half, Plan, figures, is_cheap, measure_cost
from bench.shadow.subset import is_exact, measure_subset
from bench.watching import unseen
from tests.dock import EXTENT, LAST_DAY, SEED, small_dock
from triage.ports import Compared

COUNT = 80


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> DockFiles:
    return small_dock(tmp_path_factory)


@pytest.mark.timeout(300)  # the small dock is built first
async def test_exactly_the_known_subset_is_reported(files: DockFiles) -> None:
    found = await measure_subset(
        count=COUNT,
        seed=SEED,
        extent=EXTENT,
        folder=files.warehouse.parent,
        between=LAST_DAY,
        progress=unseen,
        say=lambda _text: None,
    )
    assert found["alerts"] > COUNT // 2
    assert found["compared"] == found["evaluated"] > 0
    assert found["reported"] == found["differ"] > 0
    for off in ("missing", "extra", "other_verdict", "unrecorded", "failed", "dropped"):
        assert found[off] == 0, found
    assert set(found["nodes"]) == {change.node for change in CHANGES}


def test_what_is_missing_extra_or_not_compared_is_not_exact() -> None:
    node = {"differ": 2}
    exact: dict[str, Any] = {
        "missing": 0,
        "extra": 0,
        "other_verdict": 0,
        "unrecorded": 0,
        "failed": 0,
        "dropped": 0,
        "evaluated": 10,
        "compared": 10,
        "nodes": {"a": node, "b": node},
    }
    assert is_exact(exact)
    for name in ("missing", "extra", "other_verdict", "unrecorded", "failed", "dropped"):
        assert not is_exact({**exact, name: 1})
    assert not is_exact({**exact, "compared": 9})
    assert not is_exact({**exact, "compared": 0, "evaluated": 0})
    assert not is_exact({**exact, "nodes": {"a": node, "b": {"differ": 0}}})


def test_a_change_that_is_not_the_tools_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sop = procedure().sop
    folder = tmp_path_factory.mktemp("changed")
    tools = shadows_of(LIBRARY, folder, sop)
    assert {node: tool.version for node, tool in tools.items()} == {
        change.node: 2 for change in CHANGES
    }
    for before in ("nowhere", "context"):
        change = Change(node=CHANGES[0].node, before=before, after="")
        with pytest.raises(ValueError, match="does not stand there once"):
            put_in_shadow(folder / LIBRARY.name, sop, change)


@pytest.mark.timeout(300)
def test_the_cost_is_measured_in_pairs() -> None:
    told: list[tuple[int, int]] = []
    plan = Plan(rate_per_s=20, lead_s=0.2, half_s=1.0, pairs=2, shadows=2)
    found = measure_cost(plan, lambda done, of: told.append((done, of)))
    assert told[-1] == (6, 6)
    assert len(found["p99_ratios"]) == 2
    assert all(ratio > 0 for ratio in found["p99_ratios"])
    assert found["comparisons"]["agrees"] > 0
    assert sum(found["comparisons"].values()) == found["comparisons"]["agrees"]
    assert found["accepted"] == found["decided"] > found["alerts"]
    assert found["p99_ms_on"] >= found["p50_ms_on"] > 0


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    def half(on: bool, p99_s: float) -> Half:
        counts = {Compared.AGREES: 3, Compared.DROPPED: 1} if on else {}
        return Half(on=on, latencies=[p99_s / 2, p99_s], counts=counts, sender_late_s=0.001)

    pairs = [(half(True, on), half(False, 0.010)) for on in (0.011, 0.010, 0.030)]
    found = figures(Plan(pairs=3), pairs)
    assert (found["p99_ratio"], found["p99_ratios"]) == (1.1, [1.1, 1.0, 3.0])
    assert is_cheap(found)
    assert not is_cheap({**found, "p99_ratio": 1.101})
    assert (found["p99_ms_on"], found["p99_ms_off"]) == (11.0, 10.0)
    assert found["comparisons"]["agrees"] == 9
    assert found["comparisons"]["dropped"] == 3
    assert found["alerts"] == 12
