"""Commands in processes of their own: what they print where, and the code they end with."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import LIMIT_S, TRIAGE, Daemon, environment, serving, triage
from tests.scripted_server import ScriptedServer, hang, reply
from tests.servers import free_port, wait_until

TOML = """\
[sop]
file = "sop.yaml"
[sources.tables]
type = "sql"
url = "sqlite:///facts.db"
[intake]
default_site = "home"
"""

SOP = """\
sop: queues
version: 7
alarms: {QueueDeep: [obs_deep]}
params: {depth: {value: 10, unit: jobs}}
nodes:
  obs_deep:
    kind: observation
    text: Is the queue too deep?
    sources: [tables]
    on_true: [add_worker]
    on_false: [close_alert]
    on_failed: [look]
actions:
  close_alert: {text: Close it, rank: 1, cost: low, yields: true}
  add_worker: {text: Add a worker, rank: 2, cost: low}
  look: {text: Look, rank: 2, cost: low}
"""

TOOL = '''\
"""Is the queue too deep?"""

from triage.tool_api import compare, conclude, no_data, rows


def queries(warehouse, timestamp, context):
    return [rows("tables", "select depth from queues where name = :name", name=context.entity)]


def evaluate(warehouse, timestamp, context):
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no such queue")
    depth = float(found[0]["depth"])
    limit = float(context.params["depth"])
    return conclude([compare("depth", depth, ">", limit, "jobs")], f"{depth:g} jobs wait")
'''

COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")
ALERT = {"alarm": "QueueDeep", "entity": "mail", "fired_at": "2026-06-01T12:31:00Z"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "triage.toml").write_text(TOML)
    (folder / "sop.yaml").write_text(SOP)
    (folder / "tool.py").write_text(TOOL)
    (folder / "tools_lib").mkdir()
    with sqlite3.connect(folder / "facts.db") as facts:
        facts.execute("create table queues (name text, depth integer)")
        facts.executemany("insert into queues values (?, ?)", [("mail", 40), ("idle", 0)])
    facts.close()
    added = triage("tools", "add", "obs_deep", "tool.py", "--maker", "ann", cwd=folder)
    assert (added.code, added.out) == (0, "obs_deep: version 1 is a candidate\n")
    promoted = triage("tools", "promote", "obs_deep", "--by", "bob", cwd=folder)
    assert (promoted.code, promoted.out) == (0, "obs_deep: version 1 is active\n")
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


@pytest.fixture(scope="module")
def served(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that has decided three alerts."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("served") / "project")
    with serving(folder) as daemon:
        for entity in ("mail", "idle", "\x1b[31m[bold]x"):
            alert = {**ALERT, "entity": entity}
            _post(daemon.url, alert)

        def decided() -> bool:
            return bool(triage("ledger", "--json", cwd=folder).json["decided"] == 3)

        wait_until(decided, what="three decisions", process=daemon.process)
        yield daemon


def _post(url: str, alert: dict[str, Any]) -> None:
    request = urllib.request.Request(f"{url}/api/v1/alerts", data=orjson.dumps(alert))  # noqa: S310 - our own local URL
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
        assert response.status == 202


# --- mistakes ---------------------------------------------------------------------------------

NOWHERE = f"http://127.0.0.1:{free_port()}"

MISTAKES: list[tuple[str, int, str]] = [
    ("", 2, "Usage: triage"),
    ("chekc", 2, "Did you mean 'check'?"),
    ("check --frobnicate", 2, "No such option"),
    ("check --config absent.toml", 78, "absent.toml: cannot be read: No such file"),
    ("check --config tools_lib", 78, "tools_lib: cannot be read: Is a directory"),
    ("check --config tool.py", 78, "tool.py:"),
    ("check --connect --no-secrets", 2, "needs the secrets"),
    ("serve --config absent.toml", 78, "make a project with: triage init DIR"),
    ("serve --listen nonsense", 78, "write HOST:PORT"),
    ("serve --listen 0.0.0.0:0", 78, "there is no token"),
    ("run absent.json", 2, "absent.json: cannot be read: No such file"),
    ("run tools_lib", 2, "Is a directory"),
    ("run tool.py", 1, "refused: body: is not JSON"),
    ("run -", 1, "refused: body: is empty"),
    ("run --format frob tool.py", 2, "--format"),
    ("run --at yesterday tool.py", 2, "is no time"),
    ("run --config absent.toml tool.py", 78, "absent.toml"),
    ("decisions", 2, "Usage: triage decisions"),
    ("decisions list", 78, "does not exist: nothing was served from it"),
    ("decisions list --since 2026-06-01T12:31:00", 2, "is no time"),
    ("decisions list --outcome lost", 2, "--outcome"),
    ("decisions list --limit 0", 2, "--limit"),
    (f"decisions list --url {NOWHERE}", 69, "is the daemon running there?"),
    ("decisions list --url ftp://x", 2, "write http://HOST:PORT"),
    ("decisions list --url nonsense", 2, "write http://HOST:PORT"),
    (f"decisions list --url {NOWHERE} --token-env ABSENT", 78, "ABSENT is not set"),
    (f"decisions list --url {NOWHERE} --token-file absent", 78, "absent: cannot be read"),
    (f"decisions list --url {NOWHERE} --token-env A --token-file b", 2, "give one of"),
    ("decisions list --token-env HOME", 2, "a token goes with --url"),
    (f"decisions show abcdefabcdef --url {NOWHERE}", 69, "cannot be reached"),
    (f"decisions show abc --url {NOWHERE}", 2, "is too short"),
    ("ledger", 78, "does not exist"),
    (f"ledger --url {NOWHERE}", 69, "cannot be reached"),
    ("tools show obs_depe", 2, "did you mean `obs_deep`?"),
    ("tools add obs_deep absent.py", 2, "absent.py: cannot be read"),
    ("tools add obs_deep sop.yaml", 78, "is not Python"),
    ("tools add nope tool.py", 2, "has no node 'nope'"),
    ("tools add obs_deep tool.py --reads-parent nope", 2, "has no node 'nope'"),
    ("tools promote obs_deep", 2, "has no candidate: name a version; there are: 1 (active)"),
    ("tools promote obs_deep 9", 78, "there is no version 9"),
    ("tools rollback obs_deep", 78, "no version was active before"),
    ("tools quarantine release obs_deep", 1, "obs_deep is not quarantined; there are: none"),
    ("tools list --config absent.toml", 78, "absent.toml"),
    ("schema frob", 2, "frob"),
    ("init tool.py", 2, "tool.py is a file: name a folder"),
    ("init tool.py/below", 69, "cannot be written: Not a directory"),
    ("init .", 2, "there is already triage.toml, sop.yaml"),
]


@pytest.mark.parametrize(("line", "code", "said"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_ends_with_a_message_and_a_code(
    project: Path, line: str, code: int, said: str
) -> None:
    before = _contents(project)
    ended = triage(*line.split(), cwd=project)
    assert ended.code == code, ended.err
    assert said in ended.err
    assert ended.out == ""
    assert _contents(project) == before


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("over_http", [False, True])
def test_decisions_are_read_from_the_file_and_over_http(served: Daemon, over_http: bool) -> None:
    url = ["--url", served.url] if over_http else []

    def read(*args: str) -> Any:
        ended = triage(*args, *url, "--json", cwd=served.folder)
        assert (ended.code, ended.err) == (0, "")
        return ended.json

    whole = read("decisions", "list")
    assert len(whole["decisions"]) == 3
    assert whole["cursor"] == ""
    first = read("decisions", "list", "--limit", "2")
    rest = read("decisions", "list", "--limit", "2", "--cursor", first["cursor"])
    assert first["decisions"] + rest["decisions"] == whole["decisions"]
    assert len(read("decisions", "list", "--outcome", "inconclusive")["decisions"]) == 1
    assert read("decisions", "list", "--site", "nowhere")["decisions"] == []
    assert len(read("decisions", "list", "--since", "1h", "--until", "now")["decisions"]) == 3
    assert read("decisions", "list", "--until", "1h")["decisions"] == []
    for head in whole["decisions"]:
        document = read("decisions", "show", head["alert_id"][:10], "--evidence")
        assert document["decision_sha256"] == head["decision_sha256"]
        (asked,) = document["nodes"][0]["asked"]
        assert '"rows"' in document["evidence"][asked["answer_sha256"]]
    assert read("ledger", "--full")["balances"]


@pytest.mark.parametrize("over_http", [False, True])
def test_what_is_not_there(served: Daemon, over_http: bool) -> None:
    url = ["--url", served.url] if over_http else []
    for absent in ("f" * 32, "ffffffff", "../ledger", "ü"):
        ended = triage("decisions", "show", absent, *url, cwd=served.folder)
        assert ended.code == 1
        assert "was ever accepted here" in ended.err
    cursor = triage("decisions", "list", "--cursor", "nonsense", *url, cwd=served.folder)
    assert cursor.code == 2
    assert "not a cursor of this store" in cursor.err


def test_hostile_names_reach_no_terminal(served: Daemon) -> None:
    for command in ("list", "show"):
        heads = triage("decisions", "list", "--json", cwd=served.folder).json["decisions"]
        (hostile,) = [head["alert_id"] for head in heads if head["outcome"] == "inconclusive"]
        args = [command, hostile] if command == "show" else [command]
        ended = triage("decisions", *args, cwd=served.folder)
        assert "\x1b" not in ended.out
        assert "\\x1b[31m[bold]x" in ended.out


def test_a_narrow_terminal_gets_whole_ids(served: Daemon) -> None:
    heads = triage("decisions", "list", "--json", cwd=served.folder).json["decisions"]
    ended = triage("decisions", "list", cwd=served.folder, env={"COLUMNS": "60"})
    assert all(head["alert_id"] in ended.out for head in heads)


def test_a_second_daemon_on_the_same_store_or_address_is_told(served: Daemon) -> None:
    store = triage("serve", "--listen", "127.0.0.1:0", cwd=served.folder)
    assert store.code == 78
    assert f"is in use by process {served.process.pid if served.process else 0}" in store.err
    env = {"TRIAGE_STORE__URL": "sqlite:///other.db"}
    address = triage("serve", "--listen", f"127.0.0.1:{served.port}", cwd=served.folder, env=env)
    assert address.code == 69
    assert "is another triage running" in address.err


def test_a_token_is_asked_for_and_taken(project: Path) -> None:
    toml = TOML + '[[http.tokens]]\nname = "ops"\nenv = "OPS_TOKEN"\nscopes = ["read"]\n'
    toml += '[[http.tokens]]\nname = "in"\nenv = "IN_TOKEN"\nscopes = ["ingest"]\n'
    (project / "triage.toml").write_text(toml)
    env = {"OPS_TOKEN": "right", "IN_TOKEN": "other", "WRONG": "wrong"}
    (project / "token").write_text("right\n")
    with serving(project, env) as daemon:
        for args, code, said in (
            ([], 78, "send `Authorization: Bearer <token>`"),
            (["--token-env", "WRONG"], 78, "this token is not known"),
            (["--token-env", "IN_TOKEN"], 78, "lacks the scope"),
            (["--token-env", "OPS_TOKEN"], 0, ""),
            (["--token-file", "token"], 0, ""),
        ):
            ended = triage("ledger", "--url", daemon.url, *args, cwd=project, env=env)
            assert ended.code == code
            assert said in ended.err
            assert "wrong" not in ended.err


@pytest.mark.parametrize(
    ("status", "body", "code", "said"),
    [
        (200, b"<html>", 69, "does not answer like triage"),
        (200, b"[]", 69, "does not answer like triage"),
        (404, b"nginx", 69, "does not answer like triage"),
        (302, b"", 69, "does not answer like triage"),
        (503, b'{"error": {"problem": "draining \\u001b[31m"}}', 69, "503: draining \\x1b[31m"),
    ],
)
async def test_another_server_behind_the_url(
    tmp_path: Path, status: int, body: bytes, code: int, said: str
) -> None:
    async with ScriptedServer(reply(status, body)) as server:
        for command in ("ledger", "decisions list", "decisions show 0123456789ab"):
            args = (*command.split(), "--url", server.url)
            ended = await asyncio.to_thread(triage, *args, cwd=tmp_path)
            assert ended.code == code
            assert said in ended.err


async def test_a_decision_of_another_shape_is_told(tmp_path: Path) -> None:
    async with ScriptedServer(reply(200, b'{"outcome": "actions"}')) as server:
        args = ("decisions", "show", "0" * 32, "--url", server.url)
        ended = await asyncio.to_thread(triage, *args, cwd=tmp_path)
    assert ended.code == 69
    assert "use --json" in ended.err


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


async def test_ctrl_c_ends_without_a_traceback(tmp_path: Path) -> None:
    async with ScriptedServer(hang()) as server:
        process = await asyncio.create_subprocess_exec(
            *TRIAGE,
            *("ledger", "--url", server.url),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
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
