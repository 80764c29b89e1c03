"""Decisions and the ledger, read from a daemon's file and over its HTTP interface."""

from __future__ import annotations

import asyncio
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import ALERT, TOML, Daemon, make_project, serving, triage
from tests.scripted_server import ScriptedServer, reply
from tests.servers import wait_until


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("made"))


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


def test_a_storm_is_shown_at_its_first_and_at_its_refires(project: Path) -> None:
    (project / "triage.toml").write_text("[engine]\ncoalesce_s = 3600\n" + TOML)
    with serving(project) as daemon:
        for second in range(3):
            fired_at = f"2026-06-01T12:31:0{second}Z"
            _post(daemon.url, {**ALERT, "id": "flaps", "fired_at": fired_at})
        wait_until(
            lambda: triage("ledger", "--json", cwd=project).json["decided"] == 3,
            what="three decisions",
            process=daemon.process,
        )

        def listed(outcome: str) -> list[str]:
            found = triage("decisions", "list", "--outcome", outcome, "--json", cwd=project).json
            return [head["alert_id"] for head in found["decisions"]]

        refires, (first,) = listed("coalesced"), listed("actions")
        assert len(refires) == 2
        for url in ([], ["--url", daemon.url]):
            shown = triage("decisions", "show", first, *url, cwd=project).out
            assert "fired again  2 times, coalesced into this one" in shown
            again = triage("decisions", "show", refires[0], *url, cwd=project).out
            assert f"decided as  {first}, which fired shortly before" in again
