"""A real daemon for the demo, and the way of alerts into it and of decisions out of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from bench.demo.world import EQUIPMENT, WAREHOUSE
from bench.dock import ROOT
from bench.replay.alerts import HistoricalAlert
from bench.served import ServedTriage

CONFIG = ROOT / "triage.toml"
STORE = "triage.db"
STOP_S = 15.0  # what the daemon gets to end by itself
ANSWER_S = 30.0
SOURCES = ("METRICS", "WAREHOUSE", "EQUIPMENT")
PATIENCE_S = "30"
NO_END = "0001-01-01T00:00:00Z"

Document = Mapping[str, Any]

_QUANTILE = re.compile(
    r'^triage_decision_quantile_seconds\{quantile="([\d.]+)"\} (\S+)', re.MULTILINE
)


def source_settings(world: Path) -> dict[str, str]:
    """What turns the root's triage.toml to the world in that folder, as variables without their
    prefix, and has it wait for its sources on a busy machine; production escalates instead."""
    serves = ["-m", "bench.world.equipment_server", "stdio", str(world / EQUIPMENT)]
    return {
        "SOURCES__METRICS__PATH": str(world),
        "SOURCES__WAREHOUSE__URL": f"sqlite:///{world / WAREHOUSE}",
        # The `python` of the file is the one on PATH, which need not be this one.
        "SOURCES__EQUIPMENT__COMMAND": sys.executable,
        "SOURCES__EQUIPMENT__ARGS": orjson.dumps(serves).decode(),
        **{f"SOURCES__{name}__TIMEOUT_S": PATIENCE_S for name in SOURCES},
        "ENGINE__DEADLINE_S": PATIENCE_S,
    }


class DemoDaemon(ServedTriage):
    """`triage serve` of the root's triage.toml. What it keeps is in `folder`; `world` is the
    folder that its sources read."""

    def __init__(self, folder: Path, world: Path) -> None:
        settings = {
            "STORE__URL": f"sqlite:///{folder / STORE}",
            "SINKS__DECISIONS__PATH": str(folder / "decisions.jsonl"),
            **source_settings(world),
        }
        super().__init__(folder, CONFIG, settings)

    def stop(self) -> None:
        """Drains and ends it; kills it when that takes too long."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class Wire:
    """The daemon's HTTP interface as senders and readers use it.

    `aliases` maps an alarm to the name that it has in Alertmanager: such alerts come from there,
    in groups as Alertmanager makes them, and the others as the project's own JSON. Every method
    raises httpx.HTTPError when the daemon does not answer, or answers with an error.
    """

    def __init__(self, url: str, aliases: Mapping[str, str]) -> None:
        self._http = httpx.Client(base_url=url, timeout=ANSWER_S)
        self._aliases = aliases

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def send(self, alerts: Sequence[HistoricalAlert]) -> dict[str, HistoricalAlert]:
        """Returns when all of them are accepted; by the id that each was given."""
        accepted: dict[str, HistoricalAlert] = {}
        for (alarm, _), some in groupby(alerts, key=lambda one: (one.alarm, one.site)):
            group = list(some)
            alias = self._aliases.get(alarm)
            if alias is None:
                path, body = "/api/v1/alerts", orjson.dumps([native(one) for one in group])
            else:
                path = "/api/v1/alerts/alertmanager"
                body = orjson.dumps(alertmanager(alias, group))
            reply = self._http.post(
                path, content=body, headers={"content-type": "application/json"}
            ).raise_for_status()
            accepted.update(zip(reply.json()["alert_ids"], group, strict=True))
        return accepted

    def decided(self, pending: Collection[str]) -> list[Document]:
        """Whole decisions of those of `pending` that have one, oldest first."""
        if not pending:
            return []
        # Every decision that is new to us is of one that was pending, so a page of so many has all.
        page = self._get("/api/v1/decisions", limit=len(pending))["decisions"]
        return [
            self._get(f"/api/v1/decisions/{head['alert_id']}")
            for head in reversed(page)
            if head["alert_id"] in pending
        ]

    def ledger(self) -> Document:
        """By a full count."""
        return self._get("/api/v1/ledger", full=1)

    def quantiles_s(self) -> dict[float, float]:
        """Seconds from accepted to decided, as the daemon's own metrics have them."""
        page = self._http.get("/metrics").raise_for_status().text
        return {float(name): float(value) for name, value in _QUANTILE.findall(page)}

    def _get(self, path: str, **params: int) -> dict[str, Any]:
        reply = self._http.get(path, params=params).raise_for_status()
        document: dict[str, Any] = reply.json()
        return document


# --- payloads ---------------------------------------------------------------------------------


def native(alert: HistoricalAlert) -> dict[str, Any]:
    arrival = alert.arrival
    return {
        "id": arrival.fingerprint,
        "alarm": arrival.alarm,
        "fired_at": _utc(alert.at),
        "site": arrival.site,
        "entity": arrival.entity,
        "severity": arrival.severity.value,
        "labels": dict(arrival.labels),
    }


def alertmanager(alias: str, group: Sequence[HistoricalAlert]) -> dict[str, Any]:
    """A webhook of version 4 with alerts of one alarm and site."""
    common = {"alertname": alias, "site": group[0].arrival.site}
    return {
        "version": "4",
        "receiver": "triage",
        "status": "firing",
        "groupKey": f'{{}}:{{alertname="{alias}", site="{common["site"]}"}}',
        "groupLabels": common,
        "commonLabels": common,
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example.com:9093",
        "truncatedAlerts": 0,
        "alerts": [
            {
                "status": "firing",
                "labels": {
                    **common,
                    "asset": one.arrival.entity,
                    "severity": one.arrival.severity.value,
                },
                "annotations": {},
                "startsAt": _utc(one.at),
                "endsAt": NO_END,
                "generatorURL": "",
            }
            for one in group
        ],
    }


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
