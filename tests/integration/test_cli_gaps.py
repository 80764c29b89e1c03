"""`triage gaps` on the store of a daemon that goes on serving from it, and over HTTP."""

from __future__ import annotations

import asyncio
import getpass
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import ALERT, TOML, TOOL, Daemon, Ended, make_project, serving, triage
from tests.scripted_server import ScriptedServer, reply
from tests.servers import wait_until

BREAKS = TOOL.replace(
    "    found = context",
    '    if context.entity.startswith("broken"):\n'
    '        raise ValueError("\\x1b[31m" + context.entity)\n'
    "    found = context",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its tool raises for entities that are broken."""
    folder = make_project(tmp_path_factory.mktemp("gaps") / "project")
    (folder / "tool.py").write_text(BREAKS)
    for args in (("add", "obs_deep", "tool.py"), ("promote", "obs_deep")):
        assert triage("tools", *args, cwd=folder).code == 0
    return folder


@pytest.fixture(scope="module")
def daemon(project: Path) -> Iterator[Daemon]:
    with serving(project) as daemon:
        yield daemon


@pytest.fixture(params=[False, True], ids=["file", "http"])
def where(request: pytest.FixtureRequest, daemon: Daemon) -> list[str]:
    return ["--url", daemon.url] if request.param else []


@pytest.fixture
def gap(daemon: Daemon) -> dict[str, Any]:
    """The open gap of the daemon's one node, with a case more than it had."""
    before = _count(daemon)
    alert = {**ALERT, "entity": f"broken {before}"}
    _post(daemon.url, alert)

    wait_until(lambda: _count(daemon) > before, what="another case", process=daemon.process)
    (found,) = _open(daemon)
    return found


def _open(daemon: Daemon) -> list[dict[str, Any]]:
    gaps: list[dict[str, Any]] = triage("gaps", "list", "--json", cwd=daemon.folder).json["gaps"]
    return gaps


def _count(daemon: Daemon) -> int:
    both = [
        *_open(daemon),
        *triage("gaps", "list", "--closed", "--json", cwd=daemon.folder).json["gaps"],
    ]
    return sum(gap["count"] for gap in both)


def _post(url: str, alert: dict[str, Any]) -> None:
    request = urllib.request.Request(f"{url}/api/v1/alerts", data=orjson.dumps(alert))  # noqa: S310 - our own local URL
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
        assert response.status == 202


def gaps(daemon: Daemon, *args: str) -> Ended:
    return triage("gaps", *args, cwd=daemon.folder)


def test_a_gap_is_listed_shown_closed_and_comes_back(
    daemon: Daemon, gap: dict[str, Any], where: list[str]
) -> None:
    gap_id = gap["gap_id"]
    listed = gaps(daemon, "list", "--node", "obs_deep", *where, "--json")
    assert (listed.code, listed.json) == (0, {"gaps": [gap], "cursor": ""})
    assert (gap["node"], gap["reason"], gap["tool_version"]) == ("obs_deep", "tool_raised", 2)
    assert gap["latest"]["needed"] == "Is the queue too deep?"
    shown = gaps(daemon, "show", gap_id[:6].upper(), *where, "--json").json
    cases = shown.pop("cases")
    assert shown == gap
    assert len(cases) == gap["count"]
    assert cases[0] == gap["latest"]
    decision = triage("decisions", "show", cases[0]["alert_id"], "--json", cwd=daemon.folder).json
    assert decision["nodes"][0]["failure"]["detail"] == cases[0]["missing"]

    closed = gaps(daemon, "close", gap_id[:8], "--by", "ann", "--note", "made a tool", *where)
    assert (closed.code, closed.out, closed.err) == (0, f"{gap_id}: closed\n", "")
    assert gaps(daemon, "list", *where).err == "no open gaps\n"
    (one,) = gaps(daemon, "list", "--closed", *where, "--json").json["gaps"]
    assert (one["closed_by"], one["note"].split("\n")[0]) == ("ann", "made a tool")
    again = gaps(daemon, "close", gap_id, *where)
    assert (again.code, again.out) == (1, "")
    assert "is closed already: by ann" in again.err

    # The daemon's own writer was never disturbed.
    assert triage("ledger", "--full", "--json", cwd=daemon.folder).json["balances"] is True
    assert "store_" not in daemon.log.read_text()


def test_who_closes_is_whoever_runs_it(daemon: Daemon, gap: dict[str, Any]) -> None:
    """And a case that came after earlier closings has opened it again, their notes kept."""
    assert gaps(daemon, "close", gap["gap_id"]).code == 0
    (one,) = gaps(daemon, "list", "--closed", "--json").json["gaps"]
    assert one["closed_by"] == getpass.getuser()


def test_what_is_shown_to_people(daemon: Daemon, gap: dict[str, Any], where: list[str]) -> None:
    for args in (("list",), ("show", gap["gap_id"])):
        ended = gaps(daemon, *args, *where)
        assert ended.code == 0
        assert "\x1b" not in ended.out
        assert "\\x1b[31mbroken" in ended.out
        assert gap["gap_id"] in ended.out
    narrow = triage("gaps", "list", *where, cwd=daemon.folder, env={"COLUMNS": "60"})
    assert gap["gap_id"] in narrow.out


@pytest.mark.parametrize("command", ["show", "close"])
def test_what_is_not_there(daemon: Daemon, where: list[str], command: str) -> None:
    for absent in ("f" * 12, "ffffff", "../ledger", "ü"):
        ended = gaps(daemon, command, absent, *where)
        assert ended.code == 1, ended
        assert "was ever recorded" in ended.err
    short = gaps(daemon, command, "abc", *where)
    assert short.code == 2
    assert "too short" in short.err


def test_what_cannot_be_meant(daemon: Daemon, where: list[str]) -> None:
    cursor = gaps(daemon, "list", "--cursor", "nonsense", *where)
    assert cursor.code == 2
    assert "not a cursor" in cursor.err
    for option, text in (("--note", "x" * 2_001), ("--by", "x" * 201)):
        ended = gaps(daemon, "close", "f" * 12, option, text, *where)
        assert ended.code == 2
        assert "at most" in ended.err


def test_closing_over_http_takes_the_scope_for_it(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    toml = TOML
    for name, scope in (("reader", "read"), ("boss", "admin")):
        toml += f'[[http.tokens]]\nname = "{name}"\nenv = "{name.upper()}"\nscopes = ["{scope}"]\n'
    (folder / "triage.toml").write_text(toml)
    env = {"READER": "right", "BOSS": "other"}
    with serving(folder, env) as daemon:
        for token, code, said in (
            ("READER", 78, "give a token that may change things"),
            ("BOSS", 1, "was ever recorded"),
        ):
            args = ("gaps", "close", "f" * 12, "--url", daemon.url, "--token-env", token)
            ended = triage(*args, cwd=folder, env=env)
            assert ended.code == code
            assert said in ended.err


def test_a_store_that_nobody_serves_is_read_and_changed(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    nothing = triage("gaps", "list", cwd=folder)
    assert nothing.code == 78
    assert "nothing was served from it" in nothing.err
    (folder / "tool.py").write_text(BREAKS)
    for args in (("add", "obs_deep", "tool.py"), ("promote", "obs_deep")):
        assert triage("tools", *args, cwd=folder).code == 0
    with serving(folder) as daemon:
        _post(daemon.url, {**ALERT, "entity": "broken"})
        wait_until(lambda: bool(_open(daemon)), what="the gap", process=daemon.process)
        assert daemon.terminate() == 0
    (gap,) = triage("gaps", "list", "--json", cwd=folder).json["gaps"]
    assert triage("gaps", "close", gap["gap_id"], cwd=folder).code == 0
    assert triage("gaps", "list", "--json", cwd=folder).json["gaps"] == []
    with serving(folder) as daemon:
        assert triage("gaps", "list", "--closed", "--json", cwd=folder).json["gaps"] != []


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"[]"), (404, b"nginx"), (409, b"?")]
)
async def test_another_server_behind_the_url(tmp_path: Path, status: int, body: bytes) -> None:
    async with ScriptedServer(reply(status, body)) as server:
        for command in ("list", "show 0123456789ab", "close 0123456789ab"):
            args = ("gaps", *command.split(), "--url", server.url)
            ended = await asyncio.to_thread(triage, *args, cwd=tmp_path)
            assert ended.code == 69
            assert "does not answer like triage" in ended.err


async def test_a_gap_of_another_shape_is_told(tmp_path: Path) -> None:
    async with ScriptedServer(reply(200, b'{"gap_id": "x", "gaps": [{}], "cursor": ""}')) as server:
        for command in ("list", "show 0123456789ab"):
            args = ("gaps", *command.split(), "--url", server.url)
            ended = await asyncio.to_thread(triage, *args, cwd=tmp_path)
            assert ended.code == 69
            assert "use --json" in ended.err
