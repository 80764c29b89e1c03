"""`triage dead-letters` on a store, beside a daemon that serves from it, and over HTTP."""

from __future__ import annotations

import asyncio
import getpass
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import (
    ALERT,
    LIMIT_S,
    TOML,
    TRIAGE,
    Daemon,
    Ended,
    environment,
    make_project,
    serving,
    triage,
)
from tests.scripted_server import ScriptedServer, reply
from tests.servers import wait_until
from triage.adapters.store import Store
from triage.app.field_maps import field_maps
from triage.app.sections import IntakeSection
from triage.clock import SystemClock
from triage.intake.formats import parse
from triage.intake.request import IntakeRequest
from triage.ports import DeadLetter

AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
HOSTILE = "\x1b[31m\u202e[bold]"
MAPPED = TOML + '[intake.native]\nalarm = ["name"]\n'
ORDER = {"name": "QueueDeep", "entity": "mail", "fired_at": "2026-06-01T12:31:00Z"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("made"))


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


def letter(number: int, body: object = ORDER, **more: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "dead_letter_id": f"{number:032x}",
        "stream": "orders",
        "format": "native",
        "payload": body if isinstance(body, bytes) else orjson.dumps(body),
        "headers": {"trace": HOSTILE},
        "reason": "undecodable",
        "detail": f"alarm: no alarm name {HOSTILE}",
        "attempts": 1,
        "at": AT + timedelta(seconds=number),
    }
    return DeadLetter(**{**given, **more})


def lay(folder: Path, letters: Sequence[DeadLetter] = (), *, alerts: int = 0) -> list[str]:
    """Puts letters, and that many alerts whose attempts were used up, into a store that nobody
    serves from. Returns the alerts' ids."""

    async def run() -> list[str]:
        store = await Store.open(folder / "data" / "triage.db", clock=SystemClock())
        ids: list[str] = []
        try:
            for one in letters:
                assert await store.dead_letters.bury(one)
            for number in range(alerts):
                body = orjson.dumps({**ALERT, "id": f"dead {number}"})
                request = IntakeRequest(format="native", body=body, received_at=AT)
                parsed = parse(request, field_maps(IntakeSection())["native"])
                (accepted,) = await store.alerts.accept(parsed.arrivals)
                assert accepted.alert_id is not None
                await store.alerts.dead_letter(accepted.alert_id, "attempts_used_up", "5 attempts")
                ids.append(accepted.alert_id)
        finally:
            await store.close()
        return ids

    return asyncio.run(run())


def dead_letters(folder: Path, *args: str, env: dict[str, str] | None = None) -> Ended:
    return triage("dead-letters", *args, cwd=folder, env=env)


def ledger(folder: Path) -> dict[str, Any]:
    """Counted anew; it balances."""
    document: dict[str, Any] = triage("ledger", "--full", "--json", cwd=folder).json
    assert document["balances"] is True, document
    return document


@pytest.fixture(params=[False, True], ids=["store", "http"])
def over_http(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def at(daemon: Daemon, over_http: bool) -> list[str]:
    return ["--url", daemon.url] if over_http else []


# --- mistakes first -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("redrive", "say which"),
        ("redrive abcdefab --all", "say which"),
        ("redrive abcdefab --reason x", "goes with --all"),
        ("discard", "say which"),
        ("show abcdefab --json --payload", "one of --json and --payload"),
        ("list --token-env X", "a token goes with --url"),
        (f"discard abcdefab --note {'x' * 2_001}", "at most"),
        (f"redrive abcdefab --by {'x' * 201}", "at most"),
    ],
)
def test_what_cannot_be_meant(project: Path, args: str, said: str) -> None:
    ended = dead_letters(project, *args.split())
    assert ended.code == 2
    assert said in ended.err
    assert not (project / "data").exists()


def test_a_store_that_was_never_served_from(project: Path) -> None:
    for args in ("list", "show abcdefab", "redrive --all", "discard abcdefab"):
        ended = dead_letters(project, *args.split())
        assert ended.code == 78
        assert "nothing was served from it" in ended.err


