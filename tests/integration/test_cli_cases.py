"""`triage cases`: labelled cases through the real command line."""

from __future__ import annotations

import shutil
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import ALERT, SOP, TOOL, environment, make_project, serving, triage
from tests.forked_commands import run_forked
from tests.servers import wait_until
from triage.cli.exit_codes import MEANINGS

SOP_OF_TWO = SOP.replace("[add_worker]", "[rc_idle]").replace(
    "actions:",
    """\
  rc_idle:
    kind: root_cause
    text: Is nobody working on it?
    sources: [tables]
    on_true: [add_worker]
    on_false: [look]
actions:""",
)
IDLE = TOOL.replace("Is the queue too deep?", "Is nobody working on it?").replace(
    '"depth", depth', '"idle", depth'
)
QUERY = {
    "kind": "rows",
    "source": "tables",
    "sql": "select depth from queues where name = :name",
    "params": {"name": "mail"},
}
BY = ("--by", "ann")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A project of two nodes, whose store holds one decision, as it is while it is served."""

    folder: Path
    alert_id: str
    url: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = make_project(tmp_path_factory.mktemp("made") / "project")
    (folder / "sop.yaml").write_text(SOP_OF_TWO)
    (folder / "tool.py").write_text(IDLE)
    assert triage("tools", "add", "rc_idle", "tool.py", cwd=folder).code == 0
    assert triage("tools", "promote", "rc_idle", "--by", "bob", cwd=folder).code == 0
    with serving(folder) as daemon:
        request = urllib.request.Request(  # noqa: S310 - our own local URL
            f"{daemon.url}/api/v1/alerts",
            data=orjson.dumps({**ALERT, "labels": {"team": "post"}}),
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - likewise
            pass

        def heads() -> list[Any]:
            listed = triage("decisions", "list", "--json", cwd=folder).json["decisions"]
            return list(listed)

        wait_until(lambda: bool(heads()), what="a decision", process=daemon.process)
        yield Made(folder=folder, alert_id=str(heads()[0]["alert_id"]), url=daemon.url)
        assert daemon.terminate() == 0


@pytest.fixture
def project(served: Made, tmp_path: Path) -> Made:
    folder = shutil.copytree(served.folder, tmp_path / "project")
    return Made(folder=folder, alert_id=served.alert_id, url=served.url)


def lines(project: Made, node: str = "rc_idle") -> list[Any]:
    path = project.folder / "tools_lib" / node / "cases.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def corrected(project: Made, *more: str, node: str = "rc_idle", word: str = "false") -> Any:
    return triage(
        *("cases", "add", "--from-decision", project.alert_id[:8], "--node", node),
        *("--verdict", word, *BY, *more),
        cwd=project.folder,
    )


def case(number: int, **changed: Any) -> bytes:
    document = {
        "warehouse": "home",
        "timestamp": f"2026-06-{number:02}T12:31:00Z",
        "context": {"entity": "mail"},
        "expected": "true",
        **changed,
    }
    return orjson.dumps(document) + b"\n"


# --- mistakes ---------------------------------------------------------------------------------

DECISION = "cases add --from-decision"
MISTAKES: list[tuple[str, int, str]] = [
    ("cases", 2, "Usage: triage cases"),
    ("cases add", 2, "give NODE and FILE; or --from-decision, --node and --verdict"),
    ("cases add obs_deep", 2, "give NODE and FILE"),
    ("cases add obs_depe good.jsonl", 2, "has no node 'obs_depe': did you mean `obs_deep`?"),
    ("cases add obs_deep absent.jsonl", 2, "absent.jsonl: cannot be read: No such file"),
    ("cases add obs_deep empty.jsonl", 2, "empty.jsonl: holds no case"),
    ("cases add obs_deep bad.jsonl", 1, "nothing was added: 2 errors, 0 warnings"),
    ("cases add obs_deep good.jsonl --verdict true", 2, "goes with --from-decision"),
    ("cases add obs_deep good.jsonl --node obs_deep", 2, "goes with --from-decision"),
    ("cases add obs_deep good.jsonl --subject x", 2, "goes with --from-decision"),
    ("cases add obs_deep good.jsonl --url http://x", 2, "goes with --from-decision"),
    (f"{DECISION} ffffffff --verdict true", 2, "say of which node"),
    (f"{DECISION} ffffffff --node obs_deep", 2, "say what the node should have said"),
    (f"{DECISION} ffffffff --node obs_deep --verdict yes", 2, "--verdict"),
    (f"{DECISION} ffffffff --node obs_depe --verdict true", 2, "did you mean `obs_deep`?"),
    (f"{DECISION} ffffffff obs_deep x --verdict true", 2, "takes one node, by --node, and no"),
    (f"{DECISION} abc --node obs_deep --verdict true", 2, "is too short"),
    (f"{DECISION} ffffffff --node obs_deep --verdict true", 1, "no alert ffffffff was ever"),
    (f"{DECISION} ffffffff --node obs_deep --verdict true --param depht=1", 2, "did you mean"),
    (f"{DECISION} ffffffff --node obs_deep --verdict true --param depth=x", 2, "must be a number"),
    (f"{DECISION} ffffffff --node obs_deep --verdict true --token-env A", 2, "goes with --url"),
    (
        f"{DECISION} f0f0f0f0 --node obs_deep --verdict true --url http://127.0.0.1:9",
        69,
        "cannot b",
    ),
    ("cases list", 2, "Missing argument"),
    ("cases list nope", 2, "has no node 'nope'"),
    ("cases check nope", 2, "has no node 'nope'"),
    ("cases check --config absent.toml", 78, "absent.toml: cannot be read"),
]


def test_mistakes_end_with_a_message_and_a_documented_code(project: Made) -> None:
    (project.folder / "good.jsonl").write_bytes(case(1))
    (project.folder / "empty.jsonl").write_bytes(b"\n")
    (project.folder / "bad.jsonl").write_bytes(
        case(1) + case(2, expected="yes") + case(3, timestamp="2026-06-03")
    )
    ran = run_forked([(line.split(), project.folder) for line, _, _ in MISTAKES], environment())
    for (line, code, said), (ended, out, err) in zip(MISTAKES, ran, strict=True):
        assert (ended, said in err, out) == (code, True, ""), (line, ended, out, err)
        assert "Traceback" not in err
        assert ended in MEANINGS
        if "bad.jsonl" in line:
            assert "bad.jsonl:2: expected: must be true, false or no_data, not `yes` — write" in err
            assert "bad.jsonl:3: timestamp: has no offset: `2026-06-03` — say which" in err
    assert not list(project.folder.glob("tools_lib/*/cases.jsonl"))


# --- of a file --------------------------------------------------------------------------------


def test_cases_of_a_file_are_added_listed_and_checked(project: Made) -> None:
    words = ("true", "false")
    body = b"".join(
        case(day, expected=words[day % 2], node="obs_deep", note="by hand") for day in range(1, 9)
    )
    (project.folder / "labels.jsonl").write_bytes(body)
    added = triage("cases", "add", "obs_deep", "labels.jsonl", cwd=project.folder)
    assert (added.code, added.out, added.err) == (0, "obs_deep: 8 cases added\n", "")
    again = triage(
        "cases", "add", "obs_deep", "-", "--json", cwd=project.folder, stdin=body + case(20)
    ).json
    assert (len(again["added"]), len(again["already"])) == (1, 8)
    refused = triage(
        "cases",
        "add",
        "obs_deep",
        "-",
        cwd=project.folder,
        stdin=case(9) + case(20, expected="no_data"),
    )
    assert (refused.code, refused.out) == (1, "")
    assert "tools_lib/obs_deep/cases.jsonl:9: expected: is true; the new case, which" in refused.err
    assert len(lines(project, "obs_deep")) == 9

    listed = triage("cases", "list", "obs_deep", cwd=project.folder)
    assert (listed.code, listed.err) == (0, "")
    rows = [row.split() for row in listed.out.splitlines()]
    assert rows[0][:4] == ["case", "line", "timestamp", "site"]
    assert [row[6] for row in rows[1:]] == ["training"] * 4 + ["held-out"] * 5
    as_json = triage("cases", "list", "obs_deep", "--json", cwd=project.folder).json
    assert as_json["cut"] == "2026-06-05T12:31:00+00:00"
    assert [one["line"] for one in as_json["cases"]] == list(range(1, 10))

    checked = triage("cases", "check", cwd=project.folder)
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.splitlines() == [
        "obs_deep: 9 cases; training: 2 true, 2 false; held-out: 3 true, 2 false",
        "  sites: home 9",
        "  not covered: there are 9 cases, fewer than 20",
        "  not covered: only 2 of 4 training cases expect true",
        "  not covered: only 2 of 4 training cases expect false",
        "  not covered: only 2 of 5 held-out cases expect false",
        "  not covered: no case has recorded answers: the sources are asked for them",
        "no cases: rc_idle",
        "0 errors, 0 warnings",
    ]


def test_a_broken_file_is_told_and_its_sound_lines_stay_usable(project: Made) -> None:
    file = project.folder / "tools_lib" / "rc_idle" / "cases.jsonl"
    file.write_bytes(case(1) + case(2, expected="maybe") + case(3)[:-9])
    checked = triage("cases", "check", "rc_idle", "--json", cwd=project.folder)
    assert checked.code == 1
    assert (checked.json["ok"], checked.json["errors"]) == (False, 2)
    assert [(f["line"], f["where"]) for f in checked.json["findings"]] == [(2, "expected"), (3, "")]
    assert checked.json["nodes"][0]["cases"] == 1
    listed = triage("cases", "list", "rc_idle", cwd=project.folder)
    assert listed.code == 0
    assert len(listed.out.splitlines()) == 2
    assert listed.err == "2 errors, 0 warnings: triage cases check rc_idle\n"
    torn = triage("cases", "add", "rc_idle", "-", cwd=project.folder, stdin=case(4))
    assert torn.code == 1
    assert "cases.jsonl:3: the last line is torn" in torn.err
    assert "triage: nothing was added: 1 error" in torn.err
    empty = triage("cases", "list", "obs_deep", cwd=project.folder)
    assert (empty.code, empty.out) == (0, "")
    assert "no cases in tools_lib/obs_deep/cases.jsonl: triage cases add obs_deep FILE" in empty.err


# --- of a decision ----------------------------------------------------------------------------


def test_a_corrected_decision_becomes_a_case(project: Made) -> None:
    added = corrected(project, "--note", "ben was there", "--subject", "")
    assert (added.code, added.err) == (0, "")
    (written,) = lines(project)
    assert added.out == f"rc_idle: {written['case']} added\n"
    clause = {"name": "depth", "observed": 40.0, "op": ">", "threshold": 10.0, "unit": "jobs"}
    assert written == {
        "case": written["case"],
        "node": "rc_idle",
        "warehouse": "home",
        "timestamp": "2026-06-01T12:31:00+00:00",
        "context": {
            "entity": "mail",
            "labels": {"team": "post"},
            "parents": {
                "obs_deep": {
                    "value": "true",
                    "explanation": "40 jobs wait",
                    "clauses": [{**clause, "holds": True}],
                }
            },
        },
        "expected": "false",
        "subject": "",
        "origin": f"decision {project.alert_id}",
        "by": "ann",
        "note": "ben was there",
        "answers": [{"query": QUERY, "answer": {"rows": [{"depth": 40}]}}],
    }
    assert corrected(project).out == f"rc_idle: {written['case']} there already\n"
    other = corrected(project, word="no_data")
    assert other.code == 1
    assert "is false on the entity; the new case, which asks the same, says no_data" in other.err
    assert len(lines(project)) == 1
    assert triage("cases", "check", "rc_idle", cwd=project.folder).code == 0


def test_params_are_kept_where_they_differ(project: Made) -> None:
    assert corrected(project, "--param", "depth=10").code == 0
    assert corrected(project, "--param", "depth=50").code == 0
    assert [one["context"].get("params") for one in lines(project)] == [None, {"depth": 50}]
    sop = project.folder / "sop.yaml"
    sop.write_text(sop.read_text().replace("value: 10", "value: 12"))
    changed = corrected(project, "--param", "depth=10", "--json")
    (remark,) = changed.json["remarks"]
    assert remark == (
        "the SOP has changed since the decision: the case takes today's params; where others held"
        " then, add it with --param NAME=VALUE"
    )
    assert lines(project)[2]["context"]["params"] == {"depth": 10}


def test_a_purged_answer_leaves_a_case_without_it(project: Made) -> None:
    with closing(sqlite3.connect(project.folder / "data" / "triage.db")) as store, store:
        store.execute("delete from evidence")
    added = corrected(project)
    assert added.code == 0
    assert added.err == (
        "the answer to a query (rows of tables) is purged: the case is kept without it\n"
    )
    (written,) = lines(project)
    assert "answers" not in written
    assert written["context"]["parents"]["obs_deep"]["value"] == "true"


def test_a_daemon_may_be_asked(project: Made) -> None:
    added = corrected(project, "--url", project.url, "--json", node="obs_deep")
    assert added.code == 0
    assert added.json["remarks"] == [
        "the alert's labels are not known over HTTP: the case has none"
    ]
    (written,) = lines(project, "obs_deep")
    assert written["context"] == {"entity": "mail"}
    assert written["answers"] == [{"query": QUERY, "answer": {"rows": [{"depth": 40}]}}]


def test_the_schema_of_a_line(project: Made) -> None:
    schema = triage("schema", "cases", cwd=project.folder).json
    assert schema["$id"] == "urn:triage:schema:cases"
    assert set(schema["required"]) == {"warehouse", "timestamp", "expected"}
