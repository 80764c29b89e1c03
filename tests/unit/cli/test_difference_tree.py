"""A changed decision as people see it."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from triage.app.difference import compare
from triage.app.replayed import Missing, Replayed, Status, Tally, Why
from triage.cli.difference_tree import difference_tree, missing_line
from triage.cli.output import UNBROKEN
from triage.cli.replay_views import Counter

HOSTILE = "\x1b[31m[bold]x\nsecond"


def node(name: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "node": name,
        "verdict": verdict,
        "explanation": "",
        "clauses": [],
        "failure": None,
        "tool_version": 1,
        "tool_sha256": "a",
        "answered_by": "tool",
        **more,
    }


def document(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "alert_id": "f" * 32,
        "alarm": "Disk",
        "site": "",
        "entity": "",
        "decided_at": "2026-06-01T12:31:00+00:00",
        "outcome": "actions",
        "degraded": False,
        "nodes": nodes,
        "edges": [],
        "actions": [],
        "dropped_actions": [],
        **more,
    }


def shown(old: dict[str, Any], new: dict[str, Any], *missing: Missing) -> list[str]:
    replayed = Replayed(
        status=Status.CHANGED, old=old, new=new, difference=compare(old, new), missing=missing
    )
    stream = StringIO()
    Console(file=stream, width=UNBROKEN, markup=False).print(difference_tree(replayed))
    return [line.strip("├└│─ \n") for line in stream.getvalue().splitlines()]


def test_text_of_strangers_is_shown_without_effect() -> None:
    old = document(node("a", "true"), alarm=HOSTILE, entity=HOSTILE)
    lines = shown(old, document(node("a", "false", explanation=HOSTILE)))
    spelled = "\\x1b[31m[bold]x\\nsecond"
    assert lines[0].startswith(f"{'f' * 32}  {spelled} on {spelled}, decided")
    assert spelled in lines
    assert not any("\x1b" in line for line in lines)


def test_every_kind_of_change_has_its_line() -> None:
    def clause(name: str, *, holds: bool | None, unit: str = "") -> dict[str, Any]:
        return {
            "name": name, "observed": 4.0, "op": ">", "threshold": 3, "unit": unit, "holds": holds
        }  # fmt: skip

    failure = {"reason": "tool_raised", "detail": "a/v2.py:3: KeyError: 'x'"}
    dropped = {"action": "stop", "subject": "b", "dropped": "cancelled", "by": "go", "nodes": ["a"]}
    old = document(
        node("a", "true", clauses=[clause("n", holds=True), clause("old", holds=None)]),
        node("b", "true"),
        node("gone", "no_data"),
        actions=[{"action": "stop", "subject": "b", "nodes": ["a"]}],
    )
    new = document(
        node("a", "false", tool_version=2, tool_sha256="b",
             clauses=[clause("n", holds=False), clause("new", holds=True, unit="jobs")]),
        node("b", "failed", failure=failure, tool_sha256="c"),
        node("fresh", "true"),
        outcome="escalate",
        dropped_actions=[dropped],
    )  # fmt: skip
    assert shown(old, new)[1:] == [
        "outcome actions → escalate",
        "a: true → false  (tool v1 → v2)",
        "n: 4 > 3 holds → 4 > 3 does not hold",
        "no longer compared: old: 4 > 3 cannot be told",
        "new clause new: 4 > 3 jobs holds",
        "b: true → failed  (tool v1 → another v1)",
        "failed: tool_raised: a/v2.py:3: KeyError: 'x'",
        "fresh: newly reached, true  (tool v1)",
        "gone: no longer reached, was no_data",
        "action stop on b: effective → dropped (cancelled) by go",
    ]


def test_what_is_missing_is_said_and_nothing_is_made_of_it() -> None:
    missing = Missing(node="b", why=Why.PURGED)
    lines = shown(document(), document(node("b", "failed", tool_version=0)), missing)
    assert lines[1:] == [
        "outcome actions → not known",
        "b: newly reached, not known",
        "unrecorded: b asks what was recorded and has been purged since",
    ]
    query = {"kind": "rows", "source": "db", "sql": "select 1", "params": {}}
    asked = Missing(node="b", why=Why.NOT_ASKED, query=query)
    assert missing_line(asked).plain.endswith("was never recorded: db: select 1")


def test_the_counter_is_for_terminals_only() -> None:
    for is_terminal in (False, True):
        stream = StringIO()
        console = Console(file=stream, force_terminal=is_terminal, width=80)
        tally = Tally()
        with Counter(console, tally) as counter:
            for _ in range(20):
                tally.add(Replayed(status=Status.EQUAL, old=document()))
                counter.counted()
            with counter.aside():
                stream.write("aside\n")
        written = stream.getvalue()
        if is_terminal:
            assert "20 decided again, 0 changed" in written
        else:
            assert written == "aside\n"
