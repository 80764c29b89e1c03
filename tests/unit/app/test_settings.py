"""`triage.toml`: defaults, faults with their places, secrets, environment, reload."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.app.sections import McpSource, PrometheusSource, SqlSource, WebhookSinkSection
from triage.app.settings import Settings, restart_needed, settings_schema
from triage.errors import Finding, InvalidFiles

Load = Callable[..., Settings]
Refused = Callable[..., list[Finding]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loader(text: str = "", env: Mapping[str, str] | None = None, **options: Any) -> Settings:
        path = tmp_path / "triage.toml"
        path.write_text(text, "utf-8")
        return Settings.load(path, env or {}, **options)

    return loader


@pytest.fixture
def refused(load: Load) -> Refused:
    def loader(text: str = "", env: Mapping[str, str] | None = None) -> list[Finding]:
        with pytest.raises(InvalidFiles) as caught:
            load(text, env)
        return list(caught.value.findings)

    return loader


FULL = """
[sop]
file = "procedures/dock.yaml"
sites = "/etc/triage/sites.yaml"
allow_broken_tools = true

[store]
url = "sqlite:////var/lib/triage/t.db"
evidence_max_bytes = "1 GiB"

[queue]
url_env = "QUEUE_URL"
name = "dock"

[streams.floor]
url = "nats://127.0.0.1:4222"
stream = "FLOOR"
subject = "floor.alerts"
format = "cloudevents"

[streams.wms]
url_file = "wms.url"
stream = "wms-alerts"
tenant = "east"

[engine]
prefetch = "subtree"

[http]
listen = "[::1]:80"
max_body_bytes = 1024
[[http.tokens]]
name = "alertmanager"
env = "INGEST_TOKEN"
scopes = ["ingest"]
[[http.tokens]]
name = "people"
file = "people.token"

[intake]
default_site = "ams1"
[intake.alertmanager]
alarm = ["labels.alarm_code", "labels.alertname"]
severities = {page = "critical", token = "info"}
[intake.sns]
topic_arns = ["arn:aws:sns:eu-west-1:1:alarms"]

[sources.metrics]
type = "prometheus"
url = "http://127.0.0.1:9090"
bearer_token_env = "PROM_TOKEN"
timeout_s = 1.5

[sources.tickets]
type = "sql"
url_env = "TICKETS_URL"

[sources.local]
type = "sql"
url = "sqlite:///facts.db"

[sources.wms]
type = "mcp"
command = "wms-mcp"
args = ["--read-only"]
env = {WMS_KEY = "OUR_WMS_KEY"}
allow_tools = ["orders"]

[sinks.journal]
type = "jsonl"
path = "out/decisions.jsonl"

[sinks.pager]
type = "webhook"
url = "https://pager.example/hook"
secret_env = "PAGER_SECRETS"

