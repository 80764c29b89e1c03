"""What is wrong with lines of cases, each with its field and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.maker.cases_world import SQL, line, parsed, told

ROWS = {"query": SQL, "answer": {"rows": [{"depth": 40}]}}


def context(**changed: Any) -> dict[str, Any]:
    return {"context": {"entity": "mail", **changed}}


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
