"""Commands in processes of their own: what they print where, and the code they end with."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.command_line import (
    ALERT,
    LIMIT_S,
    TOML,
    TOOL,
    TRIAGE,
    environment,
    make_project,
    triage,
)
from tests.scripted_server import ScriptedServer, hang

COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("made"))


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


def test_a_store_that_is_none(project: Path) -> None:
    (project / "data").mkdir()
    (project / "data" / "triage.db").write_bytes(b"no database, this" * 100)
    for command in ("ledger", "decisions list"):
        ended = triage(*command.split(), cwd=project)
        assert ended.code == 78
        assert "cannot be read: file is not a database" in ended.err


# --- check ------------------------------------------------------------------------------------


def test_check_says_what_there_is(project: Path) -> None:
    ended = triage("check", "--connect", cwd=project)
    assert (ended.code, ended.err) == (0, "")
    assert "sop.yaml: queues version 7: 1 decision nodes, 3 actions, 1 alarms; tools: 1 active" in (
        ended.out
    )
    assert "tables  sql   SQLite 3." in ended.out


def test_check_names_place_and_cure_of_every_finding(project: Path) -> None:
    sop = (project / "sop.yaml").read_text().replace("[add_worker]", "[add_wroker]")
    (project / "sop.yaml").write_text(sop)
    ended = triage("check", cwd=project)
    assert ended.code == 1
    line = next(line for line in ended.out.splitlines() if "add_wroker" in line)
    assert line.startswith("sop.yaml:10: obs_deep: ")
    assert " — did you mean `add_worker`?" in line
    assert ended.out.splitlines()[-1].startswith("1 error, ")
    as_json = triage("check", "--json", cwd=project)
    assert (as_json.code, as_json.err) == (1, "")
    assert as_json.json["errors"] == 1
    assert all(finding["fix"] for finding in as_json.json["findings"])


def test_a_fault_of_the_settings_is_a_finding(project: Path) -> None:
    (project / "triage.toml").write_text(TOML + "frob = 1\n")
    ended = triage("check", cwd=project)
    assert ended.code == 1
    assert "triage.toml:8: intake.frob: there is no such key" in ended.out


def test_a_tampered_tool_and_a_dead_source_are_findings(project: Path) -> None:
    (project / "tools_lib" / "obs_deep" / "v1.py").write_text("# changed\n")
    (project / "triage.toml").write_text(TOML.replace("facts.db", "absent.db"))
    ended = triage("check", "--connect", cwd=project)
    assert ended.code == 1
    assert "is not what was approved" in ended.out
    assert "triage.toml: sources.tables: " in ended.out
    assert "tools: 0 active, 1 broken" in ended.out
    assert triage("tools", "verify", cwd=project).code == 1
    refused = triage("run", cwd=project, stdin=orjson.dumps(ALERT))
    assert refused.code == 78


def test_secrets_may_be_elsewhere(project: Path) -> None:
    text = TOML.replace('url = "sqlite:///facts.db"', 'url_env = "FACTS_URL"')
    (project / "triage.toml").write_text(text)
    missing = triage("check", cwd=project)
    assert missing.code == 1
    assert "FACTS_URL is not set" in missing.out
    assert triage("check", "--no-secrets", cwd=project).code == 0


# --- run --------------------------------------------------------------------------------------


def test_run_shows_the_walk(project: Path) -> None:
    ended = triage("run", "--queries", cwd=project, stdin=orjson.dumps(ALERT))
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "QueueDeep at home on mail, fired 2026-06-01T12:31:00+00:00"
    assert "│       ├── depth: 40 > 10 jobs ✓" in lines
    assert '│       │   └── {"rows":[{"depth":40}]}' in lines
    assert "    └── add_worker on mail  (rank 2, low cost) Add a worker ← obs_deep" in lines
    assert not (project / "data").exists()


def test_run_as_json_is_the_same_decision_every_time(project: Path) -> None:
    body = orjson.dumps([ALERT, {**ALERT, "entity": "idle"}])
    (project / "two.json").write_bytes(body)
    first = triage("run", "two.json", "--json", cwd=project)
    again = triage("run", "--json", "--at", "1h", cwd=project, stdin=body)
    assert (first.code, first.err) == (0, "")
    assert [document["outcome"] for document in first.json] == ["actions", "actions"]
    hashes = [document["decision_sha256"] for document in first.json]
    assert [document["decision_sha256"] for document in again.json] == hashes
    assert first.json[0]["fired_at"] != again.json[0]["fired_at"]


def test_run_ends_with_1_when_an_alert_escalates_or_is_refused(project: Path) -> None:
    unrouted = triage("run", cwd=project, stdin=orjson.dumps({**ALERT, "alarm": "Other"}))
    assert unrouted.code == 1
    assert "outcome     escalate: unrouted" in unrouted.out
    half = triage("run", cwd=project, stdin=orjson.dumps([ALERT, {"alarm": "NoTime"}]))
    assert half.code == 1
    assert "refused: [1].fired_at: is missing" in half.err
    assert "add_worker on mail" in half.out


def test_run_suggests_the_format(project: Path) -> None:
    body = orjson.dumps({"receiver": "x", "alerts": [], "version": "4"})
    ended = triage("run", cwd=project, stdin=body)
    assert ended.code == 1
    assert "it looks like --format alertmanager" in ended.err


# --- tools ------------------------------------------------------------------------------------


def test_versions_come_and_go(project: Path) -> None:
    (project / "tool.py").write_text(TOOL.replace("jobs wait", "jobs are waiting"))
    added = triage("tools", "add", "obs_deep", "tool.py", "--note", "wording", cwd=project)
    assert "triage tools promote obs_deep 2" in added.err
    promoted = triage("tools", "promote", "obs_deep", "--by", "cy", "--note", "why", cwd=project)
    assert promoted.out == "obs_deep: version 2 is active in place of 1\n"
    back = triage("tools", "rollback", "obs_deep", "--by", "dee", cwd=project)
    assert back.out == "obs_deep: version 1 is active again\n"
    shown = triage("tools", "show", "obs_deep", "--json", cwd=project).json
    acts = [(act["verb"], act["version"], act["by"], act["note"]) for act in shown["history"]]
    assert acts[-2:] == [("promote", 2, "cy", "why"), ("rollback", 1, "dee", "")]
    assert acts[-3][0] == "add"
    assert acts[-3][3] == "wording"
    text = triage("tools", "show", "obs_deep", cwd=project).out
    assert "rollback" in text
    assert "deprecated" in text
    listed = triage("tools", "list", "--json", cwd=project).json["tools"]
    assert [(tool["node"], tool["active"], tool["maker"]) for tool in listed] == [
        ("obs_deep", 1, "ann")
    ]
    verified = triage("tools", "verify", cwd=project)
    assert (verified.code, verified.out) == (0, "2 versions verified: 0 errors, 0 warnings\n")


def test_a_quarantined_tool_is_released_by_a_person(project: Path) -> None:
    digest = triage("tools", "show", "obs_deep", "--json", cwd=project).json["sha256"]
    (project / "data").mkdir()
    (project / "data" / "quarantine.json").write_bytes(orjson.dumps({digest: "it blocked"}))
    listed = triage("tools", "quarantine", "list", "--json", cwd=project).json["quarantined"]
    assert listed == [{"sha256": digest, "node": "obs_deep", "version": 1, "reason": "it blocked"}]
    assert "is quarantined: it blocked" in triage("check", cwd=project).out
    assert "quarantined: it blocked" in triage("tools", "list", cwd=project).out
    released = triage("tools", "quarantine", "release", digest[:8], "--by", "eve", cwd=project)
    assert (released.code, released.out) == (0, "obs_deep version 1: released\n")
    assert triage("tools", "quarantine", "list", "--json", cwd=project).json == {"quarantined": []}
    history = triage("tools", "show", "obs_deep", "--json", cwd=project).json["history"]
    assert (history[-1]["verb"], history[-1]["by"]) == ("release", "eve")
    assert "quarantined" not in triage("check", cwd=project).out


# --- the terminal -----------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_fault(project: Path) -> None:
    for command in ("schema config", "check", "check --json", "tools list"):
        read, write = os.pipe()
        os.close(read)
        process = subprocess.Popen(  # noqa: S603 - the argv is made here
            [*TRIAGE, *command.split()],
            cwd=project,
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        os.close(write)
        _, err = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, err) == (141, b"")


def _heeds_ctrl_c() -> None:
    """Shells have what they start in the background ignore it, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_ctrl_c_ends_without_a_traceback(tmp_path: Path) -> None:
    async with ScriptedServer(hang()) as server:
        process = await asyncio.create_subprocess_exec(
            *TRIAGE,
            *("ledger", "--url", server.url),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
            preexec_fn=_heeds_ctrl_c,
        )
        try:
            await asyncio.wait_for(server.arrived(1), LIMIT_S)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


def test_colours_are_for_terminals(project: Path) -> None:
    plain = triage("run", cwd=project, stdin=orjson.dumps(ALERT))
    assert "\x1b[" not in plain.out
    forced = triage("run", cwd=project, stdin=orjson.dumps(ALERT), env={"FORCE_COLOR": "1"})
    assert "\x1b[" in forced.out
    without = triage(
        "run", cwd=project, stdin=orjson.dumps(ALERT), env={"FORCE_COLOR": "1", "NO_COLOR": "1"}
    )
    assert COLOUR.search(forced.out)
    assert not COLOUR.search(without.out)


def test_an_encoding_without_arrows_ends_nothing(project: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii"}
    ended = triage("run", cwd=project, stdin=orjson.dumps(ALERT), env=env)
    assert ended.code == 0
    assert "\\u2713" in ended.out


@pytest.mark.parametrize("name", ["sop", "sites", "config"])
def test_schemas_are_json(tmp_path: Path, name: str) -> None:
    ended = triage("schema", name, cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["type"] == "object"
