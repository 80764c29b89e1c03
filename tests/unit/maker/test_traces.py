"""Traces in a library: broken files, the round trip, and who may take them for examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from tests.unit.evaluation.world import node
from tests.unit.fallback.asked import asked
from triage.errors import ConfigError
from triage.fallback.examples import MAX_BYTES, MAX_CODE, examples_of
from triage.maker.model import CaseTrace, SeenAnswer, SeenField
from triage.maker.trace_json import read_trace, trace_json
from triage.maker.traces import (
    MOST,
    is_example,
    load_traces,
    save_trace,
    verified,
)
from triage.model.decision import NodeId
from triage.model.trace import CallRecord, Turn

NODE = node("obs_full", sources=("metrics",))
ANSWER = SeenAnswer(
    query={"kind": "samples", "source": "metrics", "selector": "level", "window_s": 900.0},
    kind="series",
    size=2,
    fields=(
        SeenField("value", ("number",), 60, 2, 0.5, 9999, ("0.5", "9999", "… 48 more")),
        SeenField("tank", ("text",), 2, 0, None, None, ('"TK-1"',)),
    ),
    step_s=30.0,
    gaps=3,
)
CALL = CallRecord("metrics_samples", '{"selector": "level"}', True, "", 120, "ab" * 32, 1.25)
TURNS = (
    Turn("No.", "print(1)", (), "1\n", 10, 5, 12.5, 0.25),
    Turn("I look.", "await submit(…)", (CALL,), "", 20, 6, 3.0, 1.5),
)


def trace(**changes: Any) -> CaseTrace:
    whole = CaseTrace(
        origin="0a1b2c3d4e5f",
        node=NodeId("obs_full"),
        site="north",
        units={"level": "percent"},
        entity="TK-1",
        timestamp="2026-03-01T12:00:00+00:00",
        expected="true",
        verdict="true",
        right=True,
        turns=TURNS,
        answers=(ANSWER, SeenAnswer({"kind": "left out", "count": 4}, "", 0)),
        tokens=41,
    )
    return whole._replace(**changes)


def quietly(library: Path) -> list[str]:
    """What examples are offered, none of which may have been complained of."""
    with structlog.testing.capture_logs() as logs:
        found = examples_of(library)(asked())
    assert logs == []
    return [one.node for one in found if one.node]


# --- broken -----------------------------------------------------------------------------------


def changed(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: {**document, **fields}


def lacking(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: {key: one for key, one in document.items() if key != name}


def answer_with(**fields: Any) -> Callable[[dict[str, Any]], object]:
    """None leaves a field out."""

    def spoil(document: dict[str, Any]) -> object:
        answer = {**document["answers"][0], **fields}
        return {**document, "answers": [{k: v for k, v in answer.items() if v is not None}]}

    return spoil


BROKEN: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("is no object", lambda _: [1]),
    ("has no 'origin'", lacking("origin")),
    ("has no 'value'", changed(verdict={})),
    ("verdict.value must be one of", changed(verdict={"value": "perhaps"})),
    ("is no trace", changed(verdict="true")),
    ("is no trace", changed(units=[])),
    ("is no trace", changed(units={"level": 3})),
    ("is no trace", changed(tokens=-1)),
    ("is no trace", changed(tokens=True)),
    ("is no trace", changed(right="yes")),
    ("is no trace", changed(turns=[{"thought": 3, "code": ""}])),
    ("has no 'calls'", changed(turns=[{"thought": "", "code": ""}])),
    ("is no trace", answer_with(query="level")),
    ("is no trace", answer_with(step_s="30")),
    ("has no 'fields'", answer_with(fields=None)),
    ("lies in the folder of 'obs_full'", changed(question={"node": "obs_other"})),
]


@pytest.mark.parametrize(("said", "spoil"), BROKEN)
def test_what_is_no_trace_is_skipped_and_named(
    said: str, spoil: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    document = spoil(trace_json(NODE, trace()))
    with pytest.raises(ValueError, match=said):
        read_trace(document, NODE.node)
    folder = tmp_path / "obs_full" / "traces" / "unproven"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps(document))
    save_trace(tmp_path, NODE, trace())
    with structlog.testing.capture_logs() as logs:
        assert load_traces(tmp_path, NODE.node) == [trace()]
    (log,) = logs
    assert log["event"] == "trace_skipped"
    assert log["file"].endswith("a.json")


def test_files_that_are_no_files_of_ours(tmp_path: Path) -> None:
    assert load_traces(tmp_path, NODE.node) == []
    folder = tmp_path / "obs_full" / "traces"
    folder.mkdir(parents=True)
    (folder / "cut.json").write_text('{"answers": ')
    (folder / "large.json").write_text('{"answers": ' + " " * MAX_BYTES + "}")
    (folder / "out.json").symlink_to("/etc/hostname")
    (folder / "by-hand.json").write_text('{"question": {"node": "obs_full"}, "turns": []}')
    with structlog.testing.capture_logs() as logs:
        assert load_traces(tmp_path, NODE.node) == []
    assert sorted(Path(one["file"]).name for one in logs) == ["cut.json", "large.json", "out.json"]


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    assert load_traces(tmp_path, NodeId("../other")) == []
    with pytest.raises(ConfigError, match="is no name of a folder"):
        save_trace(tmp_path, node("../other"), trace())
    saved = save_trace(tmp_path, NODE, trace(origin="../../etc/passwd", timestamp="../now"))
    assert saved.parent == tmp_path / "obs_full" / "traces"
    assert saved.name == "undated-etc-passwd.json"


def test_a_library_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "obs_full").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        save_trace(tmp_path, NODE, trace())


def test_a_link_out_of_the_library_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    library = tmp_path / "library"
    (library / "obs_full").mkdir(parents=True)
    (library / "obs_full" / "traces").symlink_to(outside)
    with pytest.raises(ConfigError, match="leads out of the library"):
        save_trace(library, NODE, trace())
    assert list(outside.iterdir()) == []


# --- round trip -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one",
    [
        trace(),
        trace(verdict="fallback_turns", right=False, turns=(), answers=()),
        trace(verdict="false", right=False),
        trace(origin="decision " + "ab" * 16, expected="", right=None),
        trace(answers=(SeenAnswer({"kind": "rows"}, "rows", 0, failure="query_rejected: no"),)),
    ],
)
def test_what_was_saved_is_what_is_loaded(one: CaseTrace, tmp_path: Path) -> None:
    assert read_trace(json.loads(json.dumps(trace_json(NODE, one))), NODE.node) == one
    save_trace(tmp_path, NODE, one)
    assert load_traces(tmp_path, NODE.node) == [one]


def test_saving_again_is_saving_once_also_when_it_was_judged_anew(tmp_path: Path) -> None:
    unknown = trace(origin="decision 77", expected="", right=None)
    first = save_trace(tmp_path, NODE, unknown)
    judged = verified(unknown, "true")
    second = save_trace(tmp_path, NODE, judged)
    assert (first.parent.name, second.parent.name) == ("unproven", "traces")
    assert load_traces(tmp_path, NODE.node) == [judged]
    save_trace(tmp_path, NODE, verified(unknown, "false"))
    assert [one.right for one in load_traces(tmp_path, NODE.node)] == [False]


def test_the_newest_are_loaded_and_the_oldest_of_them_first(tmp_path: Path) -> None:
    for day in range(1, MOST + 4):
        save_trace(tmp_path, NODE, trace(timestamp=f"2026-03-{day:02}T12:00:00+00:00"))
    loaded = load_traces(tmp_path, NODE.node)
    assert [one.timestamp[8:10] for one in loaded] == [f"{day:02}" for day in range(4, MOST + 4)]


def test_one_that_is_too_large_loses_what_the_model_was_told(tmp_path: Path) -> None:
    told = Turn("So.", "x = 1", (CALL,), "y" * MAX_BYTES)
    save_trace(tmp_path, NODE, trace(turns=(told, *TURNS)))
    (loaded,) = load_traces(tmp_path, NODE.node)
    assert [turn.code for turn in loaded.turns] == ["x = 1", "print(1)", "await submit(…)"]
    assert loaded.turns[0].observation == ""
    coded = tuple(Turn("So.", f"# {number}" + "z" * 200_000) for number in range(9))
    save_trace(tmp_path, NODE, trace(turns=(*coded, *TURNS)))
    (loaded,) = load_traces(tmp_path, NODE.node)
    assert loaded.turns[-1].code == "await submit(…)"
    assert len(loaded.turns) < 11


# --- examples ---------------------------------------------------------------------------------


def test_a_right_one_is_an_example_of_the_fallback(tmp_path: Path) -> None:
    path = save_trace(tmp_path, NODE, trace())
    assert path == tmp_path / "obs_full" / "traces" / "20260301T120000-0a1b2c3d4e5f.json"
    assert quietly(tmp_path) == ["obs_full"]
    (example,) = (one for one in examples_of(tmp_path)(asked()) if one.node)
    assert (example.question, example.thought, example.code) == (
        NODE.text,
        "I look.",
        "await submit(…)",
    )


@pytest.mark.parametrize(
    "one",
    [
        trace(right=False, verdict="false"),
        trace(right=None, expected=""),
        trace(right=False, verdict="fallback_turns"),
        trace(turns=()),
        trace(turns=(Turn("So.", "   "),)),
        trace(turns=(Turn("So.", "x" * (MAX_CODE + 1)),)),
        trace(turns=(Turn("So.", "a = '```'"),)),
    ],
)
def test_no_other_is_one_and_nobody_complains(one: CaseTrace, tmp_path: Path) -> None:
    assert not is_example(one)
    save_trace(tmp_path, NODE, one)
    assert quietly(tmp_path) == []
    assert load_traces(tmp_path, NODE.node) == [one]
