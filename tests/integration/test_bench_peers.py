"""The peers decide what the engine decides, and the benchmark gives the figures it promises."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.dock import SITES, SOP, DockFiles
from bench.peers import dock as peers
from bench.peers import floor as peer_floor
from bench.peers.floor import settled
from tests.dock import EXTENT, LAST_DAY, SEED, small_dock
from triage.model.decision import ActionId, NodeId
from triage.model.verdict import Truth, Verdict
from triage.sop.load import load_sop
from triage.sop.procedure import SiteProfile, Sop
from triage.sop.sites import load_sites
from triage.traversal import Walk, settle_actions

ALERTS = 10
ENTITY = "RC-02"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files: DockFiles = small_dock(tmp_path_factory)
    return files.warehouse.parent


@pytest.fixture(scope="module")
def sop() -> Sop:
    return load_sop(SOP)


@pytest.fixture(scope="module")
def profile(sop: Sop) -> SiteProfile:
    return load_sites(SITES, sop).profile("FC1")


async def _measured(folder: Path, *, alerts: int, **more: Any) -> dict[str, Any]:
    return await peers.measure(
        SEED, EXTENT, folder, alerts=alerts, rounds=1, between=LAST_DAY, **more
    )


async def test_all_decide_the_same(folder: Path) -> None:
    if find_spec("langgraph") is None and not os.environ.get("CI"):
        pytest.skip("langgraph is not installed: pip install 'triage[bench]'")
    told: list[tuple[int, int]] = []
    figures = await _measured(
        folder, alerts=ALERTS, progress=lambda done, of: told.append((done, of))
    )
    assert (figures["alerts"], figures["rounds"], figures["differences"]) == (ALERTS, 1, 0)
    assert told == [(done, len(told)) for done in range(1, len(told) + 1)]
    for name in _names():
        assert math.isfinite(figures[name]), name
        assert figures[name] > 0, name
    for prefix in ("dock", "dock_memory"):
        ratio = figures[f"{prefix}_engine_p50_ms"] / figures[f"{prefix}_floor_p50_ms"]
        assert figures[f"{prefix}_engine_over_floor"] == pytest.approx(ratio, rel=0.01)
    assert figures["langgraph_version"]


async def test_without_langgraph_the_others_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda _name: None)
    said: list[str] = []
    figures = await _measured(folder, alerts=1, say=said.append)
    assert any("LangGraph is not installed" in text for text in said)
    for name in _names():
        assert (figures[name] is None) is ("langgraph" in name), name
    assert figures["langgraph_version"] is None


async def test_a_difference_names_the_alert(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_floor, "settled", lambda *_: frozenset({("do_nothing", "LS-1")}))
    with pytest.raises(peers.Different, match=r"^al_\w+ of .* at site FC1, t=\d+:\n") as raised:
        await _measured(folder, alerts=1)
    assert "only floor says do_nothing LS-1" in str(raised.value)
    assert "only engine says " in str(raised.value)


async def test_a_time_without_alarms_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="no alarm was raised"):
        await peers.measure(SEED, EXTENT, folder, between=(EXTENT.start, EXTENT.start))


@settings(deadline=None)
@given(data=st.data())
def test_actions_are_settled_as_the_traversal_does(
    sop: Sop, profile: SiteProfile, data: st.DataObject
) -> None:
    # An asset, what contains it, and what has nothing to do with either.
    inner, outer = next(iter(profile.parents.items()))
    subjects = st.sampled_from(["", ENTITY, inner, outer])
    drawn = data.draw(
        st.dictionaries(
            st.sampled_from(sorted(sop.nodes)),
            st.tuples(st.sampled_from(Truth), subjects),
            max_size=8,
        )
    )
    verdicts = {node: Verdict(truth, subject=subject) for node, (truth, subject) in drawn.items()}
    actions, _ = settle_actions(_walk(sop, verdicts), profile.within, escalating=False)
    assert settled(sop, profile, ENTITY, verdicts) == {
        (action.action, action.subject) for action in actions
    }


def _walk(sop: Sop, verdicts: Mapping[NodeId, Verdict]) -> Walk:
    """With every action that the verdicts lead to."""
    reached: dict[tuple[ActionId, str], tuple[NodeId, ...]] = {}
    for node, verdict in verdicts.items():
        for action in sop.steps[node][verdict.value.word].actions:
            reached[action, verdict.subject or ENTITY] = (node,)
    return Walk(
        sop=sop,
        default_subject=ENTITY,
        layer=0,
        frontier=(),
        results={},
        edges=(),
        reached=reached,
    )


def _names() -> list[str]:
    return [
        name
        for prefix in ("dock", "dock_memory")
        for name in (
            *(
                f"{prefix}_{contender}_{figure}_ms"
                for contender in ("floor", "engine", "langgraph", "product")
                for figure in ("p50", "p99")
            ),
            f"{prefix}_engine_over_floor",
            f"{prefix}_langgraph_over_engine",
            f"{prefix}_product_over_floor",
        )
    ]
