"""A small world's cases through the real sources and the real judging of one node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.annotator import cases as annotator_cases
from bench.annotator.candidates import Split
from bench.annotator.cases import Case
from bench.annotator.judge import Judge
from bench.annotator.settings import load_settings
from bench.cases.edges import CLOSE, NOT_TO_THE_BIT, EdgeFinder
from bench.cases.judging import failing_cases, judge_tools, measure
from bench.cases.store import CaseStore
from bench.dock import dock_files
from bench.world.world import Extent, World
from triage.sop.load import load_sop

NODE = "rc_air_pressure_low"
SEED = 5
EXTENT = Extent(days=2, sites=1)
EACH_S = 1830
ROOT = Path(__file__).resolve().parents[3]

RIGHT = '''"""The low end of the header's pressure."""

from triage.tool_api import compare, conclude, no_data, quantile, samples, selector, valid

GRAIN_S = 10
SUBJECT = "AIR-1"


def queries(warehouse, timestamp, context):
    window_s = float(context.params["air_window_s"])
    return [samples("metrics", selector("dock_air_pressure", site=warehouse), timestamp, window_s)]


def evaluate(warehouse, timestamp, context):
    bars = [
        value
        for series in context.answer(queries(warehouse, timestamp, context)[0])
        for value in valid(series.values)
    ]
    expected = float(context.params["air_window_s"]) / GRAIN_S
    if len(bars) < float(context.params["min_coverage"]) * expected:
        return no_data("too few readings", subject=SUBJECT)
    low = quantile(bars, 0.1)
    return conclude(
        [compare("air pressure", low, "<", float(context.params["air_bar"]), "bar")],
        f"air stood at {low:.2f} bar",
        subject=SUBJECT,
    )
'''
WRONG = RIGHT.replace('float(context.params["air_bar"])', "6.9")
BROKEN = RIGHT.replace("quantile(bars, 0.1)", "bars[10_000]")


class Regular:
    """Cases each half an hour, the first day's to train on."""

    def __init__(self, world: World) -> None:
        self._judge = Judge(world, load_settings())
        self._times = range(world.start + 3600, world.end, EACH_S)
        self._middle = (world.start + world.end) // 2

    def of(self, node: str) -> list[Case]:
        return [self._case(node, t) for t in self._times]

    def _case(self, node: str, t: int) -> Case:
        judged = self._judge.judge(0, t, "RC-02", node)
        split: Split = "train" if t < self._middle else "heldout"
        return Case(
            node=node,
            site=0,
            t=t,
            entity="RC-02",
            expected=judged.value,
            subject=judged.subject,
            split=split,
            episode=t,
            margin=judged.margin,
            near="any time",
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the world from one test to the next."""
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="module")
def world(folder: Path) -> World:
    return dock_files(SEED, EXTENT, folder).world


@pytest.fixture(scope="module")
def store(world: World) -> Regular:
    return Regular(world)


def _tools(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / f"{NODE}.py").write_text(text)
    return folder


def test_a_right_tool_passes_every_case(folder: Path, store: Regular, tmp_path: Path) -> None:
    tools = _tools(tmp_path / "tools", RIGHT)
    found = judge_tools(SEED, EXTENT, folder, tools=tools, mutants=0, store=store)
    figures = found.nodes[NODE]
    assert found.failing == []
    for split in ("train", "heldout"):
        assert figures.total[split] > 20
        assert figures.rate(split) == 1
        assert figures.verdicts[split]["false"] > 0
        assert figures.episodes[split] > 0


def test_a_wrong_tool_is_found_and_told_to_people(
    folder: Path, store: Regular, tmp_path: Path
) -> None:
    tools = _tools(tmp_path / "tools", WRONG)
    failing = failing_cases(SEED, EXTENT, folder, tools=tools, store=store)
    assert failing
    one = next(one for one in failing if one.expected == "false")
    assert (one.node, one.site, one.got, one.subject_got) == (NODE, "FC1", "true", "AIR-1")
    text = str(one)
    assert f"t={one.t}" in text
    assert "expected false, got true, subject AIR-1" in text
    assert "air pressure: " in text
    assert "< 6.9 bar -> True" in text


def test_a_tool_that_raises_fails_its_cases(folder: Path, store: Regular, tmp_path: Path) -> None:
    tools = _tools(tmp_path / "tools", BROKEN)
    failing = failing_cases(SEED, EXTENT, folder, tools=tools, store=store)
    assert {one.got for one in failing} == {"failed"}
    assert "IndexError" in failing[0].detail


def test_the_report(folder: Path, store: Regular, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tools = _tools(tmp_path / "tools", RIGHT)
    report = measure(
        SEED,
        EXTENT,
        folder,
        lambda done, of: seen.append((done, of)),
        nodes=[NODE],
        tools=tools,
        mutants=8,
        store=store,
    )
    assert seen == [(0, 1), (1, 1)]
    assert report["train_cases"] > 20
    assert report["heldout_cases"] > 20
    assert report["train_pass_rate"] == report["heldout_pass_rate"] == 1
    assert report["worst_nodes"] == []
    assert report["mutants"] == 8
    assert 0 < report["mutants_killed"] <= 8
    assert report["mutants_killed"] + len(report["survivors"]) == 8
    assert report["edge_cases"] > 0
    assert report["edge_pass_rate"] == 1
    node: Mapping[str, Mapping[str, int]] = report["nodes"][NODE]
    assert node["heldout"]["cases"] == report["heldout_cases"]
    assert set(report["seconds"]) >= {"making_cpu", "cases_cpu", "mutants_cpu", "all"}


def test_worst_nodes_come_with_their_rate(folder: Path, store: Regular, tmp_path: Path) -> None:
    tools = _tools(tmp_path / "tools", WRONG)
    report = measure(SEED, EXTENT, folder, tools=tools, mutants=0, store=store)
    ((node, rate),) = report["worst_nodes"]
    assert node == NODE
    assert rate == report["heldout_pass_rate"] < 1
    assert report["mutants"] == 0
    assert report["mutants_killed_rate"] is None


def test_cases_are_made_once(folder: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotator_cases, "CHEAP_TRIES", 60)
    made = CaseStore(world, EXTENT, folder).of(NODE)
    assert made
    assert CaseStore(world, EXTENT, folder).of(NODE) == made
    (kept,) = folder.glob(f"cases-{SEED}-*/{NODE}.jsonl")
    kept.write_text("")
    assert CaseStore(world, EXTENT, folder).of(NODE) == []
    kept.unlink()
    assert CaseStore(world, EXTENT, folder).of(NODE) == made


def test_edges_turn_between_two_neighbouring_figures(world: World, store: Regular) -> None:
    cases = store.of(NODE)
    edges = EdgeFinder(world, load_settings()).edges(cases, load_sop(ROOT / "sop.yaml").params)
    assert "air_bar" in {edge.param for edge in edges}
    for one, other in zip(edges[::2], edges[1::2], strict=True):
        assert one.param == other.param
        assert one.case.expected != other.case.expected
        low, high = sorted((one.value, other.value))
        if one.param == "air_window_s":
            assert high - low == 1
        elif one.param in NOT_TO_THE_BIT:
            assert 0 < high - low <= 2 * CLOSE * high
        else:
            assert (low + high) / 2 in (low, high)
