"""What is served now: replaced whole, or not at all."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import AT, Project, good_tool
from tests.unit.evaluation.world import sample
from triage.adapters.memory import MemorySource
from triage.app import sources as app_sources
from triage.app.current import Current, Files
from triage.app.sources import SourcePool
from triage.clock import SystemClock
from triage.errors import ConfigError, InvalidFiles
from triage.library import linted, quarantine
from triage.library.lifecycle import add_version, promote
from triage.library.policy import Checked, check_source
from triage.model.decision import NodeId
from triage.sop.load import load_sop
from triage.telemetry.metrics import Metrics

A, B = NodeId("a"), NodeId("b")


class Opened(MemorySource):
    """Notes what happens to it in a list that all share."""

    def __init__(self, name: str, address: str, events: list[tuple[str, str]]) -> None:
        super().__init__(name, {})
        self._address = address
        self._events = events

    async def open(self) -> None:
        if "refused" in self._address:
            raise ConfigError(f"source {self.name}: the address cannot be used")
        self._events.append(("open", self._address))

    async def close(self) -> None:
        self._events.append(("close", self._address))


class Bench:
    def __init__(self, folder: Path, events: list[tuple[str, str]]) -> None:
        self.project = Project(
            folder=folder / "project", nodes={"a": good_tool()}, metrics_url="http://one:1"
        ).write()
        self.events = events
        self.metrics = Metrics.register(version="test", monotonic=lambda: 0.0)
        self.files = Files(
            config=self.project.config,
            quarantine=self.project.folder / "quarantine.json",
            override={},
        )
        self.current = self.another()

    def another(self) -> Current:
        """What the next process of the same files would have."""
        return Current(
            files=self.files,
            settings=self.files.settings(),
            pool=SourcePool(SystemClock(), self.metrics.sources),
            metrics=self.metrics,
        )

    def promote(self, name: str, source: str) -> None:
        root, sop, node = (
            self.project.folder / "tools_lib",
            load_sop(self.project.sop),
            NodeId(name),
        )
        number = add_version(root, sop, node, source.encode(), maker="test", at=AT)
        promote(root, sop, node, number, by="test", at=AT)

    def configure(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self.project, name, value)
        self.project.config.write_text(self.project.config_text())

    def reloads(self, result: str) -> float:
        return sample(self.metrics, "triage_reloads_total", result=result)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    events: list[tuple[str, str]] = []

    def make(name: str, section: Any) -> Opened:
        return Opened(name, section.address, events)

    monkeypatch.setattr(app_sources, "make_source", make)
    return Bench(tmp_path, events)


async def test_a_start_opens_the_sources_and_the_end_closes_them(bench: Bench) -> None:
    await bench.current.start()
    snapshot = bench.current.snapshots.current
    assert (snapshot.sop.name, list(snapshot.sources)) == ("test", ["metrics"])
    assert bench.current.field_map("native") is not None
    assert bench.current.field_map("nagios") is None
    await bench.current.close()
    assert bench.events == [("open", "http://one:1"), ("close", "http://one:1")]


async def test_a_start_that_is_refused_leaves_nothing_open(bench: Bench) -> None:
    bench.project.sop.write_text("sop: [")
    with pytest.raises(InvalidFiles, match=r"sop\.yaml"):
        await bench.current.start()
    assert bench.events == []
    await bench.current.close()


async def test_a_source_that_cannot_be_opened_closes_those_that_were(bench: Bench) -> None:
    second = '\n[sources.second]\ntype = "prometheus"\nurl = "http://refused:1"\n'
    bench.configure(more=second)
    bench.current.settings = bench.files.settings()
    with pytest.raises(ConfigError, match="second"):
        await bench.current.start()
    assert bench.events == [("open", "http://one:1"), ("close", "http://one:1")]


async def test_a_reload_with_the_same_source_keeps_its_connections(bench: Bench) -> None:
    await bench.current.start()
    before = bench.current.snapshots.current.sources["metrics"]
    bench.project.sop.write_text(bench.project.sop_text(version=2))
    document = await bench.current.reload()
    assert document["sop_version"] == 2
    assert document["restart_needed"] == []
    assert bench.current.snapshots.current.sources["metrics"] is before
    assert bench.events == [("open", "http://one:1")]
    assert (bench.reloads("ok"), bench.reloads("refused")) == (1, 0)


async def test_a_reload_with_another_address_opens_it_and_closes_the_old(bench: Bench) -> None:
    await bench.current.start()
    pinned = bench.current.snapshots.pin()
    bench.configure(metrics_url="http://two:2")
    await bench.current.reload()
    assert bench.events == [("open", "http://one:1"), ("open", "http://two:2")]
    await bench.current.snapshots.release(pinned)
    assert bench.events[-1] == ("close", "http://one:1")


async def test_a_source_of_the_same_name_starts_with_a_closed_breaker(bench: Bench) -> None:
    await bench.current.start()
    bench.metrics.sources.cell("metrics").breaker(is_open=True)
    bench.configure(metrics_url="http://two:2")
    await bench.current.reload()
    assert sample(bench.metrics, "triage_source_breaker_open", source="metrics") == 0


@pytest.mark.parametrize("broken", ["sop", "config", "tool", "source", "quarantine"])
async def test_a_refused_reload_changes_nothing(bench: Bench, broken: str) -> None:
    await bench.current.start()
    before = bench.current.snapshots.current
    match broken:
        case "sop":
            bench.project.sop.write_text(bench.project.sop_text(version=2) + "x: 1\n")
        case "config":
            bench.project.config.write_text("[engine]\ndeadline_s = 0\n")
        case "tool":
            (bench.project.folder / "tools_lib/a/v1.py").write_text("# changed\n")
        case "source":
            bench.configure(metrics_url="http://refused:1")
        case _:
            bench.files.quarantine.write_text("{")
    with pytest.raises(ConfigError):
        await bench.current.reload()
    assert bench.current.snapshots.current is before
    assert bench.events == [("open", "http://one:1")]
    assert (bench.reloads("ok"), bench.reloads("refused")) == (0, 1)
    # And what comes after it is not hindered.
    if broken == "source":
        bench.configure(metrics_url="http://two:2")
        await bench.current.reload()
        assert bench.events[-2:] == [("open", "http://two:2"), ("close", "http://one:1")]


async def test_a_quarantined_tool_is_found_at_a_reload(bench: Bench) -> None:
    await bench.current.start()
    tool = bench.current.snapshots.current.library.tools["a"]  # type: ignore[index]  # a NodeId
    quarantine.add(bench.files.quarantine, tool.sha256, "it blocked the event loop")
    await bench.current.reload()
    broken = bench.current.snapshots.current.library.broken
    assert {node: failed.reason for node, failed in broken.items()} == {"a": "tool_quarantined"}
    assert sample(bench.metrics, "triage_tool_broken", node="a", reason="tool_quarantined") == 1


async def test_field_maps_are_those_of_the_settings(bench: Bench) -> None:
    await bench.current.start()
    bench.configure(more='[intake.native]\nalarm = ["labels.rule"]\n')
    await bench.current.reload()
    field_map = bench.current.field_map("native")
    assert field_map is not None
    assert field_map.alarm == ("labels.rule",)


async def test_what_needs_a_restart_is_what_the_process_does_not_run_with(bench: Bench) -> None:
    """Not what changed since the reload before: it would be told once and forgotten."""
    await bench.current.start()
    bench.configure(engine={"fast_slots": 3})
    for _ in range(3):
        assert (await bench.current.reload())["restart_needed"] == ["engine.fast_slots"]
    bench.configure(engine={})
    assert (await bench.current.reload())["restart_needed"] == []


async def test_the_environment_wins_over_the_file_at_a_reload_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.current.start()
    monkeypatch.setenv("TRIAGE_SOURCES__METRICS__URL", "http://env:3")
    await bench.current.reload()
    assert bench.events[1:] == [("open", "http://env:3"), ("close", "http://one:1")]


# --- what a reload does again -------------------------------------------------------------------


async def test_a_reload_keeps_what_did_not_change(bench: Bench) -> None:
    bench.project.nodes = {"a": good_tool(), "b": good_tool("other")}
    bench.project.write()
    await bench.current.start()
    before = bench.current.snapshots.current.library.tools
    bench.promote("b", good_tool("third"))
    await bench.current.reload()
    after = bench.current.snapshots.current.library.tools
    assert after[A].evaluate is before[A].evaluate
    assert after[B].evaluate is not before[B].evaluate
    assert after[B].sha256 != before[B].sha256


async def test_a_tool_that_was_tampered_with_after_the_start_is_refused(bench: Bench) -> None:
    await bench.current.start()
    source = bench.project.folder / "tools_lib/a/v1.py"
    body = source.read_bytes()
    source.write_bytes(body + b"\n")
    with pytest.raises(InvalidFiles, match="not what was approved"):
        await bench.current.reload()
    source.write_bytes(body)
    await bench.current.reload()


async def test_an_attempt_keeps_the_snapshot_that_a_reload_replaced(bench: Bench) -> None:
    await bench.current.start()
    pinned = bench.current.snapshots.pin()
    bench.project.nodes = {"b": good_tool("other")}
    bench.project.write()
    await bench.current.reload()
    assert (list(pinned.sop.nodes), list(pinned.sop.steps)) == ([A], [A])
    assert list(pinned.library.tools) == [A]
    assert pinned.downstream == {"al_a": (A,)}
    await bench.current.snapshots.release(pinned)


async def test_metrics_follow_the_nodes(bench: Bench) -> None:
    await bench.current.start()
    bench.metrics.nodes.cell("a").record("true", "tool", 0.1)
    bench.project.nodes = {"b": good_tool("other")}
    bench.project.write()
    await bench.current.reload()
    labels = {"verdict": "true", "answered_by": "tool"}
    assert sample(bench.metrics, "triage_node_verdicts_total", node="b", **labels) == 0
    text = bench.metrics.render()[0].decode()
    assert 'node="b"' in text
    assert 'node="a"' not in text


async def test_lints_are_remembered_from_one_process_to_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bench.project.folder / "linted"
    bench.files = replace(bench.files, linted=file)
    await bench.another().start()
    assert len(linted.read(file)) == 1
    seen: list[bool] = []

    def checking(source: bytes, *, linted: bool = False, **more: Any) -> Checked:
        seen.append(linted)
        return check_source(source, linted=linted, **more)

    monkeypatch.setattr("triage.library.memory.check_source", checking)
    current = bench.another()
    await current.start()
    assert seen == []
    # A reload adds what is new to it.
    bench.promote("a", good_tool("third"))
    await current.reload()
    assert seen == [False]
    assert len(linted.read(file)) == 1


async def test_a_start_goes_on_when_lints_cannot_be_remembered(bench: Bench) -> None:
    bench.files = replace(bench.files, linted=bench.project.folder / "nowhere" / "linted")
    current = bench.another()
    await current.start()
    assert list(current.snapshots.current.library.tools) == [A]


async def test_the_collector_is_left_as_it_was(bench: Bench) -> None:
    before = gc.get_threshold(), sys.getswitchinterval(), gc.isenabled()
    await bench.current.start()
    await bench.current.reload()
    bench.project.sop.write_text("sop: [")
    with pytest.raises(ConfigError):
        await bench.current.reload()
    assert (gc.get_threshold(), sys.getswitchinterval(), gc.isenabled()) == before
