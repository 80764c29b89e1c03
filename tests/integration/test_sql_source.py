"""The SQL source against a real SQLite file and a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import gc
import socket
import sqlite3
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres import PostgresServer, running_postgres
from triage.adapters.sql import SqlSource
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Samples, decode_answer, encode_answer
from triage.tool_api import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

LONG_S = 30.0  # for what must succeed: no assertion depends on how soon
SHORT_S = 0.3  # for what never answers

RUNAWAY = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


async def ask(source: SqlSource, sql: str, *, timeout_s: float = LONG_S, **params: Any) -> Any:
    answer = await source.ask(rows("tables", sql, **params), timeout_s=timeout_s)
    # Every answer of this module is what a replay would see.
    assert decode_answer(encode_answer(answer)) == answer
    return answer


async def rejected(source: SqlSource, sql: str, **params: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await ask(source, sql, **params)
    assert caught.value.failure is ToolFailure.QUERY_REJECTED
    assert caught.value.__cause__ is None
    return caught.value.detail


async def failed(source: SqlSource, sql: str, *, timeout_s: float = LONG_S) -> SourceFailure:
    with pytest.raises(SourceFailed) as caught:
        await ask(source, sql, timeout_s=timeout_s)
    return caught.value.failure


# --- SQLite -----------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "floor 1%.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE t (id INTEGER, name TEXT, at TEXT, share REAL, raw BLOB);"
        "INSERT INTO t VALUES (1, 'a', '2026-03-29T02:30:00', 0.5, NULL),"
        " (2, 'b', NULL, 1e999, x'00');"
    )
    connection.close()
    return path


@pytest.fixture
async def table(database: Path) -> AsyncIterator[SqlSource]:
    source = SqlSource("tables", f"sqlite:///{database}")
    await source.open()
    yield source
    await source.close()


async def test_sqlite_values_and_order(table: SqlSource) -> None:
    assert await ask(table, "SELECT id, name, at, share FROM t ORDER BY id DESC") == (
        {"id": 2, "name": "b", "at": None, "share": "Infinity"},
        {"id": 1, "name": "a", "at": "2026-03-29T02:30:00", "share": 0.5},
    )


async def test_sqlite_empty_is_an_answer(table: SqlSource) -> None:
    assert await ask(table, "SELECT * FROM t WHERE id > :least", least=99) == ()


async def test_sqlite_columns_come_in_the_order_a_replay_has(table: SqlSource) -> None:
    answer = await ask(table, "SELECT name, id FROM t")
    assert list(answer[0]) == list(decode_answer(encode_answer(answer))[0])


async def test_sqlite_parameters_are_data(table: SqlSource) -> None:
    assert await ask(table, "SELECT id FROM t WHERE name = :name", name="a' OR '1'='1") == ()
    assert "no value for :name" in await rejected(table, "SELECT id FROM t WHERE name = :name")
    assert "no :other" in await rejected(table, "SELECT id FROM t", other=1)
    assert await ask(table, r"SELECT '12:30' AS a, ' \:x' AS b") == ({"a": "12:30", "b": " :x"},)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("INSERT INTO t (id) VALUES (3)", "only reads"),
        ("DELETE FROM t", "only reads"),
        ("CREATE TABLE u (id)", "only reads"),
        ("PRAGMA query_only = OFF", "only reads"),
        ("PRAGMA read_uncommitted = 1", "only reads"),
        ("ATTACH 'other.db' AS other", "only reads"),
        ("BEGIN", "only reads"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT nothing FROM t", "nothing"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELEC 1", "SELEC"),
        ("", "no table"),
        ("SELECT id, name AS id FROM t", "two columns are called 'id'"),
        ("SELECT raw FROM t WHERE id = 2", "'raw'"),
        ("SELECT CAST(x'ff' AS TEXT) AS broken", "broken"),
    ],
)
async def test_sqlite_refuses(table: SqlSource, database: Path, sql: str, told: str) -> None:
    before = _dump(database)
    assert told in await rejected(table, sql)
    assert _dump(database) == before
    assert len(await ask(table, "SELECT id FROM t")) == 2


def _dump(database: Path) -> bytes:
    return database.read_bytes()


async def test_sqlite_integers_that_do_not_fit(table: SqlSource) -> None:
    assert "parameter" in await rejected(table, "SELECT :n AS n", n=2**70)
    assert await ask(table, "SELECT :n AS n", n=2**63 - 1) == ({"n": 2**63 - 1},)


async def test_another_kind_of_query_is_the_tools_fault(table: SqlSource) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ToolFailed, match="rows"):
        await table.ask(Samples("tables", "up", moment, moment), timeout_s=LONG_S)


async def test_sqlite_stops_a_runaway_query(database: Path) -> None:
    source = SqlSource("tables", f"sqlite:///{database}", pool_size=1)
    await source.open()
    try:
        assert await failed(source, RUNAWAY, timeout_s=SHORT_S) is SourceFailure.TIMEOUT
        # The pool's only connection answers again, so its thread is free.
        assert len(await ask(source, "SELECT id FROM t")) == 2
    finally:
        await source.close()


async def test_sqlite_cancelled_query_leaves_the_source_usable(database: Path) -> None:
    before = set(threading.enumerate())
    source = SqlSource("tables", f"sqlite:///{database}", pool_size=1)
    await source.open()
    try:
        await ask(source, "SELECT 1 AS a")
        running = asyncio.ensure_future(ask(source, RUNAWAY))
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(await ask(source, "SELECT id FROM t")) == 2
    finally:
        await source.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(LONG_S)
        assert not thread.is_alive()


async def test_sqlite_bounds(database: Path) -> None:
    source = SqlSource("tables", f"sqlite:///{database}", max_rows=3, max_bytes=200)
    await source.open()
    numbers = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT :many) "
        "SELECT n FROM r"
    )
    try:
        assert len(await ask(source, numbers, many=3)) == 3
        # Endless: only a source that stops reading can answer at all.
        for sql, params in (
            (numbers, {"many": 4}),
            (numbers, {"many": -1}),
            ("SELECT printf('%.*c', 500, 'x') AS wide", {}),
        ):
            with pytest.raises(ToolFailed) as caught:
                await ask(source, sql, **params)
            assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
        assert await ask(source, "SELECT 1 AS a") == ({"a": 1},)
    finally:
        await source.close()


async def test_sqlite_locked_is_the_servers_fault(table: SqlSource, database: Path) -> None:
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        assert await failed(table, "SELECT * FROM t") is SourceFailure.SERVER_ERROR
    finally:
        writer.execute("ROLLBACK")
        writer.close()
    assert len(await ask(table, "SELECT id FROM t")) == 2


async def test_sqlite_file_that_comes_later_and_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "late.db"
    source = SqlSource("tables", f"sqlite:///{path}")
    await source.open()

    def write(target: Path, value: int) -> None:
        connection = sqlite3.connect(target)
        connection.execute("CREATE TABLE t (v)")
        connection.execute("INSERT INTO t VALUES (?)", (value,))
        connection.commit()
        connection.close()

    try:
        assert await failed(source, "SELECT v FROM t") is SourceFailure.CONNECT
        write(path, 1)
        assert await ask(source, "SELECT v FROM t") == ({"v": 1},)
        write(tmp_path / "new.db", 2)
        (tmp_path / "new.db").replace(path)
        assert await ask(source, "SELECT v FROM t") == ({"v": 2},)
        path.write_bytes(b"this is no database " * 100)
        assert await failed(source, "SELECT v FROM t") is SourceFailure.SERVER_ERROR
    finally:
        await source.close()


async def test_twenty_at_once_on_five_connections(table: SqlSource) -> None:
    answers = await asyncio.gather(*(ask(table, "SELECT :n AS n", n=n) for n in range(20)))
    assert answers == [({"n": n},) for n in range(20)]


async def test_close_without_open_twice_and_ask_after(database: Path) -> None:
    source = SqlSource("tables", f"sqlite:///{database}")
    await source.close()
    assert await failed(source, "SELECT 1 AS a") is SourceFailure.CONNECT
    await source.open()
    assert await ask(source, "SELECT 1 AS a") == ({"a": 1},)
    assert (await source.probe(LONG_S)).startswith("SQLite 3.")
    await source.close()
    await source.close()
    assert await failed(source, "SELECT 1 AS a") is SourceFailure.CONNECT
    gc.collect()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=rw",
        "mysql://u:hunter2@h/d",
        "hunter2",
    ],
)
async def test_urls_that_only_a_person_can_mend(url: str) -> None:
    source = SqlSource("tables", url)
    with pytest.raises(ConfigError) as caught:
        await source.open()
    assert "tables" in str(caught.value)
    assert "hunter2" not in f"{caught.value!s}{caught.value!r}{source!r}"


# --- PostgreSQL -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        server.execute(
            "CREATE TABLE t (id int, name text, at timestamptz, local timestamp);"
            "INSERT INTO t VALUES (1, 'a', '2026-01-01 00:00:00+01', '2026-03-29 02:30:00')"
        )
        yield server


@pytest.fixture
async def tables(server: PostgresServer) -> AsyncIterator[SqlSource]:
    source = SqlSource("tables", server.url)
    await source.open()
    yield source
    await source.close()


async def test_postgres_times(tables: SqlSource) -> None:
    expected = (
        {
            "id": 1,
            "name": "a",
            "at": "2025-12-31T23:00:00+00:00",
            "local": "2026-03-29T02:30:00",
        },
    )
    assert await ask(tables, "SELECT * FROM t") == expected
    for sql in (
        "SELECT * FROM t WHERE at = CAST(:at AS timestamptz)",
        "SELECT * FROM t WHERE at = :at::timestamptz",
        "SELECT * FROM t WHERE at = :at",
    ):
        for at in ("2025-12-31T23:00:00Z", "2026-01-01T00:00:00+01:00"):
            assert await ask(tables, sql, at=at) == expected
        assert await ask(tables, sql, at="2025-12-31T23:00:01Z") == ()
    # Without an offset it is UTC, whatever the server's own zone.
    assert await ask(tables, "SELECT id FROM t WHERE at = :at", at="2025-12-31T23:00:00")
    assert await ask(tables, "SELECT id FROM t WHERE local = :at", at="2026-03-29T02:30:00")
    assert "timestamp" in await rejected(tables, "SELECT id FROM t WHERE at = :at", at="soon")


async def test_postgres_values(tables: SqlSource) -> None:
    [row] = await ask(
        tables,
        "SELECT 'NaN'::float8 AS nan, '-Infinity'::numeric AS least, 1.10::numeric AS price,"
        " 12345678901234567890123::numeric AS large, true AS yes, NULL AS nothing,"
        " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS id, '10.0.0.0/8'::cidr AS net,"
        """ '{"b": [1.5, null], "a": "x"}'::jsonb AS doc, '[1]'::json AS list,"""
        " ARRAY[1, 2] AS many, ARRAY['2026-01-01Z'::timestamptz] AS moments,"
        " 'infinity'::timestamptz AS ever, '2026-01-02'::date AS day, '12:30'::time AS clock,"
        """ '90 min'::interval AS span, '{"k": 1}'::jsonb ? 'k' AS has, 0.1::float4 AS small""",
    )
    assert row == {
        "nan": "NaN",
        "least": "-Infinity",
        "price": 1.1,
        "large": 1.2345678901234568e22,
        "yes": True,
        "nothing": None,
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "net": "10.0.0.0/8",
        "doc": {"a": "x", "b": [1.5, None]},
        "list": [1],
        "many": [1, 2],
        "moments": ["2026-01-01T00:00:00+00:00"],
        "ever": "infinity",
        "day": "2026-01-02",
        "clock": "12:30:00",
        "span": "PT1H30M",
        "has": True,
        "small": pytest.approx(0.1),
    }


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("INSERT INTO t (id) VALUES (2)", "read-only"),
        ("INSERT INTO t (id) VALUES (2) RETURNING id", "read-only"),
        ("WITH w AS (DELETE FROM t RETURNING id) SELECT * FROM w", "read-only"),
        ("CREATE TABLE u (id int)", "read-only"),
        ("SELECT nextval('n')", "read-only"),
        ("SELECT set_config('transaction_read_only', 'off', false)", "read-write"),
        ("SET TRANSACTION READ WRITE", "only reads"),
        ("SET default_transaction_read_only = off", "only reads"),
        ("SELECT set_config('default_transaction_read_only', 'off', false), 1 / 0", "zero"),
        ("COMMIT", "transaction"),
        ("ROLLBACK", "transaction"),
        ("SELECT 1; SELECT 2", "multiple commands"),
        ("SELECT nothing FROM t", "nothing"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELEC 1", "SELEC"),
        ("SELECT 1 / 0 AS a", "zero"),
        ("SELECT 1 AS a, 2 AS a", "two columns are called 'a'"),
        ("SELECT 'x'::bytea AS raw", "'raw'"),
        ("SELECT int4range(1, 2) AS span", "'span'"),
        ("", "no table"),
    ],
)
async def test_postgres_refuses(
    tables: SqlSource, server: PostgresServer, sql: str, told: str
) -> None:
    server.execute("CREATE SEQUENCE IF NOT EXISTS n")
    assert told in await rejected(tables, sql)
    # The same connection, and nothing of the attempt is left on it.
    assert "read-only" in await rejected(tables, "INSERT INTO t (id) VALUES (3) RETURNING id")
    assert server.execute("SELECT count(*) FROM t") == "1"
    assert await ask(tables, "SHOW TimeZone") == ({"TimeZone": "UTC"},)


async def test_postgres_settings_do_not_outlive_their_query(tables: SqlSource) -> None:
    await ask(tables, "SELECT set_config('default_transaction_read_only', 'off', false) AS a")
    assert "read-only" in await rejected(tables, "INSERT INTO t (id) VALUES (3)")


async def test_postgres_parameters_of_the_wrong_type(tables: SqlSource) -> None:
    assert "argument $1" in await rejected(tables, "SELECT * FROM t WHERE id = :id", id="one")
    assert await ask(tables, "SELECT name FROM t WHERE id = :id", id=1) == ({"name": "a"},)


async def test_postgres_time_limit_ends_the_query_in_the_server(
    server: PostgresServer,
) -> None:
    source = SqlSource("tables", server.url, pool_size=1)
    await source.open()
    try:
        sql = "SELECT pg_sleep(3600)::text AS slept"
        assert await failed(source, sql, timeout_s=SHORT_S) is SourceFailure.TIMEOUT
        assert await ask(source, "SELECT 1 AS a") == ({"a": 1},)
        assert server.execute(_running("count(*)", "pg_sleep(3600)")) == "0"
    finally:
        await source.close()


async def test_postgres_pool_exhausted_is_a_timeout(server: PostgresServer) -> None:
    source = SqlSource("tables", server.url, pool_size=1)
    await source.open()
    try:
        await ask(source, "SELECT 1 AS a")
        slow = asyncio.ensure_future(
            ask(source, "SELECT pg_sleep(3600)::text AS slept", timeout_s=LONG_S)
        )
        await _until_running(server, "pg_sleep(3600)")
        assert await failed(source, "SELECT 1 AS a", timeout_s=SHORT_S) is SourceFailure.TIMEOUT
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await ask(source, "SELECT 1 AS a") == ({"a": 1},)
    finally:
        await source.close()


def _running(what: str, text: str) -> str:
    return (
        f"SELECT {what} FROM pg_stat_activity WHERE state = 'active'"  # noqa: S608 - test data
        f" AND query LIKE '%{text}%' AND pid <> pg_backend_pid()"
    )


async def _until_running(server: PostgresServer, text: str) -> None:
    """Until the server runs the query: each look is a process of its own, so no wait is needed."""
    look = _running("count(*)", text)
    for _ in range(1000):
        if await asyncio.to_thread(server.execute, look) != "0":
            return
    pytest.fail(f"{text} never ran")


async def test_postgres_session_killed_mid_query(tables: SqlSource, server: PostgresServer) -> None:
    slow = asyncio.ensure_future(failed(tables, "SELECT pg_sleep(3601)::text AS slept"))
    await _until_running(server, "pg_sleep(3601)")
    server.execute(_running("pg_terminate_backend(pid)", "pg_sleep(3601)"))
    assert await slow is SourceFailure.CONNECT
    assert await ask(tables, "SELECT 1 AS a") == ({"a": 1},)


async def test_postgres_bounds(server: PostgresServer) -> None:
    source = SqlSource("tables", server.url, max_rows=1000, max_bytes=20_000)
    await source.open()
    try:
        assert len(await ask(source, "SELECT generate_series(1, 1000) AS n")) == 1000
        for sql in (
            "SELECT generate_series(1, 1001) AS n",
            # A tenth of these would take the whole time: they are not all read.
            "SELECT generate_series(1, 1000000000) AS n",
            "SELECT repeat('x', 1000) AS wide FROM generate_series(1, 100)",
        ):
            with pytest.raises(ToolFailed) as caught:
                await ask(source, sql)
            assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
        assert await ask(source, "SELECT 1 AS a") == ({"a": 1},)
    finally:
        await source.close()


async def test_postgres_twenty_at_once_on_five_connections(
    tables: SqlSource, server: PostgresServer
) -> None:
    sql = "SELECT CAST(:n AS int) AS n"
    answers = await asyncio.gather(*(ask(tables, sql, n=n) for n in range(20)))
    assert answers == [({"n": n},) for n in range(20)]
    held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'triage'"
    assert 1 <= int(server.execute(held)) <= 5


async def test_postgres_changed_table_is_read_anew(
    tables: SqlSource, server: PostgresServer
) -> None:
    server.execute("CREATE TABLE shape (a int); INSERT INTO shape VALUES (1)")
    assert await ask(tables, "SELECT * FROM shape") == ({"a": 1},)
    server.execute("ALTER TABLE shape ALTER a TYPE text")
    try:
        assert await failed(tables, "SELECT * FROM shape") is SourceFailure.SERVER_ERROR
        assert await ask(tables, "SELECT * FROM shape") == ({"a": "1"},)
    finally:
        server.execute("DROP TABLE shape")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_postgres_restart(server: PostgresServer, mode: str) -> None:
    source = SqlSource("tables", server.url, pool_size=3)
    await source.open()
    try:
        sql = "SELECT CAST(:n AS int) AS n"
        await asyncio.gather(*(ask(source, sql, n=n) for n in range(3)))
        await asyncio.to_thread(server.stop, mode)
        try:
            assert await failed(source, "SELECT 1 AS a") is SourceFailure.CONNECT
            assert await failed(source, "SELECT 1 AS a") is SourceFailure.CONNECT
        finally:
            await asyncio.to_thread(server.start)
        answers = await asyncio.gather(*(ask(source, sql, n=n) for n in range(3)))
        assert answers == [({"n": n},) for n in range(3)]
    finally:
        await source.close()


async def test_postgres_unseen_restart_costs_one_retry(server: PostgresServer) -> None:
    source = SqlSource("tables", server.url, pool_size=3)
    await source.open()
    try:
        sql = "SELECT CAST(:n AS int) AS n"
        await asyncio.gather(*(ask(source, sql, n=n) for n in range(3)))
        # Blocking, so that the loop has not heard of the closed sockets when the ask begins.
        server.stop("immediate")
        server.start()
        assert await failed(source, "SELECT 1 AS a") is SourceFailure.CONNECT
        assert await ask(source, "SELECT 1 AS a") == ({"a": 1},)
    finally:
        await source.close()


async def test_postgres_refused_and_unknown_database(server: PostgresServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"postgresql://u:hunter2@127.0.0.1:{taken.getsockname()[1]}/d"
        for url in (
            nobody,
            server.url.replace("/postgres", "/missing"),
            f"{server.url}?sslmode=require",
        ):
            source = SqlSource("tables", url)
            await source.open()
            with pytest.raises(SourceFailed) as caught:
                await ask(source, "SELECT 1 AS a")
            await source.close()
            assert caught.value.failure is SourceFailure.CONNECT
            assert "hunter2" not in f"{caught.value!s}{caught.value!r}{source!r}"


async def test_postgres_silent_server_is_a_timeout() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        source = SqlSource("tables", f"postgresql://u@127.0.0.1:{mute.getsockname()[1]}/d")
        await source.open()
        assert await failed(source, "SELECT 1 AS a", timeout_s=SHORT_S) is SourceFailure.TIMEOUT
        await source.close()


async def test_postgres_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match="surprise"):
        await SqlSource("tables", "postgresql://u@h/d?surprise=1").open()


async def test_postgres_close_leaves_nobody_connected(server: PostgresServer) -> None:
    source = SqlSource("tables", server.url)
    await source.open()
    assert (await source.probe(LONG_S)).startswith("PostgreSQL ")
    waiting = asyncio.ensure_future(failed(source, "SELECT pg_sleep(3602)::text AS slept"))
    await _until_running(server, "pg_sleep(3602)")
    await source.close()
    assert await waiting is SourceFailure.CONNECT
    # The server notices a closed socket by itself; a second `execute` starts after it did.
    held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'triage'"
    for _ in range(100):
        if server.execute(held) == "0":
            break
    else:
        pytest.fail("a connection outlived its source")