[log]
format = "json"
level = "debug"
"""
ENV = {
    "INGEST_TOKEN": "ingest-hunter2",
    "PROM_TOKEN": "prom-hunter2",
    "QUEUE_URL": "redis://:hunter2@queue:6379/0",
    "TICKETS_URL": "postgresql://u:hunter2@db/tickets",
    "OUR_WMS_KEY": "wms-hunter2",
    "PAGER_SECRETS": "old-hunter2 new-hunter2",
}


@pytest.fixture
def full(load: Load, tmp_path: Path) -> Settings:
    (tmp_path / "people.token").write_text("people-hunter2\n")
    (tmp_path / "wms.url").write_text("redis://:hunter2@wms:6379/0\n")
    return load(FULL, ENV)


def test_an_empty_file_is_all_defaults(load: Load, tmp_path: Path) -> None:
    settings = load()
    assert settings.sop.file == tmp_path / "sop.yaml"
    assert settings.sop.library == tmp_path / "tools_lib"
    assert settings.sop.sites is None
    assert settings.store.url == f"sqlite:///{tmp_path}/data/triage.db"
    assert settings.store.address == settings.store.url
    assert settings.store.data == tmp_path / "data"
    assert settings.store.evidence_max_bytes == 5 * 10**9
    assert settings.queue.is_embedded
    assert settings.queue.address == ""
    assert not settings.streams
    assert (settings.engine.sweep_s, settings.engine.coalesce_s) == (10, 0)
    assert (settings.http.host, settings.http.port) == ("127.0.0.1", 9797)
    assert settings.http.max_body_bytes == 4 * 1024 * 1024
    assert settings.engine.deadline_s == 5
    assert settings.intake.sns.verify_signatures is True
    assert not settings.sources
    assert not settings.sinks


def test_everything_can_be_set(full: Settings, tmp_path: Path) -> None:
    assert full.sop.file == tmp_path / "procedures" / "dock.yaml"
    assert full.sop.sites == Path("/etc/triage/sites.yaml")
    assert full.store.url == "sqlite:////var/lib/triage/t.db"
    assert full.store.evidence_max_bytes == 1 << 30
    assert full.store.data == Path("/var/lib/triage")
    assert (full.queue.name, full.queue.is_embedded) == ("dock", False)
    floor, wms_stream = full.streams["floor"], full.streams["wms"]
    assert floor.address == "nats://127.0.0.1:4222"
    assert (floor.stream, floor.subject, floor.format) == ("FLOOR", "floor.alerts", "cloudevents")
    assert (wms_stream.format, wms_stream.tenant, wms_stream.group) == ("native", "east", "triage")
    assert (full.http.host, full.http.port) == ("::1", 80)
    assert full.intake.format("alertmanager").alarm == ("labels.alarm_code", "labels.alertname")
    assert full.intake.format("alertmanager").severities["page"] == "critical"
    metrics, local = full.sources["metrics"], full.sources["local"]
    assert isinstance(metrics, PrometheusSource)
    assert isinstance(local, SqlSource)
    assert metrics.timeout_s == 1.5
    assert metrics.address == "http://127.0.0.1:9090"
    assert local.address == f"sqlite:///{tmp_path}/facts.db"
    with pytest.raises(KeyError):
        full.intake.format("default_site")


def test_secrets_are_read_and_never_shown(full: Settings) -> None:
    ingest, people = full.http.tokens
    assert (ingest.token, people.token) == ("ingest-hunter2", "people-hunter2")
    assert people.scopes == ("ingest", "read", "admin")
    assert full.sources["metrics"].secret("bearer_token") == "prom-hunter2"
    assert full.sources["tickets"].address == "postgresql://u:hunter2@db/tickets"
    assert full.queue.address == "redis://:hunter2@queue:6379/0"
    assert full.streams["wms"].address == "redis://:hunter2@wms:6379/0"
    assert "redis://:hunter2@queue:6379/0" in full.secrets()
    wms, pager = full.sources["wms"], full.sinks["pager"]
    assert isinstance(wms, McpSource)
    assert isinstance(pager, WebhookSinkSection)
    assert wms.secret_map("env") == {"WMS_KEY": "wms-hunter2"}
    assert wms.secret_map("headers_env") == {}
    assert pager.signing_secrets == ("old-hunter2", "new-hunter2")
    for shown in (repr(full), str(full), repr(full.model_dump()), full.model_dump_json()):
        assert "hunter2" not in shown
    assert full.sources["metrics"].secret("password") == ""


def test_settings_are_frozen(full: Settings) -> None:
    with pytest.raises(ValueError, match="frozen"):
        full.http = full.http
    with pytest.raises(ValueError, match="frozen"):
        full.engine.deadline_s = 1


@pytest.mark.parametrize(
    ("text", "line", "where", "problem", "fix"),
    [
        ("[http]\nlisen = 'x'", 2, "http.lisen", "no such key", "`listen`"),
        ("\n[htpp]\n", 2, "htpp", "no such key", "`http`"),
        (
            "[[http.tokens]]\nname='a'\nenv='A'\nscope=['read']",
            4,
            "http.tokens.0.scope",
            "no such",
            "`scopes`",
        ),
        (
            "[sources.m]\ntype='sql'\nmax_row=3\nurl='sqlite:///a'",
            3,
            "sources.m.max_row",
            "no such",
            "`max_rows`",
        ),
        ("[intake.sns]\ntopic_arn='x'", 2, "intake.sns.topic_arn", "no such key", "`topic_arns`"),
        ("[sinks.j]\ntype='jsonl'\nfile='x'\npath='y'", 3, "sinks.j.file", "no such key", "path"),
        ("[sinks.j]\ntype='jsonl'", 1, "sinks.j.path", "missing", "add path"),
        ("[sources.m]\nurl='x'", 1, "sources.m.type", "missing", "type"),
        ("[sources.m]\ntype='redis'", 2, "sources.m.type", "no such type", "'prometheus'"),
        ("[sources.m]\ntype='prometheus'", 1, "sources.m", "set one of url and url_env", ""),
        (
            "[sources.'a b']\ntype='sql'\nurl='x'",
            1,
            "sources.a b",
            "not a name",
            "begin with a letter",
        ),
        ("[engine]\ndeadline_s = 0", 2, "engine.deadline_s", "greater than 0", ""),
        ("[engine]\ndeadline_s = inf", 2, "engine.deadline_s", "", ""),
        ("[engine]\ndeadline_s = 90", 1, "engine", "must not be shorter", ""),
        ("[engine]\nfast_slots = 1.5", 2, "engine.fast_slots", "integer", ""),
        ("[engine]\nprefetch = 'all'", 2, "engine.prefetch", "'layer' or 'subtree'", ""),
        ("[http]\nlisten='0.0.0.0:1'", 1, "http", "no token", "[[http.tokens]]"),
        ("[http]\nlisten='127.0.0.1'", 1, "http", "listen", "HOST:PORT"),
        ("[http]\nlisten='127.0.0.1:99999'", 1, "http", "listen", "HOST:PORT"),
        ("[http]\nlisten='::1:80'", 1, "http", "listen", "brackets"),
        ("[http]\ntls_cert_file='a'", 1, "http", "go together", "both or neither"),
        ("[http]\nmax_body_bytes='much'", 2, "http.max_body_bytes", "", ""),
        ("[sources.m]\ntype='mcp'\nallow_tools=['a']", 1, "sources.m", "set one of command", ""),
        (
            "[sources.m]\ntype='mcp'\ncommand='a'\nallow_tools='orders'",
            4,
            "sources.m.allow_tools",
            "",
            "",
        ),
        (
            "[intake.grafana]\nseverities={p1='bad'}",
            2,
            "intake.grafana.severities.p1",
            "'critical'",
            "",
        ),
        ("[log]\nlevel='loud'", 2, "log.level", "'debug'", ""),
        ("sop = 3", 1, "sop", "", ""),
        ("store = 3", 1, "store", "", ""),
        ("[store]\nurl='mysql://a'", 1, "store", "must begin with one of sqlite:///", ""),
        ("store = 'mysql://a'", 1, "store", "must begin with one of sqlite:///", ""),
        ("queue = 'amqp://a'", 1, "queue", "must begin with one of sqlite:///", ""),
        ("[queue]\nurll='redis://a'", 2, "queue.urll", "no such key", "`url`"),
        (
            "[store]\nurl='postgresql://a/b'\n[queue]\nurl='sqlite:///other.db'",
            4,
            "queue.url",
            "embedded queue lives in the store",
            "give it the store's url",
        ),
        (
            "queue = 'postgresql://h/d'",
            1,
            "queue.url",
            "embedded queue lives in the store",
            "or none",
        ),
        ("[streams.s]\nstream='a'", 1, "streams.s", "set one of url, url_env and url_file", ""),
        ("[streams.s]\nurl='redis://h'", 1, "streams.s.stream", "missing", "add stream"),
        (
            "[streams.s]\nstream='a'\nurl='sqlite:///a'",
            1,
            "streams.s",
            "must begin with one of redis://",
            "",
        ),
        (
            "[streams.s]\nstream='a'\nurl='redis://h'\nformat='xml'",
            4,
            "streams.s.format",
            "'native'",
            "",
        ),
        (
            "[streams.s]\nstream='a'\nurl='redis://h'\nbatch=2000",
            4,
            "streams.s.batch",
            "1000",
            "",
        ),
        (
            "[streams.'a b']\nstream='a'\nurl='redis://h'",
            1,
            "streams.a b",
            "not a name",
            "begin with a letter",
        ),
    ],
)
def test_a_fault_names_its_place_and_what_to_do(
    refused: Refused, tmp_path: Path, text: str, line: int, where: str, problem: str, fix: str
) -> None:
    (finding,) = refused(text)
    assert (finding.file, finding.line, finding.where) == (
        str(tmp_path / "triage.toml"),
        line,
        where,
    )
    assert problem in finding.problem
    assert fix in finding.fix
    assert finding.problem


def test_every_fault_is_found_at_once(refused: Refused) -> None:
    findings = refused("[http]\nlisen='x'\n[engine]\ndeadline_s=-1\n[lgo]\nlevel='info'")
    assert {finding.where for finding in findings} == {"http.lisen", "engine.deadline_s", "lgo"}


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        (
            "[sources.m]\ntype='prometheus'\nurl='x'\nbearer_token='hunter2'",
            "sources.m.bearer_token",
            "bearer_token_env",
        ),
        (
            "[sources.m]\ntype='prometheus'\nurl='x'\npassword='hunter2'",
            "sources.m.password",
            "password_file",
        ),
        ("[[http.tokens]]\nname='a'\ntoken='hunter2'", "http.tokens.0.token", "env or file"),
        ("[sinks.h]\ntype='webhook'\nurl='x'\nsecret='hunter2'", "sinks.h.secret", "secret_env"),
        (
            "[sources.m]\ntype='sql'\nurl='postgresql://u:hunter2@h/d'",
            "sources.m.url",
            "TRIAGE_SOURCES__M__URL",
        ),
        ("[store]\nurl='postgresql://u:hunter2@h/d'", "store.url", "TRIAGE_STORE__URL"),
        ("store = 'postgresql://u:hunter2@h/d'", "store.url", "TRIAGE_STORE__URL"),
        ("queue = 'redis://:hunter2@h'", "queue.url", "TRIAGE_QUEUE__URL"),
        (
            "[streams.s]\nstream='s'\nurl='nats://u:hunter2@h'",
            "streams.s.url",
            "TRIAGE_STREAMS__S__URL",
        ),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(
    refused: Refused, text: str, where: str, fix: str
) -> None:
    (finding,) = refused(text)
    assert finding.where == where
    assert finding.line == len(text.split("\n")) or where == "store.url"
    assert "must not stand in the file" in finding.problem
    assert fix in finding.fix
    assert "hunter2" not in str(finding)


def test_secrets_that_are_not_there_are_faults(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "people.token").write_text(" \n")
    findings = {finding.where: finding for finding in refused(FULL, {"PROM_TOKEN": " "})}
    assert set(findings) == {
        "http.tokens.0.env",
        "http.tokens.1.file",
        "queue.url_env",
        "streams.wms.url_file",
        "sources.metrics.bearer_token_env",
        "sources.tickets.url_env",
        "sources.wms.env.WMS_KEY",
        "sinks.pager.secret_env",
    }
    assert "export INGEST_TOKEN" in findings["http.tokens.0.env"].fix
    assert all(finding.line for finding in findings.values())
    (tmp_path / "wms.url").write_text("redis://wms")
    (tmp_path / "people.token").unlink()
    assert any("No such file" in finding.problem for finding in refused(FULL, ENV))
    (tmp_path / "people.token").write_bytes(b"\xff\xfe")
    assert any("holds no secret" in finding.problem for finding in refused(FULL, ENV))


def test_a_file_can_be_checked_where_its_secrets_are_not(load: Load) -> None:
    settings = load(FULL, {}, read_secrets=False)
    assert settings.http.tokens[0].token == ""
    assert settings.sop.file.is_absolute()


def test_env_and_file_for_one_secret_are_a_fault(refused: Refused) -> None:
    (finding,) = refused("[[http.tokens]]\nname='a'\nenv='A'\nfile='b'", {"A": "x"})
    assert "both set" in finding.problem


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[store]\nurl='sqlite:///a.db'\nurl_env='U'", "store.url_env"),
        ("[queue]\nurl='redis://h'\nurl_file='u'", "queue.url_file"),
        ("[store]\nurl_env='U'\nurl_file='u'", "store.url_env"),
    ],
)
def test_one_place_names_a_url(refused: Refused, tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "u").write_text("redis://h")
    (finding,) = refused(text, {"U": "postgresql://h/d"})
    assert finding.where == where
    assert "both set" in finding.problem


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[store]\nurl_env='U'", "store.url_env"),
        ("[queue]\nurl_env='U'", "queue.url_env"),
        ("[streams.s]\nstream='s'\nurl_env='U'", "streams.s.url_env"),
    ],
)
def test_a_url_from_a_variable_is_held_to_the_same(refused: Refused, text: str, where: str) -> None:
    (finding,) = refused(text, {"U": "amqp://u:hunter2@h"})
    assert finding.where == where
    assert "no such URL" in finding.problem
    assert "hunter2" not in str(finding)


def test_an_embedded_queue_from_a_variable_is_told_to_go(refused: Refused) -> None:
    (finding,) = refused("[queue]\nurl_env='U'", {"U": "postgresql://h/d"})
    assert finding.where == "queue.url_env"
    assert "in the store" in finding.fix


def test_store_and_queue_may_be_just_their_urls(load: Load, tmp_path: Path) -> None:
    settings = load("store = 'sqlite:///here.db'\nqueue = 'redis://127.0.0.1:6379/3'")
    assert settings.store.url == f"sqlite:///{tmp_path}/here.db"
    assert settings.store.data == tmp_path
    assert settings.queue.address == "redis://127.0.0.1:6379/3"
    assert not settings.queue.is_embedded
    assert load("store = 'sqlite:///a.db'\nqueue = 'sqlite:///a.db'").queue.is_embedded


def test_store_and_queue_can_be_given_by_the_environment(load: Load, tmp_path: Path) -> None:
    env = {
        "TRIAGE_STORE__URL": "postgresql://u:hunter2@h/d",
        "TRIAGE_QUEUE__URL": "nats://u:hunter2@h:4222",
        "TRIAGE_STREAMS__S__URL": "redis://:hunter2@h",
        "TRIAGE_STREAMS__S__STREAM": "alerts",
        "TRIAGE_ENGINE__SWEEP_S": "3",
    }
    for text in ("", "store = 'sqlite:///a.db'\nqueue = 'redis://q'"):
        settings = load(text, env)
        assert settings.store.address == "postgresql://u:hunter2@h/d"
        assert settings.queue.address == "nats://u:hunter2@h:4222"
        assert settings.streams["s"].address == "redis://:hunter2@h"
        assert settings.engine.sweep_s == 3
        assert "hunter2" not in repr(settings)


def test_the_data_folder_is_beside_the_configuration_unless_the_store_is_a_file(
    load: Load, tmp_path: Path
) -> None:
    assert load("store = 'postgresql://h/d'").store.data == tmp_path / "data"
    assert load("[store]\nurl='postgresql://h/d'\ndata='/var/t'").store.data == Path("/var/t")
    assert load("[store]\ndata='mine'").store.data == tmp_path / "mine"
    elsewhere = load("[store]\nurl_env='U'", {"U": "sqlite:///there/t.db"})
    assert elsewhere.store.address == f"sqlite:///{tmp_path}/there/t.db"
    assert elsewhere.store.data == tmp_path / "there"
    assert load("[store]\nurl_env='U'", read_secrets=False).store.data == tmp_path / "data"


def test_the_environment_wins_over_the_file(load: Load) -> None:
    settings = load(
        "[http]\nlisten='127.0.0.1:1'\ndrain_s=3\n[sources.db]\ntype='sql'\nurl='sqlite:////a'",
        {
            "TRIAGE_HTTP__LISTEN": "127.0.0.1:2",
            "TRIAGE_SOURCES__DB__URL": "postgresql://u:hunter2@h/d",
            "TRIAGE_SOURCES__PROM__TYPE": "prometheus",
            "TRIAGE_SOURCES__PROM__URL": "http://p",
            "TRIAGE_SOP__ALLOW_BROKEN_TOOLS": "true",
            "TRIAGE_HTTP__TOKENS": '[{"name": "a", "env": "A", "scopes": ["read"]}]',
            "A": "hunter2",
            "TRIAGE_PORT": "tcp://10.0.0.1:9797",
            "TRIAGE_SERVICE_HOST": "10.0.0.1",
            "OTHER__THING": "1",
        },
    )
    assert settings.http.port == 2
    assert settings.http.drain_s == 3
    assert settings.sources["db"].address == "postgresql://u:hunter2@h/d"
    assert settings.sources["prom"].address == "http://p"
    assert settings.sop.allow_broken_tools is True
    assert settings.http.tokens[0].scopes == ("read",)
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("TRIAGE_HTTP__LISTN", "x", "no such key"),
        ("TRIAGE_HTTP__DRAIN_S", "hunter2", "valid number"),
        ("TRIAGE_HTPP__LISTEN", "x", "names no setting"),
        ("TRIAGE_HTTP__", "x", "names no setting"),
    ],
)
def test_a_fault_in_the_environment_names_the_variable(
    refused: Refused, name: str, value: str, problem: str
) -> None:
    (finding,) = refused("[http]\ndrain_s = 3", {name: value})
    assert finding.file == f"environment variable {name}"
    assert problem in finding.problem
    assert "hunter2" not in str(finding)


def test_a_list_in_the_environment_is_json(refused: Refused) -> None:
    (finding,) = refused("", {"TRIAGE_HTTP__TOKENS": "[hunter2"})
    assert finding.file == "environment"
    assert "JSON" in finding.fix
    assert "hunter2" not in str(finding)


def test_the_process_environment_is_not_read_behind_its_back(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_HTTP__LISTEN", "127.0.0.1:3")
    assert load().http.port == 9797
    assert load("", os.environ).http.port == 3


@pytest.mark.parametrize(
    ("body", "line", "problem"),
    [
        (b"[http]\nlisten = \n", 2, "not TOML"),
        (b"[http]\n[http]\n", 2, "not TOML"),
        (b"a = [\n\n", 3, "not TOML"),
        (b"\n\n# caf\xe9\n", 3, "not UTF-8"),
        (b"a = " + b"[" * 5000, 1, "not TOML"),
        (b"#" * (1 << 21), 0, "larger than"),
    ],
)
def test_what_is_no_toml_is_refused_with_its_line(
    tmp_path: Path, body: bytes, line: int, problem: str
) -> None:
    path = tmp_path / "triage.toml"
    path.write_bytes(body)
    with pytest.raises(InvalidFiles) as caught:
        Settings.load(path, {})
    (finding,) = caught.value.findings
    assert finding.line == line
    assert problem in finding.problem


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InvalidFiles, match="triage init") as caught:
            Settings.load(path, {})
        assert caught.value.findings[0].file == str(path)


def faults(path: Path) -> Sequence[Finding]:
    try:
        Settings.load(path, {})
    except InvalidFiles as error:
        return error.findings
    return ()


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, body: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(body)
    assert all(str(finding) for finding in faults(path))


KEYS = st.sampled_from(
    ["http", "sources", "sinks", "log", "m", "type", "url", "tokens", "sop", "x"]
)
TREES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.text(max_size=5), st.floats(allow_nan=False)),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(KEYS, below, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_no_shape_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "shape.toml"
    path.write_text("".join(f"{key} = {_inline(value)}\n" for key, value in tree.items()), "utf-8")
    assert all(str(finding) for finding in faults(path))


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return orjson.dumps(str(value)[:20] if isinstance(value, int) else value).decode()


def test_a_reload_takes_up_sop_sources_intake_and_log_level(load: Load, full: Settings) -> None:
    changed = (
        FULL.replace("procedures/dock.yaml", "other.yaml")
        .replace('default_site = "ams1"', 'default_site = "rtm2"')
        .replace("timeout_s = 1.5", "timeout_s = 0.5")
        .replace('level = "debug"', 'level = "info"')
    )
    assert restart_needed(full, load(changed, ENV)) == []
    assert restart_needed(full, load(FULL, {**ENV, "PROM_TOKEN": "other"})) == []
    assert restart_needed(full, load(FULL, ENV)) == []


def test_everything_else_needs_a_restart(load: Load, full: Settings) -> None:
    changed = (
        FULL.replace("[engine]", "[engine]\nfast_slots = 3")
        .replace("[::1]:80", "[::1]:81")
        .replace('format = "json"', 'format = "console"')
        .replace("[sinks.journal]", "[sinks.renamed]")
    )
    assert restart_needed(full, load(changed, ENV)) == [
        "engine.fast_slots",
        "http.listen",
        "sinks.journal",
        "sinks.renamed",
        "log.format",
    ]
    assert restart_needed(full, load(FULL, {**ENV, "INGEST_TOKEN": "new"})) == ["http.tokens"]
    assert restart_needed(full, load(FULL, {**ENV, "PAGER_SECRETS": "new"})) == ["sinks.pager"]
    assert restart_needed(full, load(FULL, {**ENV, "QUEUE_URL": "redis://q"})) == ["queue.url"]
    moved = (
        FULL.replace("t.db", "u.db")
        .replace('name = "dock"', 'name = "other"')
        .replace("[streams.floor]", "[streams.renamed]")
        .replace('tenant = "east"', 'tenant = "west"')
    )
    assert restart_needed(full, load(moved, ENV)) == [
        "store.url",
        "queue.name",
        "streams.floor",
        "streams.renamed",
        "streams.wms",
    ]


def test_the_schema_is_json_and_knows_every_section() -> None:
    schema = orjson.loads(orjson.dumps(settings_schema()))
    assert set(schema["properties"]) == set(Settings.model_fields)
    assert schema["additionalProperties"] is False
    for name in ("store", "queue"):
        kinds = schema["properties"][name]["anyOf"]
        assert {"type": "string"} in kinds
        assert len(kinds) == 2
    assert schema["title"] == "triage.toml"
    assert schema["$schema"].startswith("https://json-schema.org/")
