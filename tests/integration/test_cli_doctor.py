"""`triage doctor` and `triage retest` on a project of one node: files, store, and a daemon."""

from __future__ import annotations

import asyncio
import sqlite3
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import SOP, Ended, make_project, serving, triage
from triage.adapters.store import Store
from triage.clock import SystemClock
from triage.maker.cases_file import case_line
from triage.model.canonical import sha256_hex
from triage.model.case import LabelledCase, recorded
from triage.model.decision import NodeId
from triage.model.query import Rows, encode_answer
from triage.ports import WatchFinding, WatchKind
from triage.watching.findings import finding

NODE = NodeId("obs_deep")
AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
SQL = "select depth from queues where name = :name"
MOVED = finding(
    WatchKind.VALUES_MOVED,
    NODE,
    "tables 3f9a2c (queues): depth",
    "ab" * 32,
    "the middle of the values of depth: home from 40 to 40000, times 1000 as between s and ms",
    at=AT,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "project")
    put_cases(folder, case("mail", "true"))
    return folder


def case(
    entity: str, expected: str, depth: object = 40, *, name: str = "depth", keep: bool = True
) -> LabelledCase:
    query = Rows("tables", SQL, (("name", entity),))
    answer = recorded(query, encode_answer(({name: depth},)))
    return LabelledCase(
        case_id=f"{entity}-{expected}",
        node=NODE,
        warehouse="home",
        timestamp=AT,
        expected=expected,
        entity=entity,
        answers=(answer,) if keep else (),
    )


def put_cases(folder: Path, *cases: LabelledCase) -> None:
    file = folder / "tools_lib" / NODE / "cases.jsonl"
    file.write_bytes(b"".join(case_line(one) for one in cases))


def in_store(folder: Path, *findings: WatchFinding) -> None:
    async def put() -> None:
        data = folder / "data"
        data.mkdir(exist_ok=True)
        store = await Store.open(data / "triage.db", clock=SystemClock())
        try:
            await store.watch.found(findings)
        finally:
            await store.close()

    asyncio.run(put())


def doctor(folder: Path, *more: str) -> Ended:
    return triage("doctor", "--json", *more, cwd=folder)


def kinds(ended: Ended) -> list[tuple[str, str]]:
    return [(one["node"], one["kind"]) for one in ended.json["findings"]]


# --- what the files show --------------------------------------------------------------------------


def test_a_library_in_order_has_nothing_wrong(project: Path) -> None:
    in_store(project)
    ended = doctor(project)
    assert (ended.code, ended.json["findings"], ended.json["ok"]) == (0, [], True)
    assert ended.json["record"] is True
    assert triage("doctor", cwd=project).out.endswith("nothing is wrong\n")


def stale(folder: Path) -> None:
    text = SOP.replace("Is the queue too deep?", "Is the queue far too deep?")
    (folder / "sop.yaml").write_text(text)


def tampered(folder: Path) -> None:
    with (folder / "tools_lib" / NODE / "v1.py").open("a") as file:
        file.write("# more\n")


def missing(folder: Path) -> None:
    (folder / "tools_lib" / NODE / "v1.py").unlink()


def without_cases(folder: Path) -> None:
    (folder / "tools_lib" / NODE / "cases.jsonl").unlink()


def quarantined(folder: Path) -> None:
    digest = sha256_hex((folder / "tools_lib" / NODE / "v1.py").read_bytes())
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "quarantine.json").write_text(f'{{"{digest}": "it blocked the loop"}}')


def without_tool(folder: Path) -> None:
    for file in (folder / "tools_lib" / NODE).iterdir():
        file.unlink()
    (folder / "tools_lib" / NODE).rmdir()


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (stale, "stale_text"),
        (tampered, "tool_unusable"),
        (missing, "tool_unusable"),
        (without_cases, "no_cases"),
        (quarantined, "tool_quarantined"),
        (without_tool, "tool_missing"),
    ],
)
def test_what_is_wrong_is_named_with_node_and_next_step(
    project: Path, spoil: Callable[[Path], None], kind: str
) -> None:
    spoil(project)
    ended = doctor(project)
    assert ended.code == 1
    [found] = [one for one in ended.json["findings"] if one["kind"] == kind]
    assert found["node"] == NODE
    assert found["what"]
    assert found["next"]
    told = triage("doctor", cwd=project)
    assert told.code == 1
    assert kind in told.out
    assert NODE in told.out


