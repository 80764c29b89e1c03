"""`triage check --connect`: the store, queue and streams, and the fallback's endpoint."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from bench.nats_server import NatsServer
from bench.redis_server import RedisServer
from tests.command_line import TOML, Ended, make_project, triage
from tests.postgres import PostgresServer, running_postgres
from tests.scripted_server import Script, ScriptedServer, hang, reply
from tests.servers import HOST, free_port

KEY = "sk-a-key-that-nobody-sees"
PASSWORD = "s3cret-Pass"  # noqa: S105 - of a database that lives for one test
PATIENT = ("--timeout", "60")  # seconds: what a loaded machine takes is no finding
MODELS = orjson.dumps({"data": [{"id": "small"}, {"id": "large"}]})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("made"))


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


def connect(folder: Path, more: str = "", env: dict[str, str] | None = None) -> Ended:
    (folder / "triage.toml").write_text(more + TOML)
    return triage("check", "--connect", "--json", *PATIENT, cwd=folder, env=env)


def server(ended: Ended, where: str) -> dict[str, Any]:
    (found,) = [one for one in ended.json["servers"] if one["where"] == where]
    return dict(found)


def findings(ended: Ended, where: str) -> list[tuple[str, str, str]]:
    """Severity, problem and fix of each that is about `where`."""
    return [
        (one["severity"], one["problem"], one["fix"])
        for one in ended.json["findings"]
        if one["where"] == where
    ]


# --- the store ------------------------------------------------------------------------------------


def test_a_store_that_is_not_there_yet_is_not_made(project: Path) -> None:
    ended = connect(project)
    assert ended.code == 0
    assert server(ended, "store")["state"] == "no file yet: triage serve makes it"
    assert not (project / "data").exists()
    assert [one["where"] for one in ended.json["servers"]] == ["store"]
    assert triage("db", "upgrade", cwd=project).code == 0
    again = connect(project)
    assert (again.code, findings(again, "store")) == (0, [])
    assert server(again, "store")["state"].startswith("schema ")
    people = triage("check", "--connect", *PATIENT, cwd=project)
    assert f"store   {project / 'data' / 'triage.db'}" in people.out


def test_a_store_of_another_time_or_program_is_an_error(project: Path) -> None:
    (project / "data").mkdir()
    (project / "data" / "triage.db").write_bytes(b"no database, this" * 100)
    ended = connect(project)
    assert ended.code == 1
    ((severity, problem, _),) = findings(ended, "store")
    assert severity == "error"
    assert "file is not a database" in problem


def test_an_older_postgresql_that_does_not_sync(project: Path, postgres: PostgresServer) -> None:
    """The test's own server runs with fsync off, to be fast."""
    postgres.execute("DROP DATABASE IF EXISTS kept")
    postgres.execute("CREATE DATABASE kept")
    url = f"postgresql://postgres:{PASSWORD}@{HOST}:{postgres.port}/kept"
    env = {"STORE_URL": url}
    toml = '[store]\nurl_env = "STORE_URL"\n'
    fresh = connect(project, toml, env)
    assert (fresh.code, fresh.err) == (0, "")
    assert server(fresh, "store")["state"] == "no tables yet: triage serve makes them"
    ((severity, problem, _),) = findings(fresh, "store")
    assert severity == "warning"
    assert "fsync = off" in problem
    assert triage("db", "upgrade", cwd=project, env=env).code == 0
    current = connect(project, toml, env)
    assert server(current, "store")["state"].startswith("schema ")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
    old = connect(project, toml, env)
    assert old.code == 1
    errors = [one for one in findings(old, "store") if one[0] == "error"]
    assert "has schema 0003, and this version needs" in errors[0][1]
    assert "triage db upgrade" in errors[0][2]
    for ended in (fresh, current, old):
        assert PASSWORD not in ended.out + ended.err


def test_a_postgresql_that_is_away_or_silent(project: Path) -> None:
    env = {"STORE_URL": f"postgresql://u:{PASSWORD}@127.0.0.1:{free_port()}/kept"}
    ended = connect(project, '[store]\nurl_env = "STORE_URL"\n', env)
    assert ended.code == 1
    ((severity, problem, _),) = findings(ended, "store")
    assert severity == "error"
    assert "cannot be read" in problem
    assert PASSWORD not in ended.out + ended.err


# --- queue and streams ----------------------------------------------------------------------------

QUEUE = '[queue]\nurl_env = "QUEUE_URL"\n'
STREAM = '[streams.orders]\nurl_env = "QUEUE_URL"\nstream = "orders"\n'


def test_a_redis_that_is_away_is_an_error_for_each(project: Path) -> None:
    env = {"QUEUE_URL": f"redis://u:{PASSWORD}@127.0.0.1:{free_port()}/0"}
    ended = connect(project, QUEUE + STREAM, env)
    assert ended.code == 1
    for where in ("queue", "streams.orders"):
        ((severity, problem, fix),) = findings(ended, where)
        assert severity == "error"
        assert problem
        assert fix
        assert server(ended, where)["state"] == ""
    assert PASSWORD not in ended.out + ended.err


