"""The fallback's benchmarks run on the small dock: same decisions, whoever answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.dock import LIBRARY, SOP, DockFiles
from bench.fallback import measuring, real_model
from bench.fallback.agency import Agency, section
from bench.fallback.endpoint import Mode
from bench.fallback.endpoint_process import ScriptedEndpoint
from bench.fallback.isolation import Plan, measure_isolation
from bench.fallback.modes import Mode as Answering
from bench.replay.history import History, figures, replay
from bench.replay.report import report
from tests.dock import EXTENT, LAST_DAY, SEED, small_dock

ALERTS = 12
SOME = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> DockFiles:
    return small_dock(tmp_path_factory)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedEndpoint]:
    folder = tmp_path_factory.mktemp("endpoint")
    with ScriptedEndpoint(folder, sop=SOP, library=LIBRARY) as running:
        yield running


@pytest.fixture
def agency(endpoint: ScriptedEndpoint) -> Iterator[Agency]:
    yield Agency(section=section(endpoint.llm_url, endpoint.model))
    endpoint.switch(Mode.SCRIPT)


def _small(files: DockFiles) -> dict[str, Any]:
    return {
        "seed": SEED,
        "extent": EXTENT,
        "folder": files.warehouse.parent,
        "between": LAST_DAY,
    }


@pytest.mark.timeout(300)  # the small dock is built first
async def test_agents_answer_as_tools_do(files: DockFiles) -> None:
    told: list[tuple[int, int]] = []
    found = await measuring.measure(
        count=ALERTS, progress=lambda done, of: told.append((done, of)), **_small(files)
    )
    assert found["differing"] == []
    assert found["error_rate"] == 0
    assert measuring.is_right(found)
    assert found["alerts"] == ALERTS
    assert told == [(done, ALERTS) for done in range(1, ALERTS + 1)]
    assert found["fallback_nodes"] == found["fallback_verdicts"] == found["gaps"] > 0
    assert found["llm_turns"] == found["endpoint"]["requests"] >= found["fallback_nodes"]
    assert found["tokens"] > 0
    assert found["endpoint"]["refused"] == 0
    assert 0 < found["alerts_with_all_disabled"] < ALERTS


@pytest.mark.timeout(300)
async def test_a_refusing_endpoint_is_told_as_a_difference(
    files: DockFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Untaught(ScriptedEndpoint):
        def __init__(self, folder: Path) -> None:
            empty = folder / "library"
            empty.mkdir()
            super().__init__(folder, library=empty)

    monkeypatch.setattr(measuring, "ScriptedEndpoint", Untaught)
    found = await measuring.measure(count=SOME, **_small(files))
    assert not measuring.is_right(found)
    assert found["fallback_verdicts"] == 0
    assert found["endpoint"]["refused"] == found["endpoint"]["requests"] > 0
    assert any("failed (fallback_" in what for one in found["differing"] for what in one["what"])


@pytest.mark.timeout(300)
async def test_a_mistake_is_mended_in_the_next_turn(
    files: DockFiles, agency: Agency, endpoint: ScriptedEndpoint
) -> None:
    endpoint.switch(Mode.MISTAKEN)
    found = await real_model.try_model(agency, sample=5, **_small(files))
    assert found["sampled"] == found["distinct_nodes"] == found["right"] == 5
    assert found["llm_turns"] == 10
    assert found["wrong"] == found["gave_up"] == 0
    assert found["budgets_broken"] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [Mode.HANG, Mode.ERROR, Mode.FLOOD])
async def test_an_endpoint_in_trouble_is_given_up_within_the_budget(
    files: DockFiles,
    agency: Agency,
    endpoint: ScriptedEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    mode: Mode,
) -> None:
    # A machine that does other things may be slow, and that is not what is tested.
    monkeypatch.setattr(real_model, "GRACE_S", 60.0)
    endpoint.switch(mode)
    short = replace(agency, section=section(endpoint.llm_url, endpoint.model, timeout_s=1.5))
    found = await real_model.try_model(short, sample=2, **_small(files))
    assert found["gave_up"] == found["sampled"] == 2
    if mode is Mode.FLOOD:
        # It was told how long a reply may be; what it writes beyond is known when it is written.
        assert all(" tokens, " in broken for broken in found["budgets_broken"])
        assert found["llm_turns"] <= 2 * found["budgets"]["max_turns"]
    else:
        assert found["budgets_broken"] == []


@pytest.mark.timeout(300)
async def test_three_ways_to_the_same_decisions(files: DockFiles, agency: Agency) -> None:
    runs = {mode: await _replayed(files, mode, agency) for mode in Answering}
    found = {mode: figures(run) for mode, run in runs.items()}
    for mode, one in found.items():
        assert one["errors"] == 0, (mode, runs[mode].differences)
        assert one["mode"] == mode
        assert report(runs[mode], one)
    direct, delegated, codeact = (found[mode] for mode in Answering)
    assert direct["decisions_sha256"] == codeact["decisions_sha256"]
    assert direct["llm_turns"] == direct["tokens"] == 0
    assert direct["modelled_p50_ms"] == direct["p50_ms"]
    nodes = sum(len(one.decision.nodes) for one in runs[Answering.DIRECT].decided)
    assert delegated["llm_turns"] == codeact["llm_turns"] == nodes
    assert 0 < delegated["tokens"] < codeact["tokens"]
    assert direct["modelled_p50_ms"] < delegated["modelled_p50_ms"] < codeact["modelled_p50_ms"]
    assert codeact["modelled_p50_ms"] <= codeact["modelled_one_slot_p50_ms"]


async def _replayed(files: DockFiles, mode: Answering, agency: Agency) -> History:
    return await replay(
        count=SOME,
        mode=mode,
        staff=agency,
        progress=lambda _done, _of: None,
        say=lambda _text: None,
        **_small(files),
    )


async def test_a_hanging_endpoint_answers_nobody(endpoint: ScriptedEndpoint) -> None:
    endpoint.switch(Mode.HANG)
    try:
        async with httpx.AsyncClient(timeout=0.3) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post(
                    f"{endpoint.llm_url}/chat/completions",
                    json={"messages": [{"role": "user", "content": "# Question\n-"}]},
                )
    finally:
        counted = endpoint.switch(Mode.SCRIPT)
    assert counted["by_mode"]["hang"] >= 1


@pytest.mark.timeout(300)
def test_isolation_gives_what_it_promises() -> None:
    told: list[tuple[int, int]] = []
    plan = Plan(rate_per_s=10.0, half_s=1.0, pairs=1)
    found = measure_isolation(plan, lambda done, of: told.append((done, of)))
    assert told == [(done, 8) for done in range(1, 9)]
    for trouble in ("hang", "error", "flood"):
        assert found[f"p99_ratio_{trouble}"] > 0
        assert found[f"stray_degraded_{trouble}"] > 0
    assert found["pairs"] == 1
    assert found["all_decided"]
    assert found["accepted"] == found["decided"] > 0
    assert found["pending"] == found["dead_lettered"] == 0
    assert found["stray_answered_healthy"] > 0