@pytest.mark.parametrize("command", ["show", "redrive", "discard"])
def test_what_is_not_there(project: Path, command: str, over_http: bool) -> None:
    ids = [f"abc{number}".ljust(32, "0") for number in (1, 2)]
    lay(project, [letter(n, dead_letter_id=one) for n, one in enumerate(ids)])
    with serving(project) as daemon:
        where = at(daemon, over_http)
        for absent in ("f" * 32, "ffffff", "../ledger", "ü"):
            ended = dead_letters(project, command, absent, *where)
            assert ended.code == 1, ended
            assert "no such dead letter" in ended.out + ended.err
        short = dead_letters(project, command, "abc", *where)
        assert short.code == 2
        assert "too short" in short.err
        # One that is mistyped keeps a command from doing half of its work.
        if command != "show":
            assert dead_letters(project, command, ids[0], "abc", *where).code == 2
        assert ledger(project)["dead_lettered"] == 2


def test_a_cursor_that_means_nothing(project: Path, over_http: bool) -> None:
    with serving(project) as daemon:
        ended = dead_letters(project, "list", "--cursor", "nonsense", *at(daemon, over_http))
    assert ended.code == 2
    assert "not a cursor" in ended.err


# --- reading --------------------------------------------------------------------------------------


def test_they_are_listed_in_pages_and_shown(project: Path, over_http: bool) -> None:
    (alert_id,) = lay(
        project, [letter(1), letter(2, reason="too_large"), letter(3, b"\xff")], alerts=1
    )
    with serving(project) as daemon:
        where = at(daemon, over_http)
        whole = dead_letters(project, "list", *where, "--json")
        assert (whole.code, whole.err, whole.json["cursor"]) == (0, "", "")
        ids = [one["dead_letter_id"] for one in whole.json["dead_letters"]]
        assert ids == [alert_id, *(f"{number:032x}" for number in (3, 2, 1))]
        first = dead_letters(project, "list", "-n", "3", *where, "--json").json
        rest = dead_letters(project, "list", "--cursor", first["cursor"], *where, "--json").json
        assert first["dead_letters"] + rest["dead_letters"] == whole.json["dead_letters"]
        narrowed = dead_letters(project, "list", "--reason", "too_large", *where, "--json").json
        assert [one["dead_letter_id"] for one in narrowed["dead_letters"]] == [f"{2:032x}"]
        shown = dead_letters(project, "show", alert_id[:8].upper(), *where, "--json").json
        assert (shown["alarm"], shown["attempts"]) == ("QueueDeep", 0)
        assert orjson.loads(shown["payload"])["id"] == "dead 0"


def test_what_is_shown_to_people_reaches_no_terminal(project: Path, over_http: bool) -> None:
    payload = json.dumps({"note": f"{HOSTILE}über", "more": [1, 10**40]})
    lay(project, [letter(1, payload.encode())])
    with serving(project) as daemon:
        where = at(daemon, over_http)
        listed = dead_letters(project, "list", *where)
        narrow = dead_letters(project, "list", *where, env={"COLUMNS": "60"})
        shown = dead_letters(project, "show", "00000000000000000000000000000001", *where)
    for ended in (listed, narrow, shown):
        assert ended.code == 0
        assert f"{1:032x}" in ended.out
        assert "\x1b" not in ended.out
        assert "\u202e" not in ended.out
        assert "\\x1b[31m\\u202e[bold]" in ended.out
    # The payload is JSON, and is laid out as such, no figure of it changed.
    assert '    "note": "\\u001b[31m\\u202e[bold]über",\n' in shown.out
    assert f"    {10**40}\n" in shown.out


@pytest.mark.parametrize("body", [b"\xff\xfe\x00\r\n", "grün".encode(), b"{}\n", b""])
def test_the_payload_is_written_byte_for_byte(project: Path, over_http: bool, body: bytes) -> None:
    lay(project, [letter(1, body)])
    with serving(project) as daemon:
        args = ["dead-letters", "show", f"{1:032x}", "--payload", *at(daemon, over_http)]
        done = subprocess.run(  # noqa: S603 - the argv is made here
            [*TRIAGE, *args],
            cwd=project,
            env=environment(),
            capture_output=True,
            timeout=LIMIT_S,
            check=True,
        )
    assert done.stdout == body


