"""Golden files: what is read from them, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types

from tests.unit.app.golden_world import WHOLE, faults, one, parsed
from triage.app.golden_case import Case, Recorded, Unusable, WalkOnly, case_files, read_cases
from triage.app.golden_file import golden_schema
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import Failure

CASE = "alert: {alarm: QueueDeep}\nverdicts: {obs_deep: false}\nexpect: {actions: [close]}\n"
RECORDED = """\
alert: {alarm: QueueDeep, fired_at: "2026-06-01T12:31:00+02:00"}
expect: {outcome: actions}
answers:
- query: {kind: rows, source: t, sql: select 1, params: {a: 1.0}}
  answer: '{"rows":[]}'
- query: {kind: rows, source: t, sql: select 2, params: {}}
  failure: {reason: source_timeout, detail: late}
"""


def test_a_case_written_by_hand() -> None:
    case = one(WHOLE)
    assert isinstance(case.content, WalkOnly)
    given = case.content
    assert (case.about, given.alarm, given.entity, given.site) == (
        *("The whole way.", "QueueDeep"),
        *("unit-7", "north"),
    )
    assert [(name, one.verdict, one.subject) for name, one in given.verdicts.items()] == [
        ("obs_deep", "true", None),
        ("cause_worker", "true", "line-1"),
        ("restart_safe", "true", "line-1"),
    ]


def test_a_recorded_case() -> None:
    content = one(RECORDED).content
    assert isinstance(content, Recorded)
    assert content.alert.fired_at.isoformat() == "2026-06-01T10:31:00+00:00"
    query = {"kind": "rows", "source": "t", "sql": "select 1", "params": {"a": 1.0}}
    assert content.bodies == {sha256_hex(canonical_json(query)): b'{"rows":[]}'}
    assert list(content.failures.values()) == [Failure(reason="source_timeout", detail="late")]


def test_json_is_read_too() -> None:
    case = one(
        '{"alert": {"alarm": "QueueDeep"}, "verdicts": {"obs_deep": "no_data"},'
        ' "expect": {"actions": []}}'
    )
    assert isinstance(case.content, WalkOnly)
    assert case.content.verdicts["obs_deep"].verdict == "no_data"


def test_a_file_may_hold_several_and_a_fault_spoils_only_its_own() -> None:
    indented = CASE.replace("\n", "\n    ").rstrip()
    first, second, third = parsed(
        f"about: all\ncases:\n  a:\n    {indented}\n  b: 7\n  c:\n    {indented}\n    frob: 1\n"
    )
    assert isinstance(first, Unusable)
    assert [(f.line, f.where) for f in first.findings] == [(7, "b")]
    assert isinstance(second, Case)
    assert second.name == "one/a"
    assert second.located.line(("verdicts", "obs_deep")) == 5
    assert isinstance(third, Unusable)
    assert third.name == "one/c"
    assert str(third.findings[0]).startswith("golden/one.yaml:12: the key `frob` is unknown")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("", ["golden/one.yaml:1: the file is empty"]),
        ("alert: [\n", ["golden/one.yaml:2: is not YAML: "]),
        (CASE + "alert: {}\n", ["4: the key `alert` is given twice"]),
        ("cases: {}\n", ["1: `cases` holds none"]),
        ("cases: 7\n", ["1: `cases` holds none"]),
        (
            "cases: {a: {}}\nfoo: 1\n",
            ["2: the key `foo` is unknown beside `cases`", "1: `alert` is mi", "1: `expect` is"],
        ),
        (CASE.replace("expect: {actions: [close]}", "expect: {}"), ["3: nothing is expected"]),
        (CASE.replace("[close]", ""), ["3: `actions` is empty — write [] for none"]),
        (CASE.replace("verdicts: {obs_deep: false}\n", ""), ["1: nothing is known to the case"]),
        (
            CASE + "answers: []\n",
            ["4: `verdicts` and `answers` are both given", "1: `fired_at` is"],
        ),
        (CASE.replace("false", "perhaps"), ["2: obs_deep: `verdict` must be true, false, no_data"]),
        (CASE.replace("false", "not_reached"), ["2: obs_deep: `verdict` must be true, false"]),
        (
            CASE.replace("obs_deep", "obs_depe"),
            ["2: obs_depe: the SOP has no node `obs_depe` — did"],
        ),
        (
            CASE.replace("QueueDeep", "QueueDep"),
            ["1: the SOP has no alarm `QueueDep` — did you mean"],
        ),
        (CASE.replace("[close]", "[closed]"), ["3: the SOP has no action `closed` — did you mean"]),
        (CASE.replace("actions: [close]", "root_causes: [x]"), ["3: the SOP has no node `x`"]),
        (
            CASE.replace("QueueDeep", "QueueDeep, site: nroth"),
            ["1: `nroth` is not in the sites fi"],
        ),
        (CASE.replace("actions: [close]", "outcome: fine"), ["3: `outcome` must be resolved, esc"]),
        (
            RECORDED.replace("+02:00", ""),
            ["1: `fired_at` is not accepted: must be a time with its"],
        ),
        (RECORDED.replace("  answer: '{\"rows\":[]}'\n", ""), ["4: has no answer"]),
        (
            RECORDED.replace("answer: '", "packed: '"),
            ["5: cannot be unpacked — record the case ane"],
        ),
        (RECORDED.replace("select 2, params: {}", "select 1, params: {a: 1.0}"), ["given twice"]),
    ],
)
def test_mistakes_are_told_with_their_line(body: str, found: list[str]) -> None:
    told = faults(body)
    assert len(told) == len(found), told
    for text in found:
        assert any(text in fault for fault in told), told


def test_a_packed_answer_must_end() -> None:
    cut = RECORDED.replace("answer: '{\"rows\":[]}'", "packed: eJyrVipILEpNVrKKjq0FABp8BDU=")
    assert faults(cut) == ["golden/one.yaml:5: cannot be unpacked — record the case anew"]


def test_files_are_found_below_a_folder_but_not_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.json", "a/d.yml", "notes.md", ".hidden.yaml", ".git/x.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CASE)
    names = [str(path.relative_to(tmp_path)) for path in case_files(tmp_path)]
    assert names == ["a/c.json", "a/d.yml", "b.yaml"]
    assert case_files(tmp_path / "notes.md") == [tmp_path / "notes.md"]
    with pytest.raises(FileNotFoundError):
        case_files(tmp_path / "absent")
    (unread,) = read_cases(tmp_path / "absent.yaml", "absent")
    assert isinstance(unread, Unusable)
    assert "there is no such file" in str(unread.findings[0])


@pytest.mark.parametrize("body", [WHOLE.decode(), RECORDED, CASE, "cases: {a: {alert: {}}}"])
def test_the_schema_takes_what_is_read(body: str) -> None:
    schema = golden_schema()
    Draft202012Validator.check_schema(schema)
    valid = Draft202012Validator(schema).is_valid(yaml.safe_load(body))
    assert valid == all(isinstance(case, Case) for case in parsed(body))
