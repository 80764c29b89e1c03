"""`triage db`: what an older store is told, and how it becomes a newer one."""

from __future__ import annotations

import shutil
import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import ALERT, TOML, Ended, make_project, serving, triage
from tests.postgres import PostgresServer, running_postgres
from tests.servers import free_port
from triage.adapters.store import migrate

PASSWORD = "s3cret-Pass"  # noqa: S105 - of a database that lives for one test
NEWEST = migrate.REVISIONS[-1]


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


def db(folder: Path, *args: str, env: dict[str, str] | None = None) -> Ended:
    return triage("db", *args, cwd=folder, env=env)


def older(folder: Path, revision: str) -> Path:
    """The project's database as a version of before left it."""
    path = folder / "data" / "triage.db"
    path.parent.mkdir()
    _down_to(path, revision)
    return path


def _down_to(path: Path, revision: str) -> None:
    """Through the migrations themselves, up to that one."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine

    config = Config()
    folder = Path(migrate.__file__).with_name("migrations")
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def version(path: Path) -> Any:
    database = sqlite3.connect(path)
    try:
        return database.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    finally:
        database.close()


# --- refusals first -------------------------------------------------------------------------------


def test_a_file_that_is_no_store_is_left_alone(project: Path) -> None:
    path = project / "data" / "triage.db"
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (name text)")
    other.close()
    before = path.read_bytes()
    for command in ("status", "upgrade"):
        ended = db(project, command)
        assert ended.code == 78
        assert "is a database of another program" in ended.err
    assert path.read_bytes() == before


def test_a_newer_store_is_refused(project: Path) -> None:
    assert db(project, "upgrade").code == 0
    path = project / "data" / "triage.db"
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    for command in ("status", "upgrade"):
        ended = db(project, command)
        assert ended.code == 78
        assert "has schema 9999, newer than" in ended.err
    assert version(path) == "9999"


def test_a_file_that_is_served_from_is_not_touched(project: Path) -> None:
    with serving(project) as daemon:
        assert daemon.process is not None
        ended = db(project, "upgrade")
        assert ended.code == 78
        assert f"is in use by process {daemon.process.pid}" in ended.err
        assert db(project, "status").code == 0


def test_a_configuration_that_is_none(project: Path) -> None:
    (project / "triage.toml").write_text(TOML + "frob = 1\n")
    for command in ("status", "upgrade"):
        ended = db(project, command)
        assert ended.code == 78
        assert "there is no such key" in ended.err


# --- SQLite ---------------------------------------------------------------------------------------


def test_tables_are_made_once(project: Path) -> None:
    nothing = db(project, "status", "--json")
    assert (nothing.code, nothing.err) == (1, "")
    assert (nothing.json["revision"], nothing.json["up_to_date"]) == (None, False)
    assert not (project / "data").exists(), "looking makes nothing"
    first = db(project, "upgrade")
    assert (first.code, first.err) == (0, "")
    assert first.out.endswith(f": tables made, revision {NEWEST}\n")
    assert str(project / "data" / "triage.db") in first.out
    again = db(project, "upgrade")
    assert (again.code, again.err) == (0, "")
    assert again.out.endswith(f": revision {NEWEST}, nothing to do\n")
    assert db(project, "status").out.endswith(f": revision {NEWEST}, up to date\n")


@pytest.mark.parametrize("revision", migrate.REVISIONS[:-1])
def test_an_older_store_is_refused_and_then_upgraded(project: Path, revision: str) -> None:
    path = older(project, revision)
    told = db(project, "status")
    assert told.code == 1
    assert f"revision {revision}, and this version needs {NEWEST}" in told.out
    refused = triage("serve", "--listen", f"127.0.0.1:{free_port()}", cwd=project)
    assert refused.code == 78
    assert "run: triage db upgrade" in refused.err
    assert version(path) == revision
    done = db(project, "upgrade", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["from"], done.json["to"]) == (revision, NEWEST)
    with serving(project):
        assert triage("ledger", "--full", cwd=project).code == 0


def test_a_copy_made_beside_a_daemon_is_a_whole_store(project: Path, tmp_path: Path) -> None:
    """As docs/operations.md says to make one."""
    copy = tmp_path / "copy" / "triage.db"
    copy.parent.mkdir()
    with serving(project) as daemon:
        request = urllib.request.Request(  # noqa: S310 - our own local URL
            f"{daemon.url}/api/v1/alerts", data=orjson.dumps(ALERT)
        )
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
            assert response.status == 202
        database = sqlite3.connect(project / "data" / "triage.db")
        database.execute("VACUUM INTO ?", (str(copy),))
        database.close()
    env = {"TRIAGE_STORE__URL": f"sqlite:///{copy}"}
    counted = triage("ledger", "--full", "--json", cwd=project, env=env)
    assert (counted.code, counted.json["accepted"]) == (0, 1)


# --- PostgreSQL -----------------------------------------------------------------------------------


@pytest.fixture
def database(project: Path, postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """The environment that names a database of its own to `project`, by a user with a password."""
    postgres.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute("CREATE DATABASE kept OWNER keeper")
    (project / "triage.toml").write_text(
        TOML + '[store]\nurl_env = "STORE_URL"\n[sinks.hook]\ntype = "webhook"\n'
        'url = "http://127.0.0.1:9/"\nsecret_env = "NOT_NEEDED_TO_LOOK"\n'
    )
    yield {"STORE_URL": f"postgresql://keeper:{PASSWORD}@127.0.0.1:{postgres.port}/kept"}
    postgres.execute("DROP DATABASE kept WITH (FORCE)")
    postgres.execute("DROP ROLE keeper")


def test_postgresql_is_made_upgraded_and_read(project: Path, database: dict[str, str]) -> None:
    nothing = db(project, "status", env=database)
    assert (nothing.code, nothing.err) == (1, "")
    assert "no tables yet" in nothing.out
    assert triage("ledger", cwd=project, env=database).code == 78
    made = db(project, "upgrade", env=database)
    assert (made.code, made.err) == (0, "")
    assert made.out.endswith(f": tables made, revision {NEWEST}\n")
    again = db(project, "upgrade", env=database)
    assert again.out.endswith(f": revision {NEWEST}, nothing to do\n")
    assert db(project, "status", env=database).code == 0
    for args in (
        ("ledger", "--json"),
        ("decisions", "list", "--outcome", "coalesced", "--json"),
        ("gaps", "list", "--json"),
        ("dead-letters", "list", "--json"),
        ("dead-letters", "redrive", "--all", "--json"),
    ):
        ended = triage(*args, cwd=project, env=database)
        assert (ended.code, ended.err) == (0, ""), args


def test_no_password_is_ever_shown(
    project: Path, database: dict[str, str], postgres: PostgresServer
) -> None:
    wrong = database["STORE_URL"].replace(str(postgres.port), str(free_port()))
    for url, code in ((wrong, 69), (wrong.replace("@", "@["), 78)):
        for command in ("status", "upgrade"):
            ended = db(project, command, env={"STORE_URL": url})
            assert PASSWORD not in ended.out + ended.err
            assert (ended.code, ended.out) == (code, "")
            assert "store" in ended.err
    ended = db(project, "status", env=database)
    assert "postgresql://" in ended.out


def test_a_variable_that_is_not_there(project: Path, database: dict[str, str]) -> None:
    for args in (("db", "status"), ("decisions", "list"), ("dead-letters", "list")):
        ended = triage(*args, cwd=project)
        assert ended.code == 78
        assert "store.url_env: the environment variable STORE_URL is not set" in ended.err
