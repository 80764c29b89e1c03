"""The dock as it lies at the root: its procedure checked, and its demo played in small, with a real
daemon, its three sources, and three days of one site."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from bench.demo.day import perform
from bench.demo.play import AT_ONCE
from bench.demo.wire import STORE, DemoDaemon
from bench.demo.world import EQUIPMENT, WAREHOUSE, WORLD, build_demo_world, built_world
from bench.dock import ROOT, open_metrics
from tests.command_line import triage
from tests.servers import wait_until
from triage.errors import ConfigError

PAYLOADS = ROOT / "tests" / "data" / "payloads"
ALERTS = 15
ALARMS = 5
DAYS, SITES = 3, 1

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    build_demo_world(folder, days=DAYS, sites=SITES)
    return folder


@pytest.fixture(scope="module")
def daemon(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoDaemon]:
    with DemoDaemon(tmp_path_factory.mktemp("daemon"), sources) as running:
        yield running


def test_the_procedure_is_without_a_fault() -> None:
    checked = triage("check", cwd=ROOT)
    assert checked.code == 0, checked.out
    assert "44 decision nodes, 19 actions, 14 alarms" in checked.out


# --- the demo ---------------------------------------------------------------------------------


def test_the_demo_decides_every_alert_of_the_day(sources: Path, tmp_path: Path) -> None:
    code, text = performed(sources, tmp_path / "demo", least=(ALERTS, ALARMS))
    assert code == 0, text
    ledger = f"{ALERTS + 1} accepted = {ALERTS + 1} decided + 0 pending + 0 dead-lettered"
    assert ledger in text
    assert "44 decision nodes, 19 actions, 14 alarms" in text
    assert "triage replay --sop" in text
    heads = stored(tmp_path / "demo" / STORE)
    assert len(heads) == ALERTS + 1
    assert [degraded for _, degraded in heads if degraded] == []
    # Some alarms come from Alertmanager under another name, and are routed all the same.
    assert {alarm.startswith("al_") for alarm, _ in heads} == {True, False}


def test_a_day_with_too_few_alerts_is_a_failure(sources: Path, tmp_path: Path) -> None:
    code, text = performed(sources, tmp_path / "demo", least=(100, 10))
    assert code == 1
    assert f"demo: the day had {ALERTS} alerts" in text


def test_what_cannot_be_built_is_said_in_one_line(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    code, text = performed(in_the_way, tmp_path / "demo", least=(1, 1))
    assert code == 1
    assert text.splitlines() == [f"demo: [Errno 20] Not a directory: '{in_the_way / WORLD}'"]


def performed(sources: Path, folder: Path, least: tuple[int, int]) -> tuple[int, str]:
    """The exit code, and what was printed."""
    printed = io.StringIO()
    console = Console(file=printed, width=100, highlight=False, emoji=False, markup=False)
    code = perform(
        console, sources, folder, days=DAYS, sites=SITES, alerts=ALERTS, least=least, pace=AT_ONCE
    )
    return code, printed.getvalue()


def stored(path: Path) -> list[tuple[str, bool]]:
    """Alarm and degradation of each decision in the store."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(
            "SELECT json_extract(head, '$.alarm'), json_extract(head, '$.degraded') FROM decisions"
        ).fetchall()
    finally:
        connection.close()


# --- payloads from outside --------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample", ["alertmanager-v4-firing-truncated", "alertmanager-v4-mixed-resolved"]
)
def test_real_webhooks_of_the_dock_are_routed_and_decided(daemon: DemoDaemon, sample: str) -> None:
    decisions = delivered(daemon, "alertmanager", f"{sample}.json")
    assert {one["entity"] for one in decisions} == {"RC-00", "RC-01", "RC-02"}
    for one in decisions:
        assert (one["alarm"], one["site"], one["degraded"]) == ("RobotIdleHigh", "FC1", False)
        if one["outcome"] == "resolved":
            continue
        assert one["reason"] == ""
        assert one["nodes"][0]["node"] == "obs_induct_starved"
        assert one["actions"]


def test_a_real_cloudevent_of_the_dock_is_routed(daemon: DemoDaemon) -> None:
    """It fired months before the world begins, so there are no data; that is what is decided."""
    [decision] = delivered(daemon, "cloudevents", "cloudevents-1.0-structured.json")
    assert (decision["alarm"], decision["site"]) == ("RobotIdleHigh", "FC1")
    assert [(one["node"], one["verdict"]) for one in decision["nodes"]] == [
        ("obs_induct_starved", "no_data")
    ]
    assert [one["action"] for one in decision["actions"]] == ["check_data_feed"]
    assert not decision["degraded"]


def delivered(daemon: DemoDaemon, sender: str, sample: str) -> list[dict[str, Any]]:
    """The decisions of a payload's alerts, once all are decided."""
    kind = "application/cloudevents+json" if sender == "cloudevents" else "application/json"
    reply = httpx.post(
        f"{daemon.url}/api/v1/alerts/{sender}",
        content=(PAYLOADS / sample).read_bytes(),
        headers={"content-type": kind},
    )
    assert reply.status_code == 202, reply.text
    assert reply.json()["rejected"] == []
    found: list[dict[str, Any]] = []
    for alert_id in dict.fromkeys(reply.json()["alert_ids"]):
        address = f"{daemon.url}/api/v1/decisions/{alert_id}"
        wait_until(
            lambda address=address: "outcome" in httpx.get(address).json(),  # type: ignore[misc]
            what=f"the decision of {alert_id}",
            process=daemon.process,
        )
        found.append(httpx.get(address).json())
    return found


# --- the world --------------------------------------------------------------------------------


def test_a_world_that_is_there_is_left_alone(sources: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sources.iterdir()}
    said: list[str] = []
    build_demo_world(sources, days=DAYS, sites=SITES, say=said.append)
    assert said == []
    assert {path: path.stat().st_mtime_ns for path in sources.iterdir()} == before
    assert {WORLD, WAREHOUSE, EQUIPMENT} <= {path.name for path in before}


def test_metrics_without_a_world_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make world"):
        open_metrics("metrics", path=tmp_path, options={}, address="")
    with pytest.raises(ConfigError, match="give `path`"):
        open_metrics("metrics", path=None, options={}, address="")


def test_a_world_of_another_version_is_not_served(tmp_path: Path) -> None:
    (tmp_path / WORLD).write_text('{"seed": 1, "start": 0, "days": 1, "sites": 1, "made_by": ""}')
    with pytest.raises(ConfigError, match="another version"):
        built_world(tmp_path)
