"""The tree of a decision, compared as text."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.unit.cli.documents import DIGEST, document, eventful
from triage.cli.tree import decision_tree
from triage.engine.engine import as_resolved
from triage.model.decision import decision_document

GOLDEN = """\
DiskFilling at east on db-1, fired 2026-06-01T12:31:00+00:00
├── alert 0123456789abcdef0123456789abcdef
├── alarm → obs_full
├── layer 0
│   └── obs_full: true  (observation, v3, 3.2 ms)
│       ├── /var is 97 % full
│       ├── used: 97.1235 > 90 percent ✓
│       ├── trend: nothing > 90 ?
│       └── true → rc_logs, cn_quiet, warn_owner
├── layer 1
│   ├── rc_logs: true on /var  (root cause, answered by fallback, 812.0 ms)
│   │   ├── grew: true > 90 ✓
│   │   ├── the tool failed: tool_raised: ValueError: no number
│   │   └── true → clean_up
│   └── cn_quiet: false  (constraint, v1, 1.0 ms)
│       ├── three jobs run
│       ├── jobs: 3 > 90 ✗
│       └── false → rc_quota, close_alert
├── layer 2
│   └── rc_quota: failed  (root cause, v2, answered by nobody, 2000.0 ms)
│       ├── failed: source_timeout: no answer in 2 s
│       ├── asked tables: select 1 from quota where host = :h with h=db-1: source_timeout
│       └── failed → nothing
└── actions
    ├── clean_up on /var  (rank 7, low cost) Do clean_up ← rc_logs
    ├── dropped warn_owner on db-1  (rank 3, low cost) Do warn_owner ← obs_full: cancelled by
    │   clean_up
    └── dropped close_alert on db-1  (rank 1, low cost) Do close_alert ← cn_quiet: escalated
outcome     escalate (degraded: a node could not be judged)
root cause  rc_logs on /var
warning     site 'east' is not in the sites file: defaults were used
took        2 round trips to sources, prefetch layer; queue wait 1.5 ms, sources 2001.0 ms, evaluate
            0.4 ms
decided by  SOP disks version 4, attempt 1, at 2026-06-01T12:31:00+00:00
hash        abababababababababababababababababababababababababababababababab
"""


def rendered(
    shown: dict[str, Any],
    *,
    width: int = 100,
    evidence: dict[str, str] | None = None,
    color: bool = False,
) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        markup=True,
        force_terminal=color,
        color_system="truecolor" if color else None,
    )
    console.print(decision_tree(shown, evidence))
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def test_one_of_everything() -> None:
    assert rendered(document()) == GOLDEN


def test_a_stored_document_is_shown_as_the_fresh_one_is() -> None:
    stored = orjson.loads(orjson.dumps(document(), option=orjson.OPT_SORT_KEYS))
    stored["stages_ms"] = document()["stages_ms"]
    assert rendered({**stored, "decided_at": "2026-06-01T12:31:01+00:00"}) == GOLDEN


def test_answers_stand_below_their_queries() -> None:
    text = rendered(document(), width=300, evidence={DIGEST: '{"series":[]}'})
    lines = text.split("\n")
    (asked,) = [index for index, line in enumerate(lines) if "asked metrics: used{" in line]
    assert "(312 bytes, 0.8 ms)" in lines[asked]
    assert lines[asked + 1].endswith('└── {"series":[]}')


def test_a_purged_answer_says_so() -> None:
    assert f"answer {DIGEST[:12]} is not stored: purged" in rendered(document(), evidence={})


def test_a_long_answer_is_cut_and_its_length_told() -> None:
    text = rendered(document(), width=20_000, evidence={DIGEST: "x" * 9_000})
    assert "x" * 4_000 + " … 9000 characters in all" in text
    assert "x" * 4_001 not in text


def test_a_resolved_alert_shows_what_it_suppressed() -> None:
    text = rendered(decision_document(as_resolved(eventful())), width=300)
    assert "dropped clean_up on /var" in text
    assert text.count(": resolved") == 1
    assert "outcome     resolved" in text


def test_an_unrouted_alert_has_no_walk() -> None:
    shown = {
        **document(),
        "nodes": [],
        "edges": [],
        "actions": [],
        "dropped_actions": [],
        "degraded": False,
        "reason": "unrouted",
        "root_causes": [],
    }
    text = rendered(shown)
    assert "outcome     escalate: unrouted" in text
    assert "layer" not in text.split("took")[0]


def test_colours_only_where_asked() -> None:
    assert "\x1b[" not in rendered(document())
    assert "\x1b[1;31m" in rendered(document(), color=True)


HOSTILE = "\x1b]0;owned\x07[bold red]x[/] [link=http://evil]\r\n\u202e"


def poisoned(value: Any, text: str) -> Any:
    """Every string but those the program itself made up, replaced."""
    match value:
        case dict():
            own = {"kind", "verdict", "answered_by", "failure", "tool_failure"}
            return {k: v if k in own else poisoned(v, text) for k, v in value.items()}
        case list():
            return [poisoned(each, text) for each in value]
        case str():
            return text
        case _:
            return value


@pytest.mark.parametrize("evidence", [None, {HOSTILE: HOSTILE}])
def test_hostile_text_reaches_no_terminal(evidence: dict[str, str] | None) -> None:
    text = rendered(poisoned(document(), HOSTILE), width=400, evidence=evidence)
    assert set(text) & set("\x1b\x07\r\u202e") == set()
    assert "\\x1b]0;owned\\x07[bold red]x[/] [link=http://evil]\\r\\n\\u202e" in text


@given(st.text(max_size=40))
def test_any_text_is_shown_without_a_control_character(text: str) -> None:
    shown = rendered(poisoned(document(), text), width=400)
    assert all(line.isprintable() for line in shown.split("\n"))


def test_a_refire_names_the_first_and_the_first_counts_its_refires() -> None:
    refire = {**document(), "outcome": "coalesced", "coalesced_into": "ab" * 16}
    text = rendered(refire)
    assert "outcome     coalesced" in text
    assert f"decided as  {'ab' * 16}, which fired shortly before" in text.replace("\n", " ")
    assert "fired again" not in text
    for count, said in ((1, "1 time, "), (12, "12 times, ")):
        assert f"fired again  {said}coalesced into this one" in rendered(
            {**document(), "coalesced": count}
        )
    assert "fired again" not in rendered({**document(), "coalesced": 0})