# --- trying again ---------------------------------------------------------------------------------


def test_an_alert_is_decided_by_the_daemon_that_is_running(project: Path, over_http: bool) -> None:
    (alert_id,) = lay(project, alerts=1)
    with serving(project) as daemon:
        assert ledger(project)["dead_lettered"] == 1
        ended = dead_letters(project, "redrive", alert_id[:10], *at(daemon, over_http))
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == f"{alert_id}: pending again: {alert_id}\n"

        def decided() -> bool:
            return triage("decisions", "show", alert_id, cwd=project).code == 0

        wait_until(decided, what="the decision", process=daemon.process)
        counted = ledger(project)
        assert (counted["accepted"], counted["decided"], counted["dead_lettered"]) == (1, 1, 0)
        again = dead_letters(project, "redrive", alert_id, *at(daemon, over_http))
        assert again.code == 1
        assert "no such dead letter" in again.out
        assert "store_" not in daemon.log.read_text()


def test_a_message_is_read_with_the_field_maps_of_now(project: Path, over_http: bool) -> None:
    wanted = f"{1:032x}"
    lay(project, [letter(1)])
    with serving(project) as daemon:
        refused = dead_letters(project, "redrive", wanted, *at(daemon, over_http))
        assert refused.code == 1
        assert refused.out.startswith(f"{wanted}: refused: alarm: no alarm name")
        assert ledger(project)["dead_lettered"] == 1
        as_json = dead_letters(project, "redrive", wanted, "--json", *at(daemon, over_http)).json
        (result,) = as_json["dead_letters"]
        assert (result["status"], result["field"]) == ("refused", "alarm")
        assert daemon.terminate() == 0
    (project / "triage.toml").write_text(MAPPED)
    with serving(project) as daemon:
        ended = dead_letters(project, "redrive", "--all", "--json", *at(daemon, over_http))
        (result,) = ended.json["dead_letters"]
        assert (ended.code, result["status"], result["dead_letter_id"]) == (0, "redriven", wanted)
        (alert_id,) = result["alert_ids"]

        def decided() -> bool:
            return triage("decisions", "show", alert_id, cwd=project).code == 0

        wait_until(decided, what="the decision", process=daemon.process)
        nothing = dead_letters(project, "redrive", "--all", *at(daemon, over_http))
        assert (nothing.code, nothing.out, nothing.err) == (0, "", "no dead letters\n")


def test_all_of_a_reason_and_no_others_page_after_page(project: Path) -> None:
    """Beside no daemon: what is redriven waits for the next one."""
    (project / "triage.toml").write_text(MAPPED)
    fine = [letter(n, {**ORDER, "id": str(n)}, reason="too_large") for n in range(1, 451)]
    lay(project, [*fine, letter(451, b"no JSON", reason="too_large"), letter(500)])
    ended = dead_letters(project, "redrive", "--all", "--reason", "too_large")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert len(lines) == 451
    assert sum("pending again: " in line for line in lines) == 450
    assert f"{451:032x}: refused: body: " in lines[0]
    counted = ledger(project)
    assert (counted["pending"], counted["dead_lettered"]) == (450, 2)
    assert counted["backlog"]["warning"]["pending"] == 450
    people = triage("ledger", cwd=project)
    assert "450, the oldest" in people.out


def test_what_is_partly_an_alert_stays_for_the_rest(project: Path, over_http: bool) -> None:
    (project / "triage.toml").write_text(MAPPED)
    lay(project, [letter(1, [ORDER, {"id": "2"}, {"id": "3"}])])
    with serving(project) as daemon:
        ended = dead_letters(project, "redrive", f"{1:032x}", *at(daemon, over_http))
        assert ended.code == 1
        assert "pending again: " in ended.out
        assert "; it stays for [1].name: no alarm name" in ended.out
        assert ended.out.endswith(", and 1 more\n")
        assert ledger(project)["dead_lettered"] == 1