def test_one_fault_is_told_once(project: Path) -> None:
    stale(project)
    assert kinds(doctor(project)) == [(NODE, "stale_text")]


# --- what is recorded -----------------------------------------------------------------------------


def test_without_a_store_only_the_files_are_looked_at_and_that_is_said(project: Path) -> None:
    ended = doctor(project)
    assert ended.code == 0
    assert ended.json["record"] is False
    assert "only the files" in ended.json["note"]
    assert "only the files" in triage("doctor", cwd=project).err


def test_findings_of_the_store_are_told(project: Path) -> None:
    in_store(project, MOVED)
    ended = doctor(project)
    assert ended.code == 1
    [found] = ended.json["findings"]
    assert found["kind"] == "values_moved"
    assert found["about"] == MOVED.subject
    assert found["since"] == AT.isoformat()
    told = triage("doctor", cwd=project).out
    assert "depth" in told
    assert "2026-06-01" in told


def test_a_daemon_tells_them_too(project: Path) -> None:
    with serving(project) as daemon:
        in_store_of_daemon(project, MOVED)
        ended = doctor(project, "--url", daemon.url)
        assert (ended.code, kinds(ended)) == (1, [(NODE, "values_moved")])
        with urllib.request.urlopen(f"{daemon.url}/metrics", timeout=10) as page:  # noqa: S310 - our own local URL
            text = page.read().decode()
        assert 'triage_watch_findings{kind="values_moved"}' in text
        assert "triage_watch_evaluations_total" in text
        beside = doctor(project)
        assert kinds(beside) == [(NODE, "values_moved")]


def in_store_of_daemon(folder: Path, one: WatchFinding) -> None:
    """A row beside a daemon that serves from the store."""
    values: Mapping[str, Any] = {
        "finding_id": one.finding_id,
        "kind": one.kind.value,
        "node": one.node,
        "subject": one.subject,
        "tool_sha256": one.tool_sha256,
        "detail": one.detail,
        "first_at": int(one.first_at.timestamp() * 1e6),
        "last_at": int(one.last_at.timestamp() * 1e6),
        "count": 1,
        "evidence": "{}",
        "closed_at": None,
    }
    names = ", ".join(f'"{name}"' for name in values)
    holes = ", ".join(f":{name}" for name in values)
    with closing(sqlite3.connect(folder / "data" / "triage.db", timeout=30)) as store, store:
        store.execute(f"insert into watch_findings ({names}) values ({holes})", values)  # noqa: S608 - our own names


def test_a_daemon_that_is_not_there_is_an_error(project: Path) -> None:
    ended = triage("doctor", "--url", "http://127.0.0.1:9", cwd=project)
    assert ended.code == 69
    assert "cannot be reached" in ended.err


# --- in a list ------------------------------------------------------------------------------------


def listed(folder: Path) -> tuple[list[tuple[str, str]], bool]:
    """Kind and subject of the marks of the one tool, and whether the record was read."""
    document = triage("tools", "list", "--json", cwd=folder).json
    [tool] = document["tools"]
    return [(mark["kind"], mark["subject"]) for mark in tool["marks"]], document["record"]


def test_a_list_marks_no_tool_that_nothing_is_held_against(project: Path) -> None:
    assert listed(project) == ([], False)
    in_store(project)
    assert listed(project) == ([], True)
    ended = triage("tools", "list", cwd=project)
    assert (ended.code, ended.err) == (0, "")
    assert "!" not in ended.out


def test_a_list_marks_and_names_what_changed(project: Path) -> None:
    stale(project)
    failing = finding(WatchKind.FAILURES, NODE, "tool", "ab" * 32, "its tool fails", at=AT)
    schema = finding(WatchKind.SCHEMA_CHANGED, NODE, "tables 3f: lane", "", "is gone", at=AT)
    in_store(project, failing, schema)
    marks, record = listed(project)
    assert marks[0] == ("stale_text", "")
    assert set(marks[1:]) == {("failures", "tool"), ("schema_changed", "tables 3f: lane")}
    assert record
    told = " ".join(triage("tools", "list", cwd=project).out.split())
    for word in ("!", "stale_text", "failures", "schema_changed", "triage doctor"):
        assert word in told, told


