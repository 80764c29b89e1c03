"""`triage tools trace`, and the closing of a gap, on a store's file."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import TOOL, make_project, triage
from tests.contract.store_world import HandClock, arrival, decision
from triage.adapters.store import Store
from triage.cli.from_gap import close_gap
from triage.library.manifest import ManifestVersion, read_manifest
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import AnsweredBy, Asked, Decision, Failure, NodeId
from triage.model.gap import gaps_of
from triage.model.query import Call, encode_answer
from triage.model.trace import VERDICT, CallRecord, Trace, Turn
from triage.model.verdict import Truth, Verdict

NODE = NodeId("obs_deep")
ENV = {"TRIAGE_STORE__URL": "sqlite:///traces.db"}
SQL = "select depth from queues where name = :name"
BODY = encode_answer({"rows": [{"depth": 40}]})
CALLED = Call(
    "tables", "query", canonical_json({"sql": SQL, "params": {"name": "unit-7"}}).decode()
)
TURN = Turn(
    "I look.",
    'r = await tables_query(sql="…")',
    (CallRecord("tables_query", "{}", True, "", len(BODY), sha256_hex(BODY), 1.0),),
)
RAISED = Failure(reason="tool_raised", detail="obs_deep/v1.py:9: KeyError: depth")


def answered_by_fallback(made: Decision) -> Decision:
    """Its one node is that of the project, whose tool raised."""
    trace = Trace("m", "1", "p", "tool_raised", VERDICT, (TURN,))
    (node,) = made.nodes
    answered = node._replace(
        node=NODE,
        verdict=Verdict(value=Truth.TRUE),
        answered_by=AnsweredBy.FALLBACK,
        tool_failure=RAISED,
        tool_version=1,
        tool_sha256="ee" * 32,
        asked=(Asked(query=CALLED, answer_sha256=sha256_hex(BODY), answer_bytes=len(BODY)),),
        trace=trace,
    )
    return replace(made, nodes=(answered,))


async def stored(folder: Path) -> str:
    store = await Store.open(folder / "traces.db", clock=HandClock())
    try:
        [accepted] = await store.alerts.accept([arrival()])
        assert accepted.alert_id is not None
        made = answered_by_fallback(decision(accepted.alert_id))
        gaps = gaps_of(made, lambda _: "Is the queue too deep?")
        await store.decisions.commit(made, {sha256_hex(BODY): BODY}, (), gaps)
    finally:
        await store.close()
    return accepted.alert_id


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = make_project(tmp_path_factory.mktemp("tool-traces") / "project")
    return folder, asyncio.run(stored(folder))


@pytest.fixture
def project(made: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    """A copy of its own."""
    folder, alert_id = made
    return shutil.copytree(folder, tmp_path / "project"), alert_id


def trace(folder: Path, *args: str, code: int = 0) -> Any:
    ended = triage("tools", "trace", *args, cwd=folder, env=ENV)
    assert ended.code == code, ended.err
    return ended


def test_mistakes_are_told(project: tuple[Path, str]) -> None:
    folder, alert_id = project
    assert "no node 'obs_shallow'" in trace(folder, "obs_shallow", code=2).err
    assert "say which alert's" in trace(folder, "obs_deep", code=2).err
    wrong = trace(folder, "obs_deep", "--from-decision", alert_id, "--expected", "maybe", code=2)
    assert "true, false, no_data" in wrong.err
    unknown = trace(folder, "obs_deep", "--from-decision", "0" * 32, code=1)
    assert "was ever accepted here" in unknown.err
    assert not (folder / "tools_lib" / "obs_deep" / "traces").exists()


def test_a_trace_of_production_is_kept_and_judged(project: tuple[Path, str]) -> None:
    folder, alert_id = project
    kept = trace(folder, "obs_deep", "--from-decision", alert_id[:8])
    assert "a trace, no example: true, 1 queries" in kept.out
    assert "--expected" in kept.err
    judged = trace(
        folder, "obs_deep", "--from-decision", alert_id, "--expected", "true", "--json"
    ).json
    assert judged["right"] is True
    (answer,) = judged["answers"]
    assert answer["query"] == {
        "kind": "rows",
        "source": "tables",
        "sql": SQL,
        "params": {"name": "unit-7"},
    }
    assert [field["name"] for field in answer["fields"]] == ["depth"]
    assert Path(judged["file"]).is_file()
    assert len(list((folder / "tools_lib" / "obs_deep" / "traces").rglob("*.json"))) == 1


def gap(folder: Path) -> Any:
    both = [
        triage("gaps", "list", *more, "--json", cwd=folder, env=ENV).json
        for more in ((), ("--closed",))
    ]
    (found,) = [one for page in both for one in page["gaps"]]
    return found


def version(folder: Path, text: str, gap_id: str) -> ManifestVersion:
    """Added as the project's newest candidate."""
    (folder / "next.py").write_text(text)
    assert triage("tools", "add", "obs_deep", "next.py", cwd=folder).code == 0
    manifest, _ = read_manifest(folder / "tools_lib", NODE)
    return manifest.versions[-1].model_copy(update={"gap": gap_id})


def test_a_gap_closes_when_a_version_answers_it(
    project: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = project
    monkeypatch.setenv(*next(iter(ENV.items())))
    gap_id = gap(folder)["gap_id"]
    config = folder / "triage.toml"
    breaks = version(
        folder, TOOL.replace("    depth = float", "    depth = 1 / 0\n    depth = float"), gap_id
    )
    said = close_gap(config, NODE, breaks, by="ann")
    assert f"gap {gap_id} stays open: it fails in 1 of 1 case" in said
    assert gap(folder)["closed_at"] is None
    works = version(folder, TOOL, gap_id)
    assert "is closed: a verdict in all of 1 case: true 1" in close_gap(
        config, NODE, works, by="ann"
    )
    found = gap(folder)
    assert found["closed_by"] == "ann"
    assert f"obs_deep version {works.version}, sha256 {works.sha256}" in found["note"]
    assert close_gap(config, NODE, works, by="ann") == f"gap {gap_id} is closed already"


def test_what_was_not_recorded_is_asked_of_the_live_source(
    project: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = project
    monkeypatch.setenv(*next(iter(ENV.items())))
    gap_id = gap(folder)["gap_id"]
    works = version(folder, TOOL.replace("select depth", "select  depth"), gap_id)
    with sqlite3.connect(folder / "facts.db") as facts:
        facts.execute("insert into queues values ('unit-7', 3)")
    facts.close()
    said = close_gap(folder / "triage.toml", NODE, works, by="ann")
    assert "a verdict in all of 1 case: false 1" in said


def test_a_store_that_cannot_be_read_keeps_it_open_and_says_what_to_do(
    project: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = project
    works = version(folder, TOOL, "0a1b2c3d4e5f")
    monkeypatch.setenv("TRIAGE_STORE__URL", "sqlite:///nowhere/no.db")
    said = close_gap(folder / "triage.toml", NODE, works, by="ann")
    assert said.startswith("gap 0a1b2c3d4e5f stays open: ")
    assert said.endswith("triage gaps close 0a1b2c3d4e5f")
    monkeypatch.setenv(*next(iter(ENV.items())))
    gone = close_gap(folder / "triage.toml", NODE, works, by="ann")
    assert "no gap 0a1b2c3d4e5f was ever recorded" in gone