# --- taking out -----------------------------------------------------------------------------------


def test_what_is_discarded_is_gone(project: Path, over_http: bool) -> None:
    (alert_id,) = lay(project, [letter(1)], alerts=1)
    with serving(project) as daemon:
        where = at(daemon, over_http)
        ended = dead_letters(
            project, "discard", alert_id, "f" * 32, f"{1:032x}", "--note", "a test", *where
        )
        assert ended.code == 1
        assert ended.out.splitlines()[0] == f"{alert_id}: discarded"
        assert "no such dead letter" in ended.out.splitlines()[1]
        assert ended.out.splitlines()[2] == f"{1:032x}: discarded"
        counted = ledger(project)
        assert (counted["discarded"], counted["dead_lettered"]) == (2, 0)


def test_who_does_it_is_kept(project: Path) -> None:
    lay(project, [letter(1), letter(2)])
    assert dead_letters(project, "discard", f"{1:032x}", "--by", "ann").code == 0
    assert dead_letters(project, "discard", f"{2:032x}", "--note", "a test").code == 0
    database = sqlite3.connect(project / "data" / "triage.db")
    rows = database.execute("SELECT raw FROM events WHERE event = 'discarded' ORDER BY id")
    kept = [orjson.loads(raw) for (raw,) in rows]
    database.close()
    assert [(one["by"], one["note"]) for one in kept] == [
        ("ann", ""),
        (getpass.getuser(), "a test"),
    ]


# --- who may, and strangers -----------------------------------------------------------------------


def test_changing_over_http_takes_the_scope_for_it(project: Path) -> None:
    toml = TOML
    for name, scope in (("reader", "read"), ("boss", "admin")):
        toml += f'[[http.tokens]]\nname = "{name}"\nenv = "{name.upper()}"\nscopes = ["{scope}"]\n'
    (project / "triage.toml").write_text(toml)
    lay(project, [letter(1)])
    env = {"READER": "right", "BOSS": "other"}
    with serving(project, env) as daemon:
        args = (f"{1:032x}", "--url", daemon.url, "--token-env")
        for command in ("redrive", "discard"):
            ended = dead_letters(project, command, *args, "READER", env=env)
            assert ended.code == 78
            assert "give a token that may change things" in ended.err
        assert dead_letters(project, "discard", *args, "BOSS", env=env).code == 0
        assert "right" not in daemon.log.read_text()


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"[]"), (404, b"nginx"), (422, b"?")]
)
async def test_another_server_behind_the_url(tmp_path: Path, status: int, body: bytes) -> None:
    async with ScriptedServer(reply(status, body)) as server:
        for command in ("list", "show", "redrive", "discard"):
            args = (command, *(["a" * 32] if command != "list" else []), "--url", server.url)
            ended = await asyncio.to_thread(dead_letters, tmp_path, *args)
            assert ended.code == 69
            assert "does not answer like triage" in ended.err


async def test_a_dead_letter_of_another_shape_is_told(tmp_path: Path) -> None:
    body = b'{"dead_letter_id": "x", "dead_letters": [{}], "cursor": ""}'
    async with ScriptedServer(reply(200, body)) as server:
        for command in ("list", f"show {'a' * 32}", f"show {'a' * 32} --payload"):
            args = (*command.split(), "--url", server.url)
            ended = await asyncio.to_thread(dead_letters, tmp_path, *args)
            assert ended.code == 69
            assert "use --json" in ended.err


def test_a_reader_that_goes_away_is_no_fault(project: Path) -> None:
    lay(project, [letter(1, b"x" * 1_000_000)])
    done = subprocess.run(  # noqa: S603 - the argv is made here
        [
            "/bin/sh",
            "-c",
            f"{sys.executable} -m triage dead-letters show {1:032x} --payload | head -c1",
        ],
        cwd=project,
        env=environment(),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"x", b"")