def test_a_list_without_a_readable_record_marks_what_the_files_show(project: Path) -> None:
    stale(project)
    (project / "data").mkdir()
    (project / "data" / "triage.db").write_bytes(b"no database")
    assert listed(project) == ([("stale_text", "")], False)
    ended = triage("tools", "list", cwd=project)
    assert ended.code == 0
    assert "only the files" in ended.err


def test_a_list_asks_no_server(project: Path) -> None:
    config = project / "triage.toml"
    config.write_text(config.read_text() + '\n[store]\nurl = "postgresql://127.0.0.1:9/triage"\n')
    ended = triage("tools", "list", cwd=project)
    assert ended.code == 0
    assert "triage doctor" in ended.err
    assert listed(project) == ([], False)


# --- re-tests -------------------------------------------------------------------------------------


def retest(folder: Path, *more: str) -> Ended:
    return triage("retest", "--json", *more, cwd=folder)


def test_all_is_as_it_was(project: Path) -> None:
    ended = retest(project, "--live")
    assert ended.code == 0
    [node] = ended.json["nodes"]
    assert node["results"] == {"recorded": {"passed": 1}, "live": {"passed": 1}}
    assert node["findings"] == []
    assert "1 passed" in triage("retest", cwd=project).out


def test_a_label_that_the_tool_does_not_meet_is_told(project: Path) -> None:
    put_cases(project, case("mail", "false"))
    ended = retest(project, "--no-live")
    assert ended.code == 1
    [found] = ended.json["nodes"][0]["findings"]
    assert found["kind"] == "retest_failed"
    assert found["subject"] == "mail-false"
    assert "expected false, got true" in triage("retest", "--no-live", cwd=project).out


@pytest.fixture
def facts(project: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(project / "facts.db")) as connection:
        yield connection


def test_a_changed_unit_is_told_only_live(project: Path, facts: sqlite3.Connection) -> None:
    with facts:
        facts.execute("update queues set depth = depth * 1000")
    assert retest(project, "--no-live").code == 0
    ended = retest(project, "--live")
    assert ended.code == 1
    [found] = ended.json["nodes"][0]["findings"]
    assert found["kind"] == "values_moved"
    assert found["evidence"]["field"] == "depth"


def test_a_renamed_column_is_told(project: Path, facts: sqlite3.Connection) -> None:
    with facts:
        facts.execute("alter table queues rename column depth to waiting")
    ended = retest(project, "--live")
    assert ended.code == 1
    found = ended.json["nodes"][0]["findings"]
    assert {one["kind"] for one in found} == {"schema_changed", "retest_failed"}
    assert all("depth" in one["detail"] for one in found)


def test_a_dead_source_is_told(project: Path) -> None:
    (project / "facts.db").unlink()
    ended = retest(project, "--live")
    assert ended.code in (1, 78)  # the source may be refused when it is opened, as at a start
    if ended.code == 1:
        assert "source_dead" in ended.out


def test_without_cases_that_is_said(project: Path) -> None:
    without_cases(project)
    ended = triage("retest", cwd=project)
    assert ended.code == 0
    assert "no node has both" in ended.err


def test_a_node_that_is_not_there_is_named(project: Path) -> None:
    ended = triage("retest", "obs_dep", cwd=project)
    assert ended.code == 2
    assert "obs_deep" in ended.err


def test_cases_that_cannot_be_read_are_told(project: Path) -> None:
    file = project / "tools_lib" / NODE / "cases.jsonl"
    file.write_bytes(file.read_bytes() + b"{nonsense}\n")
    ended = retest(project, "--no-live")
    assert ended.code == 1
    assert ended.json["faults"][0]["line"] == 2
    assert ended.json["nodes"][0]["results"] == {"recorded": {"passed": 1}}
