"""Lines of cases: what is read from them, the same twice, and how much of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types

from tests.unit.maker.cases_world import AT, LINE, line, one, parsed, told
from triage.maker import cases_reading
from triage.maker.cases_format import CaseEntry, cases_schema
from triage.model.case import LabelledCase, case_id
from triage.model.verdict import Clause, Truth, Verdict


def context(**changed: Any) -> dict[str, Any]:
    return {"context": {"entity": "mail", **changed}}


# --- the same twice ---------------------------------------------------------------------------


def test_the_same_question_twice_is_a_warning_or_a_contradiction() -> None:
    first = line(subject="w1")
    assert told(first, line(note="again")) == [
        "2: asks what line 1 asks, with the same label — remove one of them"
    ]
    (contradiction,) = told(first, line(expected="false"))
    assert contradiction == (
        "2: expected: is false, but line 1, which asks the same, says true on w1 — keep one of"
        " lines 1 and 2"
    )
    assert told(first, line(subject=""))[0].startswith("2: expected: is true on the entity, but")
    read = parsed(first, line(expected="false"), line(note="again"))
    assert [finding.warning for finding in read.findings] == [False, True]
    assert len(read.cases) == 1


def test_the_instant_is_what_counts_not_its_spelling() -> None:
    assert told(line(), line(timestamp="2026-06-01T14:31:00+02:00")) == [
        "2: asks what line 1 asks, with the same label — remove one of them"
    ]


def test_a_name_stands_for_one_case() -> None:
    other = line(case="jam-7", timestamp="2026-06-02T12:31:00Z")
    assert told(line(case="jam-7"), other) == [
        "2: case: `jam-7` is the case on line 1 already — give it another name, or none"
    ]


def test_an_id_that_is_no_longer_that_of_the_line_does_not_count() -> None:
    own = one().case_id
    moved = parsed(line(case=own, timestamp="2026-06-02T12:31:00Z"))
    assert [(f.where, f.warning) for f in moved.findings] == [("case", True)]
    assert moved.cases[0].case_id != own
    assert parsed(line(case=own)).findings == ()


# --- bounds -----------------------------------------------------------------------------------


def test_what_is_too_much_is_told_and_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    days = [line(timestamp=f"2026-06-{day:02}T12:31:00Z") for day in range(1, 6)]
    size = len(days[0])
    with monkeypatch.context() as patch:
        patch.setattr(cases_reading, "MAX_CASES", 3)
        read = parsed(*days)
        assert (len(read.cases), read.complete) == (3, False)
        assert str(read.findings[0]).startswith("one.jsonl:4: reading stopped after 3 cases")
        assert parsed(*days[:3]).findings == ()
    with monkeypatch.context() as patch:
        patch.setattr(cases_reading, "MAX_FINDINGS", 2)
        read = parsed(*[b"x\n"] * 9)
        assert [f.line for f in read.findings] == [1, 2, 3]
        assert "reading stopped after 2 findings" in read.findings[2].problem
    with monkeypatch.context() as patch:
        patch.setattr(cases_reading, "MAX_FILE", 2 * size)
        read = parsed(*days)
        assert (len(read.cases), read.complete, read.torn) == (2, False, False)
        assert "the file is larger than" in read.findings[0].problem
        assert parsed(*days[:2]).complete
    with monkeypatch.context() as patch:
        patch.setattr(cases_reading, "MAX_LINE", size)
        read = parsed(days[0], line(note="x" * 3 * size), days[1])
        assert [f.line for f in read.findings] == [2]
        assert "the line is longer than" in read.findings[0].problem
        assert [read.lines[case.case_id] for case in read.cases] == [1, 3]
        assert parsed(days[0], line(note="x" * 3 * size)[:-1]).complete


# --- what is read -----------------------------------------------------------------------------


def test_the_least_that_a_case_says() -> None:
    case = one(context=None)
    assert (case.node, case.warehouse, case.timestamp, case.expected) == (
        *("cause_worker", "north"),
        AT,
        "true",
    )
    assert (case.entity, case.subject, case.answers, case.split) == ("", None, (), "")
    assert case.case_id == case_id("cause_worker", "north", AT, "", {})


def test_everything_that_a_case_may_say() -> None:
    clause = {"name": "depth", "observed": 40, "op": ">", "threshold": 10.5, "unit": "jobs"}
    said = {"value": "no_data", "subject": "w1", "explanation": "gone", "clauses": [clause]}
    call = {"kind": "call", "source": "equipment", "tool": "state", "arguments": {"b": 1, "a": [2]}}
    case = one(
        case="jam-7",
        node="cause_worker",
        timestamp="2026-06-01T14:31:00.250+02:00",
        context={
            "entity": "mail",
            "labels": {"team": "post"},
            "params": {"depth": 30, "slow_s": 1.5, "strict": True},
            "parents": {"obs_deep": said, "obs_slow": False},
        },
        expected=False,
        subject="",
        split="heldout",
        origin="floor book",
        by="ann",
        note="two were off",
        answers=[
            {"query": call, "answer": {"json": {"z": 1, "a": -0.0}}},
            {"query": {**call, "tool": "gone"}, "failure": "source_timeout"},
        ],
    )
    assert case.case_id == "jam-7"
    assert case.timestamp == datetime(2026, 6, 1, 12, 31, 0, 250_000, tzinfo=UTC)
    assert (case.expected, case.subject, case.split) == ("false", "", "heldout")
    assert (case.origin, case.by, case.note) == ("floor book", "ann", "two were off")
    assert case.labels == {"team": "post"}
    assert {name: repr(value) for name, value in case.params.items()} == {
        "depth": "30",
        "slow_s": "1.5",
        "strict": "True",
    }
    assert case.parents == {
        "obs_deep": Verdict(
            Truth.NO_DATA, (Clause("depth", 40, ">", 10.5, "jobs", None),), "gone", "w1"
        ),
        "obs_slow": Verdict(Truth.FALSE),
    }
    assert type(case.parents["obs_deep"].clauses[0].observed) is int
    answered, failed = case.answers
    assert answered.body == b'{"json":{"a":-0.0,"z":1}}'
    assert (failed.body, failed.failure) == (b"", "source_timeout")


def test_a_query_is_found_however_its_times_are_spelled() -> None:
    query = {
        "kind": "aggregate",
        "source": "metrics",
        "selector": "depth",
        "start": "2026-06-01T12:00:00+00:00",
        "end": "2026-06-01T12:31:00+00:00",
        "function": "quantile",
        "quantile": "0.5",
    }
    spelled = {**query, "start": "2026-06-01T14:00:00+02:00", "end": "2026-06-01T12:31Z"}
    readings = {"readings": [[{}, "NaN"]]}
    cases = [one(answers=[{"query": q, "answer": readings}]) for q in (query, spelled)]
    assert cases[0].answers[0].digest == cases[1].answers[0].digest
    nothing = one(answers=[{"query": query, "answer": {"rows": []}}])
    assert nothing.answers[0].body == b'{"rows":[]}'


def test_parents_at_any_distance_before_the_node() -> None:
    parents = {"obs_deep": "true", "cause_worker": "true"}
    assert told(line(**context(parents=parents)), node="restart_safe") == []
    back = line(**context(parents={"restart_safe": "true"}))
    assert told(back)[0].startswith("1: context.parents.restart_safe: does not come before")


def test_other_names_of_a_site_no_site_and_no_sites_file() -> None:
    assert one(warehouse="N1").warehouse == "N1"
    assert one(warehouse="").warehouse == ""
    assert parsed(line(warehouse="anywhere"), without_sites=True).findings == ()


def test_marks_blank_lines_and_foreign_line_ends_do_not_matter() -> None:
    given = b"\xef\xbb\xbf" + line().replace(b"\n", b"\r\n") + b"  \r\n\n"
    read = parsed(given + line(timestamp="2026-06-02T12:31:00Z")[:-1])
    assert read.findings == ()
    assert list(read.lines.values()) == [1, 4]
    assert parsed() == parsed(b"", b"\n")._replace(size=0)


def test_the_schema_agrees_with_the_reader() -> None:
    validator = Draft202012Validator(cases_schema())
    validator.check_schema(cases_schema())
    sound = line(**context(parents={"obs_deep": "true", "obs_slow": {"value": False}}))
    assert validator.is_valid(orjson.loads(sound))
    assert parsed(sound).findings == ()
    mistakes: list[dict[str, Any]] = [{"frob": 1}, {"expected": "yes"}, {"context": 1}]
    for changed in (*mistakes, {"answers": [{}]}):
        wrong = {**LINE, **changed}
        assert not validator.is_valid(wrong)
        assert parsed(orjson.dumps(wrong) + b"\n").errors
    assert {"urn:triage:schema:cases"} == {cases_schema()["$id"]}


def test_the_examples_of_the_documentation_are_read() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cases.md").read_text()
    examples = [orjson.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    least, whole = (one_of(example) for example in examples)
    assert (least.expected, least.answers) == ("true", ())
    assert (whole.case_id, whole.split, len(whole.answers)) == ("jam-2026-06-01", "heldout", 2)
    assert set(examples[1]) == set(CaseEntry.model_fields)
    described = set(re.findall(r"`(?:context\.)?([a-z]+)`", text.split("## Every field")[1]))
    assert set(CaseEntry.model_fields) - {"context"} <= described


def one_of(document: dict[str, Any]) -> LabelledCase:
    read = parsed(orjson.dumps(document) + b"\n")
    assert read.findings == ()
    return read.cases[0]
