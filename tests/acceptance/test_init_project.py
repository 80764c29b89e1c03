"""A new project, from nothing to a stored decision about a real Prometheus."""

from __future__ import annotations

import stat
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from tests.command_line import serving, triage
from tests.servers import Prometheus, wait_until

URL = "TRIAGE_SOURCES__PROMETHEUS__URL"
SCRAPE_ITSELF = """\
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: prometheus
    static_configs: [{targets: ["127.0.0.1:%d"]}]
  - job_name: absent
    static_configs: [{targets: ["127.0.0.1:1", "127.0.0.1:2"]}]
"""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    (server.folder / "prometheus.yml").write_text(SCRAPE_ITSELF % server.port)
    with server:
        counted = f"{server.url}/api/v1/query?query=min(count_over_time(up[1m]))"

        def has_scraped() -> bool:
            with urllib.request.urlopen(counted, timeout=5) as response:  # noqa: S310 - our own local URL
                result = orjson.loads(response.read())["data"]["result"]
            return bool(result) and float(result[0]["value"][1]) >= 3

        wait_until(has_scraped, what="three scrapes of each target", process=server.process)
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    made = triage("init", str(folder), cwd=tmp_path)
    assert (made.code, made.err) == (0, "")
    assert "triage serve" in made.out
    assert "triage check" in made.out
    assert "curl" in made.out
    return folder


def test_check_passes_without_a_word_of_warning(project: Path) -> None:
    checked = triage("check", cwd=project)
    assert checked.code == 0
    assert checked.out.splitlines() == [
        "sop.yaml: monitoring version 1: 3 decision nodes, 5 actions, 2 alarms; tools: 3 active",
        "0 errors, 0 warnings",
    ]
    assert triage("tools", "verify", cwd=project).code == 0


def test_the_project_is_complete(project: Path) -> None:
    files = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert {"triage.toml", "sop.yaml", "sites.yaml", "README.md", ".gitignore"} <= files
    assert (project / ".gitignore").read_text() == "data/\n"
    first, *_ = (project / "sop.yaml").read_text().splitlines()
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert orjson.loads((project / schema).read_bytes())["title"] == "SOP of triage"
    toml, *_ = (project / "triage.toml").read_text().splitlines()
    assert orjson.loads((project / toml.removeprefix("#:schema ")).read_bytes())["properties"]
    assert all(path.stat().st_mode & stat.S_IRUSR for path in project.rglob("*"))


def test_it_serves_decides_and_stores(project: Path, prometheus: Prometheus) -> None:
    env = {URL: prometheus.url}
    connected = triage("check", "--connect", cwd=project, env=env)
    assert connected.code == 0
    assert "prometheus  prometheus  2." in connected.out

    with serving(project, env) as daemon:
        alert_id = _post(daemon.url, f"127.0.0.1:{prometheus.port}")
        silent_id = _post(daemon.url, "127.0.0.1:1")

        def decided() -> bool:
            ledger = triage("ledger", "--json", "--url", daemon.url, cwd=project)
            return bool(ledger.json["decided"] == 2)

        wait_until(decided, what="two decisions", process=daemon.process)

        listed = triage("decisions", "list", "--json", cwd=project).json["decisions"]
        assert [head["alert_id"] for head in listed] == [silent_id, alert_id]
        assert [head["outcome"] for head in listed] == ["actions", "actions"]

        healthy = triage("decisions", "show", alert_id, cwd=project)
        assert healthy.code == 0
        assert "obs_target_down: false" in healthy.out
        assert "close_alert on" in healthy.out
        over_http = triage("decisions", "show", alert_id[:8], "--url", daemon.url, cwd=project)
        assert over_http.out == healthy.out

        silent = triage("decisions", "show", silent_id, "--evidence", cwd=project)
        assert "rc_whole_job_down: true on absent" in silent.out
        assert "targets that answer: 0 == 0 targets ✓" in silent.out
        assert '"series"' in silent.out
        assert "page_on_call on absent" in silent.out

        assert daemon.terminate() == 0

    ledger = triage("ledger", "--full", cwd=project)
    assert ledger.code == 0
    assert ["balances", "yes"] in [line.split() for line in ledger.out.splitlines()]
    lines = (project / "data" / "decisions.jsonl").read_text().splitlines()
    assert {orjson.loads(line)["decision"]["alert_id"] for line in lines} == {alert_id, silent_id}


def test_run_decides_the_same_without_a_daemon(project: Path, prometheus: Prometheus) -> None:
    alert = {"alarm": "InstanceDown", "entity": "127.0.0.1:1", "fired_at": "2020-01-01T00:00:00Z"}
    env = {URL: prometheus.url}
    shown = triage("run", "--at", "now", cwd=project, stdin=orjson.dumps(alert), env=env)
    assert (shown.code, shown.err) == (0, "")
    assert "rc_whole_job_down: true on absent" in shown.out
    then = triage("run", "--json", cwd=project, stdin=orjson.dumps(alert), env=env)
    (document,) = then.json
    assert document["outcome"] == "actions"
    assert [action["action"] for action in document["actions"]] == ["check_monitoring"]
    assert document["nodes"][0]["verdict"] == "no_data"


def _post(url: str, entity: str) -> str:
    alert = {
        "alarm": "TargetDown",
        "entity": entity,
        "severity": "warning",
        "fired_at": datetime.now(UTC).isoformat(),
    }
    request = urllib.request.Request(f"{url}/api/v1/alerts", data=orjson.dumps(alert))  # noqa: S310 - our own local URL
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
        (alert_id,) = orjson.loads(response.read())["alert_ids"]
        return str(alert_id)
