"""`triage decisions show` of a decision that a fallback had a part in, from a store's file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.command_line import make_project, triage
from tests.contract.store_world import HandClock, arrival, decision
from tests.unit.cli.test_trace_tree import TRACE
from triage.adapters.store import Store
from triage.model.decision import AnsweredBy, Failure
from triage.model.trace import trace_document

HOSTILE = "\x1b[31mred\u202e"


async def stored(folder: Path) -> str:
    """The id of an alert whose one node the fallback answered."""
    store = await Store.open(folder / "traces.db", clock=HandClock())
    try:
        [accepted] = await store.alerts.accept([arrival()])
        assert accepted.alert_id is not None
        made = decision(accepted.alert_id)
        turns = (TRACE.turns[0]._replace(code=f"# {HOSTILE}\nx = 1", thought=HOSTILE),)
        (node,) = made.nodes
        answered = node._replace(
            answered_by=AnsweredBy.FALLBACK,
            tool_failure=Failure(reason="tool_raised", detail=HOSTILE),
            trace=TRACE._replace(turns=turns, model=HOSTILE),
        )
        await store.decisions.commit(replace(made, nodes=(answered,)), {}, ())
    finally:
        await store.close()
    return accepted.alert_id


async def test_a_trace_is_shown_a_line_a_turn_or_whole(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    env = {"TRIAGE_STORE__URL": "sqlite:///traces.db"}
    alert_id = await stored(folder)
    brief, whole = (
        triage("decisions", "show", alert_id, *args, cwd=folder, env=env)
        for args in ((), ("--trace",))
    )
    for ended in (brief, whole):
        assert (ended.code, ended.err) == (0, "")
        assert not {"\x1b", "\u202e"} & set(ended.out)
        assert "answered by fallback" in ended.out
        assert "\\x1b[31mred\\u202e" in ended.out
    assert "2 lines of code; metrics_samples 2 times ✓; tables_query ✗" in brief.out
    assert "x = 1" not in brief.out
    lines = whole.out.split("\n")
    (code,) = [number for number, line in enumerate(lines) if line.endswith("── code")]
    assert lines[code + 1].endswith("# \\x1b[31mred\\u202e")
    assert lines[code + 2].endswith("x = 1")
    document = triage("decisions", "show", alert_id, "--json", cwd=folder, env=env).json
    (turn,) = document["nodes"][0]["fallback"]["turns"]
    assert turn["thought"] == HOSTILE
    assert turn["calls"] == trace_document(TRACE)["turns"][0]["calls"]
