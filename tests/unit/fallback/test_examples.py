"""Worked examples: which are chosen, which are skipped, and that ours do what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic_monty
import pytest
import structlog.testing

from tests.unit.fallback.asked import FACES, FakeCalls, asked, opened, tool
from tests.unit.fallback.monty import plain_inputs
from triage.fallback.examples import Example, builtin_examples, choose, examples_of
from triage.fallback.prelude import prelude, without_imports
from triage.model.query import Call
from triage.model.trace import VERDICT, Trace, Turn, trace_document

KINDS = {"samples": "m_samples", "aggregate": "m_aggregate", "query": "w_query", "call": "e_x"}


def document(node: str, sources: list[str], code: str = "await submit(…)") -> dict[str, Any]:
    trace = Trace(
        model="m",
        prompt_version="1",
        prompt_sha256="",
        reason="tool_missing",
        ended=VERDICT,
        turns=(Turn(thought="wrong", code="print(1)"), Turn(thought="I  look.", code=code)),
    )
    return {
        **trace_document(trace),
        "question": {"node": node, "text": f"Is {node} so?", "sources": sources},
        "verdict": {"value": "true", "explanation": "", "subject": ""},
    }


def record(library: Path, node: str, name: str, content: object) -> None:
    folder = library / node / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def test_the_same_node_first_then_the_same_sources_then_ours(tmp_path: Path) -> None:
    record(tmp_path, "other", "1", document("other", ["metrics"]))
    record(tmp_path, "obs_tank_low", "1", document("obs_tank_low", ["metrics"], "x = 1"))
    record(tmp_path, "elsewhere", "1", document("elsewhere", ["warehouse"]))
    found = examples_of(tmp_path)(asked())
    assert [one.node for one in found[:2]] == ["obs_tank_low", "other"]
    assert found[0] == Example(
        question="Is obs_tank_low so?",
        thought="I look.",
        code="x = 1",
        node="obs_tank_low",
        sources=frozenset({"metrics"}),
    )
    assert found[2:] == builtin_examples()
    chosen = choose(found, KINDS)
    assert [one.node for one in chosen] == ["obs_tank_low", "other", ""]


def test_three_at_most_and_the_newest_of_a_node(tmp_path: Path) -> None:
    for at in range(5):
        record(tmp_path, "obs_tank_low", f"2026-0{at}", document("obs_tank_low", [], f"x = {at}"))
    found = choose(examples_of(tmp_path)(asked()), KINDS)
    assert [one.code for one in found] == ["x = 4", "x = 3", "x = 2"]


BROKEN: list[tuple[str, object]] = [
    ("is no JSON", "{"),
    ("is no object", []),
    ("no question", {**document("n", []), "question": None}),
    ("no turns", {**document("n", []), "turns": []}),
    ("gave none", {**document("n", []), "ended": "fallback_turns"}),
    ("no word", {**document("n", []), "verdict": {"value": "perhaps"}}),
    ("no code", document("n", [], " ")),
    ("too long", document("n", [], "x" * 7_000)),
    ("a fence", document("n", [], "x = '```'")),
    ("no names", {**document("n", []), "question": {"node": "n", "text": "", "sources": [1]}}),
    ("too large", "[" + " " * (1 << 20) + "]"),
]


@pytest.mark.parametrize(
    "content", [content for _, content in BROKEN], ids=[name for name, _ in BROKEN]
)
def test_a_broken_file_is_skipped_and_named(tmp_path: Path, content: object) -> None:
    record(tmp_path, "n", "broken", content)
    record(tmp_path, "n", "a-good-one", document("n", []))
    with structlog.testing.capture_logs() as logs:
        found = examples_of(tmp_path)(asked(node="n"))
    assert [one.node for one in found if one.node] == ["n"]
    (warning,) = logs
    assert warning["event"] == "example_skipped"
    assert warning["log_level"] == "warning"
    assert warning["file"] == str(tmp_path / "n/traces/broken.json")
    assert warning["problem"]


def test_a_library_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert examples_of(tmp_path / "nowhere")(asked()) == builtin_examples()


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["samples"], [["samples"], ["samples"]]),
        (["samples", "aggregate"], [["samples"], ["aggregate"], ["samples"]]),
        (["query"], [["query"], ["query"]]),
        (["call"], [["call"], ["call"]]),
        (["call", "samples", "aggregate"], [["call"], ["samples"], ["aggregate"]]),
        (["query", "samples"], [["query"], ["samples"], ["query"]]),
        ([], []),
    ],
)
def test_ours_by_the_kinds_of_the_nodes_functions(
    kinds: list[str], expected: list[list[str]]
) -> None:
    chosen = choose(builtin_examples(), {kind: KINDS[kind] for kind in kinds})
    assert [sorted(one.kinds) for one in chosen] == expected


def test_ours_name_the_nodes_own_functions() -> None:
    for example in builtin_examples():
        code = example.with_functions(KINDS)
        assert "@" not in code
        assert all(KINDS[kind] in code for kind in example.kinds if kind != "call")


# --- that they work

LIMITS = {
    "pressure_window_s": 600.0,
    "pressure_bar": 3.5,
    "fill_window_s": 900,
    "fill_min_attempts": 10,
    "fill_fail_pct": 5,
    "motor_hot_c": 80,
    "min_people": 2,
    "level_max_age_s": 600,
    "level_low_pct": 10,
    "state_max_age_s": 60,
    "valves_pct": 3,
}
END = 1_795_014_420.0  # when the alert fired


def series(*values: float, **labels: str) -> dict[str, Any]:
    times = [END - 60 * at for at in reversed(range(len(values)))]
    return {"labels": labels, "times": times, "values": list(values)}


def shift(person: str) -> dict[str, Any]:
    """In the clocks of New York, where it is 10:07."""
    return {
        "person": person,
        "on_local": "2026-11-18 06:00:00",
        "off_local": "2026-11-18 14:00:00",
    }


def pumps(call: Call) -> object:
    selector = json.loads(call.arguments)["selector"]
    if selector.startswith("pump_pressure"):
        return {"series": [series(3.0, "NaN", 3.2)]}  # type: ignore[arg-type] # as a face spells it
    grown = 10.0 if selector.startswith("line_fill_fails") else 100.0
    return {"series": [series(0.0, grown, asset="L-1"), series(0.0, 1.0, asset="L-2")]}


def tables(call: Call) -> object:
    sql = json.loads(call.arguments)["sql"]
    if "shifts" in sql:
        return {"rows": [shift("ann"), shift("bo")]}
    return {"rows": [{"at_utc": "2026-11-18T15:05:00Z", "level_pct": 8}]}


ANSWERS: dict[str, Callable[[Call], object]] = {
    "samples": pumps,
    "aggregate": lambda _: {"readings": [{"labels": {}, "value": 91.5}]},
    "query": tables,
    "metrics": lambda _: {"metrics": [], "more": 0},
    "tables": lambda _: {"tables": [], "more": 0},
    "valves": lambda _: {"as_of": "2026-11-18T15:07:00Z", "total": 100, "disabled": 5},
    "controller": lambda _: {"fault": 7},
}
EXPECTED = {
    "Is the pump's pressure lower than it should be?": "true",
    "Do more fills fail on any line than the limit allows?": "true",
    "Has the motor been too hot at any time of the last day?": "true",
    "Are enough trained people on the line right now?": "true",
    "Is the tank nearly empty?": "true",
    "Are too many valves out of use?": "true",
    "Is the valve's controller in fault?": "",
}


@pytest.mark.parametrize("empty", [False, True], ids=["answers", "nothing"])
@pytest.mark.parametrize("example", builtin_examples(), ids=lambda example: example.question)
async def test_ours_run_and_say_so(example: Example, empty: bool) -> None:
    """Checked for types and run with the functions of a node that has every kind of source."""
    nothing = {"series": [], "readings": [], "rows": [], "as_of": "2026-01-01T00:00:00Z"}
    calls = FakeCalls(
        {
            "north": list(FACES.values()),
            "plant": [
                tool(name, {part: {"type": "string"} for part in ("site", "asset", "at")})
                for name in ("valves", "controller")
            ],
        },
        lambda call: nothing if empty else ANSWERS[call.tool](call),
    )
    tools = await opened(calls, asked(sources=("north", "plant")))
    submitted: list[str] = []

    async def submit(*, verdict: str, **_: Any) -> dict[str, Any]:
        submitted.append(verdict)
        return {"ok": True, "data": None, "error": ""}

    kinds = {kind: f"north_{kind}" for kind in ("samples", "aggregate", "query")}
    functions = {**tools.functions, "submit": submit}
    async with (
        pydantic_monty.AsyncMonty(min_processes=1, max_processes=1) as pool,
        pool.checkout(type_check=True, type_check_stubs=tools.stubs) as session,
    ):
        await session.feed_run(
            prelude(), inputs=plain_inputs(params=LIMITS, entity="P-1"), skip_type_check=True
        )
        printed = pydantic_monty.CollectString()
        await session.feed_run(
            without_imports(example.with_functions(kinds)),
            external_lookup=functions,
            print_callback=printed,
        )
    expected = EXPECTED[example.question]
    assert submitted == (["no_data" if empty else expected] if expected else [])
    assert bool(printed.output) == (not expected)
    assert all(record.ok for record in tools.take_records())