def test_a_redis_that_forgets_is_warned_of(project: Path, tmp_path: Path) -> None:
    flags = ("--appendonly", "no", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
    with RedisServer(tmp_path / "redis", flags=flags) as redis:
        ended = connect(project, QUEUE + STREAM, {"QUEUE_URL": redis.url})
    assert (ended.code, ended.err) == (0, "")
    for where in ("queue", "streams.orders"):
        assert server(ended, where)["state"] == "answers"
        found = findings(ended, where)
        assert {severity for severity, _, _ in found} == {"warning"}
        assert any("appendonly is no" in problem for _, problem, _ in found)
        assert any("allkeys-lru" in problem for _, problem, _ in found)
        assert [problem for _, problem, _ in found] == server(ended, where)["weaknesses"]


def test_a_redis_that_keeps_everything_is_not(project: Path, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis:
        ended = connect(project, QUEUE + STREAM, {"QUEUE_URL": redis.url})
        env = {"QUEUE_URL": redis.url}
        people = triage("check", "--connect", *PATIENT, cwd=project, env=env)
    assert (ended.code, findings(ended, "queue"), findings(ended, "streams.orders")) == (0, [], [])
    assert "queue           redis://" in people.out
    assert "streams.orders  redis://" in people.out


def test_a_redis_that_hangs_is_given_up(project: Path, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis:
        redis.pause()
        (project / "triage.toml").write_text(QUEUE + TOML)
        ended = triage(
            "check", "--connect", "--json", "--timeout", "0.5", cwd=project,
            env={"QUEUE_URL": redis.url},
        )  # fmt: skip
        redis.resume()
    assert ended.code == 1
    ((severity, problem, _),) = findings(ended, "queue")
    assert severity == "error"
    assert problem


def test_a_jetstream_without_sync_is_warned_of(project: Path, tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as nats:
        ended = connect(project, QUEUE, {"QUEUE_URL": nats.url})
    assert (ended.code, ended.err) == (0, "")
    ((severity, problem, _),) = findings(ended, "queue")
    assert severity == "warning"
    assert "sync" in problem


# --- the fallback ---------------------------------------------------------------------------------


async def asked(project: Path, script: Script, *, model: str = "small") -> tuple[Ended, str]:
    """What became of it, and the path that was asked for."""
    async with ScriptedServer(script) as endpoint:
        toml = (
            f'[fallback]\nllm_url = "{endpoint.url}/v1"\nmodel = "{model}"\napi_key_env = "KEY"\n'
        )
        ended = await asyncio.to_thread(connect, project, toml, {"KEY": KEY})
        (request,) = endpoint.requests
        assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in ended.out + ended.err
    return ended, request.target


async def test_an_endpoint_with_the_model_is_fine(project: Path) -> None:
    ended, target = await asked(project, reply(200, MODELS))
    assert (ended.code, findings(ended, "fallback"), target) == (0, [], "/v1/models")
    assert server(ended, "fallback")["state"] == "model small"


async def test_an_endpoint_without_a_list_is_tolerated(project: Path) -> None:
    ended, _ = await asked(project, reply(404, b"not found"))
    assert (ended.code, findings(ended, "fallback")) == (0, [])
    assert "lists no models" in server(ended, "fallback")["state"]


@pytest.mark.parametrize(
    ("status", "body", "said", "fix"),
    [
        (
            401,
            f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode(),
            "refuses the key",
            "api_key",
        ),
        (403, b"", "refuses the key", "api_key"),
        (500, b"oops \x1b[31m", "answered 500", "llm_url"),
        (302, b"", "answered 302", "llm_url"),
        (200, b"<html>", "unlike an OpenAI-compatible API", "llm_url"),
        (200, b'{"data": 7}', "unlike an OpenAI-compatible API", "llm_url"),
        (200, orjson.dumps({"data": [{"id": "large\x1b[2J"}]}), "no model 'small'", "large"),
    ],
)
async def test_what_is_wrong_with_it_is_named(
    project: Path, status: int, body: bytes, said: str, fix: str
) -> None:
    ended, _ = await asked(project, reply(status, body))
    assert ended.code == 1
    ((severity, problem, cure),) = findings(ended, "fallback")
    assert severity == "error"
    assert said in problem
    assert fix in cure
    assert "\x1b" not in problem + cure


def test_an_endpoint_that_refuses_connections(project: Path) -> None:
    toml = f'[fallback]\nllm_url = "http://127.0.0.1:{free_port()}/v1"\nmodel = "small"\n'
    ended = connect(project, toml)
    assert ended.code == 1
    ((_, problem, fix),) = findings(ended, "fallback")
    assert "cannot be asked" in problem
    assert "is it running" in fix


async def test_an_endpoint_that_hangs_is_given_up(project: Path) -> None:
    async with ScriptedServer(hang()) as endpoint:
        toml = f'[fallback]\nllm_url = "{endpoint.url}/v1"\nmodel = "small"\n'
        (project / "triage.toml").write_text(toml + TOML)
        args = ("check", "--connect", "--json", "--timeout", "0.3")
        ended = await asyncio.to_thread(lambda: triage(*args, cwd=project))
    assert ended.code == 1
    ((_, problem, _),) = findings(ended, "fallback")
    assert "did not answer in 0.3 s" in problem


def test_a_certificate_file_that_is_none(project: Path) -> None:
    (project / "ca.pem").write_text("no certificate")
    toml = '[fallback]\nllm_url = "https://127.0.0.1:9/v1"\nmodel = "small"\nca_file = "ca.pem"\n'
    ended = connect(project, toml)
    assert ended.code == 1
    assert findings(ended, "fallback")


def test_without_connect_nobody_is_asked(project: Path) -> None:
    toml = f'[queue]\nurl = "redis://127.0.0.1:{free_port()}/0"\n'
    (project / "triage.toml").write_text(toml + TOML)
    ended = triage("check", "--json", cwd=project)
    assert (ended.code, ended.json["servers"]) == (0, [])
