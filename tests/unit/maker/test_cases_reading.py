"""Lines of cases: what is read from them, and what is wrong with them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types

from tests.unit.maker.cases_world import AT, LINE, SQL, line, one, parsed, told
from triage.maker import cases_reading
from triage.maker.cases_format import CaseEntry, cases_schema
from triage.model.case import LabelledCase, case_id
from triage.model.verdict import Clause, Truth, Verdict

ROWS = {"query": SQL, "answer": {"rows": [{"depth": 40}]}}


def context(**changed: Any) -> dict[str, Any]:
    return {"context": {"entity": "mail", **changed}}


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (b"{\n", "1: the case goes over several lines — write one case a line: jq -c . one.jsonl"),
        (b"[{}]\n", "1: the file is one list, not a case a line — write one case a line: jq -c"),
        (b"7\n", "1: is no object — write one object a line"),
        (b"case: 7\n", "1: is not JSON: unexpected character, expected a JSON value — write one"),
        (b'{"expected": yes}\n', "1: is not JSON: unexpected character, expected a JSON value at"),
        (b'{"a": NaN}\n', "1: is not JSON: "),
        (b'{"a": 1e999}\n', "1: is not JSON: number is infinity"),
        (b'{"a": "\xff"}\n', "1: is not JSON: str is not valid UTF-8"),
        (line()[:-2], "1: the last line is torn: a write was cut off, or it is not JSON — remove"),
        (b"\0\0\0", "1: the last line is torn"),
        (line() + line()[:40], "2: the last line is torn: a write was cut off, or it is not JSON"),
        (
            line().replace(b'"expected"', b'"expected":"false","expected"'),
            "1: the key `expected` is given twice — keep one of them",
        ),
        (
            line().replace(b'"entity"', b'"entity":"mall","entity"'),
            "1: the key `entity` is given twice",
        ),
        (
            line().replace(b'"mail"', b'"mail", "labels": ' + b'{"a":' * 999 + b"1" + b"}" * 999),
            "1: is nested too deeply",
        ),
    ],
)
def test_what_is_no_case_a_line(given: bytes, found: str) -> None:
    (finding,) = told(given)
    assert finding.startswith(found)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"warehouse": None}, "warehouse: is missing — add it: The site, as the sites file or an"),
        ({"timestamp": None}, "timestamp: is missing — add it: When it was asked: ISO 8601"),
        ({"expected": None}, "expected: is missing — add it: What the node must say: true, false"),
        ({"frob": 1}, "frob: the key is unknown — known here: case, node, warehouse, timestamp"),
        ({"expcted": 1}, "expcted: the key is unknown — did you mean `expected`?"),
        ({"site": "north"}, "site: the key is unknown — write `warehouse`"),
        ({"verdict": "true"}, "verdict: the key is unknown — write `expected`"),
        ({"entity": "mail"}, "entity: the key is unknown — put it into `context`"),
        (
            {"timestamp": "2026-06-01T12:31:00"},
            "timestamp: has no offset: `2026-06-01T12:31:00` — say which instant it is, as in",
        ),
        ({"timestamp": "2026-06-01"}, "timestamp: has no offset: `2026-06-01` — say which"),
        ({"timestamp": "yesterday"}, "timestamp: is no ISO 8601 time: `yesterday` — write 2026-"),
        ({"timestamp": "0001-01-01T00:00:00+14:00"}, "timestamp: is no ISO 8601 time: `0001-01"),
        ({"timestamp": 1780317060}, "timestamp: must be an ISO 8601 time as text, not the number"),
        (
            {"expected": "yes"},
            'expected: must be true, false or no_data, not `yes` — write "true"',
        ),
        ({"expected": "NO"}, 'expected: must be true, false or no_data, not `NO` — write "false"'),
        (
            {"expected": "no data"},
            'expected: must be true, false or no_data, not `no data` — write "no_data"',
        ),
        (
            {"expected": "failed"},
            "expected: must be true, false or no_data, not `failed` — write one of them, in quotes",
        ),
        ({"expected": 0}, 'expected: must be true, false or no_data, not the number 0 — write "f'),
        ({"expected": ["true"]}, "expected: must be true, false or no_data, not a list — write o"),
        ({"expected": "{problem}"}, "expected: must be true, false or no_data, not `{problem}`"),
        ({"subject": 7}, "subject: must be text, not the number 7 — put it in quotes"),
        ({"subject": "a\0"}, "subject: holds a NUL — name the asset"),
        ({"note": "x" * 9000}, "note: is longer than 8192 characters — shorten it"),
        ({"case": "a b"}, "case: may not be `a b` — letters, digits, `_`, `.`, `:` and `-`, 64"),
        ({"split": "test"}, "split: may not be `test` — write one of train, heldout, or leave"),
        ({"context": "mail"}, "context: must be an object, not text — write { … }"),
        ({"answers": {}}, "answers: must be a list, not an object — write [ … ]"),
        (
            {"node": "obs_deep"},
            "node: is `obs_deep`, among the cases of cause_worker — move the line to the cases of",
        ),
        (
            {"node": "cause_wroker"},
            "node: is `cause_wroker`, among the cases of cause_worker — did you mean",
        ),
        (
            {"warehouse": "nroth"},
            "warehouse: `nroth` is not in the sites file — did you mean `north`?",
        ),
        (
            {"warehouse": "\x1b[2J"},
            "warehouse: `'\\x1b[2J'` is not in the sites file — add the site to sites.yaml",
        ),
        (
            context(params={"dpeth": 9}),
            "context.params.dpeth: the SOP has no such param — did you mean `depth`?",
        ),
        (
            context(params={"depth": 900}),
            "context.params.depth: 900 is above the greatest value 100 — see `params` in sop.yaml",
        ),
        (
            context(params={"depth": "9"}),
            "context.params.depth: must be a number as in the SOP, not text",
        ),
        (context(params={"depth": None}), "context.params.depth: must be a number, text, true or"),
        (context(labels={"team": 7}), "context.labels.team: must be text, not the number 7"),
        (
            context(parents={"obs_depe": "true"}),
            "context.parents.obs_depe: the SOP has no such node — did you mean `obs_deep`?",
        ),
        (
            context(parents={"close": "true"}),
            "context.parents.close: is an action of the SOP — name nodes: only they have verdicts",
        ),
        (
            context(parents={"cause_worker": "true"}),
            "context.parents.cause_worker: does not come before cause_worker — name nodes before",
        ),
        (
            context(parents={"obs_deep": "maybe"}),
            "context.parents.obs_deep.value: must be true, false or no_data, not `maybe` — write",
        ),
        (
            context(parents={"obs_deep": {"value": "true", "subjct": ""}}),
            "context.parents.obs_deep.subjct: the key is unknown — did you mean `subject`?",
        ),
        (
            context(parents={"obs_deep": {"value": "true", "subject": "a\0"}}),
            "context.parents.obs_deep: the subject must be text of at most 256 characters, none",
        ),
        (
            context(
                parents={
                    "obs_deep": {
                        "value": "true",
                        "clauses": [{"name": "d", "op": ">", "observed": []}],
                    }
                }
            ),
            "context.parents.obs_deep.clauses[0].observed: must be a number, text, true, false or",
        ),
        ({"answers": [{"query": SQL}]}, "answers[0]: has neither an answer nor a failure — give"),
        (
            {"answers": [{**ROWS, "failure": "source_timeout"}]},
            "answers[0]: has both — give `answer`, or `failure` where there was none",
        ),
        (
            {"answers": [{"query": SQL, "failure": "timeout"}]},
            "answers[0].failure: `timeout` is no reason that a query fails for — did you mean",
        ),
        ({"answers": [ROWS, ROWS]}, "answers[1].query: asks what answers[0] asks — remove one of"),
        (
            {"answers": [{**ROWS, "query": {**SQL, "kind": "sql"}}]},
            "answers[0].query: `kind` must be one of samples, aggregate, rows, call — write it as",
        ),
        (
            {"answers": [{**ROWS, "query": {"kind": "rows", "source": "tables"}}]},
            "answers[0].query: `params` is missing in a query of kind rows",
        ),
        (
            {"answers": [{**ROWS, "query": {**SQL, "limit": 1}}]},
            "answers[0].query: the key `limit` is unknown in a query of kind rows",
        ),
        (
            {"answers": [{**ROWS, "answer": [{"depth": 40}]}]},
            "answers[0].answer: must be an object, not a list — write { … }",
        ),
        (
            {"answers": [{**ROWS, "answer": {"depth": 40}}]},
            'answers[0].answer: not an encoded answer — write {"rows": [{…}]}, {"series": [[labe',
        ),
        ({"answers": [{**ROWS, "answer": {}}]}, "answers[0].answer: not an encoded answer"),
        (
            {"answers": [{**ROWS, "answer": {"readings": [[{}, 1.0]]}}]},
            "answers[0].answer: a query of kind rows is answered with `rows`, not with `readings`",
        ),
    ],
)
def test_a_fault_is_named_with_its_field_and_a_fix(changed: dict[str, Any], found: str) -> None:
    given = line(**changed)
    lines = told(given, node="cause_worker") if "answers" not in changed else told_deep(given)
    assert lines[0].startswith(f"1: {found}"), lines


def told_deep(given: bytes) -> list[str]:
    """As of a node that declares the source of SQL."""
    return told(given, node="obs_deep")


def test_every_fault_of_every_line_is_told_and_the_sound_lines_are_read() -> None:
    bad = line(warehouse="nroth", expected="yes", **context(params={"x": 1, "depth": 0}))
    worse = line(warehouse="nroth", **context(params={"x": 1, "depth": 0}))
    read = parsed(bad, line(), b"\n", b"nonsense\n", worse, line(timestamp="2026-06-02T00:00Z"))
    assert [(f.line, f.where) for f in read.findings] == [
        (1, "expected"),
        (4, ""),
        *[(5, where) for where in ("warehouse", "context.params.x", "context.params.depth")],
    ]
    assert [read.lines[case.case_id] for case in read.cases] == [2, 6]
    assert read.complete
    assert len(read.errors) == 5


def test_a_node_that_the_sop_lacks() -> None:
    assert [str(f) for f in parsed(line(), node="cause_worke").findings] == [
        "one.jsonl: the SOP has no node `cause_worke` — did you mean `cause_worker`?"
    ]


def test_a_source_that_the_node_does_not_declare_is_a_warning() -> None:
    read = parsed(line(answers=[ROWS]))
    (finding,) = read.findings
    assert finding.warning
    assert str(finding).startswith(
        "one.jsonl:1: answers[0].query: asks 'tables', which the node does not declare — no tool of"
    )
    assert len(read.cases) == 1


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
