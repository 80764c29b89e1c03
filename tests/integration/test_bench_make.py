"""The maker's benchmark on a small world: two nodes, few cases, all the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.annotator.cases import Case, CaseMaker
from bench.annotator.settings import load_settings
from bench.dock import DockFiles
from bench.make import measuring, real_model
from bench.make.endpoint_process import AuthorEndpoint
from bench.make.nodes import ABLATIONS, MakeOptions
from bench.world.world import Extent, World
from tests.dock import EXTENT, SEED, small_dock

NODES = ("obs_sorter_slow", "rc_drive_fault")
FEW = 24
EFFORT = 0.15


class FewCases:
    """As `CaseStore`, made with less effort and kept nowhere."""

    def __init__(self, world: World, _extent: Extent, _folder: object) -> None:
        self._maker = CaseMaker(world, load_settings(), world.seed, effort=EFFORT)

    def of(self, node: str) -> list[Case]:
        return self._maker.of(node)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> DockFiles:
    return small_dock(tmp_path_factory)


@pytest.fixture
def plan(files: DockFiles, monkeypatch: pytest.MonkeyPatch) -> measuring.Plan:
    monkeypatch.setattr(measuring, "CaseStore", FewCases)
    monkeypatch.setattr(real_model, "CaseStore", FewCases)
    return measuring.Plan(
        seed=SEED,
        extent=EXTENT,
        folder=files.warehouse.parent,
        train_cases=FEW,
        heldout_cases=FEW,
        options=MakeOptions(rounds=3, gate_cases=6, budget_ms=10_000.0),
    )


@pytest.mark.timeout(300)  # the small dock is built first
def test_all_runs_of_two_nodes(plan: measuring.Plan) -> None:
    told: list[tuple[int, int]] = []
    found = measuring.measure(plan, nodes=NODES, progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 2), (2, 2)]
    assert set(found["ablations"]) == set(ABLATIONS)
    for name, run in found["ablations"].items():
        assert run["nodes"] == 2, name
        assert set(run["by_node"]) == set(NODES), name
        assert run["tokens"] > 0, name
        assert run["seconds"] > 0, name
        assert 0 <= run["pass_at_1"] <= 1, name
    full = found["ablations"]["full"]
    assert found["nodes_below_target"] == {}
    assert full["heldout_pass_rate"] == full["train_pass_rate"] == 1
    assert all(row["traces_right"] == 3 for row in full["by_node"].values())
    assert all(row["gates_refused_by"] == [] for row in full["by_node"].values())
    assert all(row["refused"] == [] for row in full["by_node"].values())
    for name in ABLATIONS[1:]:
        assert found["worse_by"][name] > measuring.VISIBLE, name
    # What a first candidate lacks is the same, whoever is to repair it.
    assert found["ablations"]["no_repair"]["heldout_pass_rate"] == full["pass_at_1"] < 1
    ignoring = found["repair_uses_mismatches"]
    assert ignoring["pass_at_1"] == ignoring["heldout_pass_rate"] == full["pass_at_1"]
    assert not ignoring["improves"]
    assert measuring.is_right(found)
    assert measuring.summary(found)


def test_a_node_that_there_is_not(plan: measuring.Plan) -> None:
    with pytest.raises(ValueError, match="no node rc_moon_full"):
        measuring.measure(plan, nodes=["rc_moon_full"])


@pytest.mark.timeout(300)
def test_a_model_by_its_address_is_told_of_after_each_node(
    plan: measuring.Plan, tmp_path: Path
) -> None:
    told: list[dict[str, Any]] = []
    with AuthorEndpoint(tmp_path, dict.fromkeys(NODES, ())) as author:
        real_model.try_model(plan, measuring.model_of(author), nodes=NODES, keep=told.append)
    assert [figures["sampled"] for figures in told] == [1, 2]
    assert told[1]["by_node"].keys() > told[0]["by_node"].keys()
    assert told[1]["seconds"] >= told[0]["seconds"] > 0
    assert 0 < told[1]["pass_at_1"] <= told[1]["heldout_pass_rate"] == 1
    assert told[1]["could_be_registered"] == list(NODES)
    assert told[1]["registered"] == []
