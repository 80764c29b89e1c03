"""`triage serve` of a project as a bench runs it: a store of its own, and its log to read."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from bench.servers import HOST, Server, resident_mb, wait_until

POLL_S = 0.05


class ServedTriage(Server):
    """`config` is the project's triage.toml; `settings` overrides it, by the names of variables
    without their prefix. What the daemon stores is in `folder`; it runs in the config's."""

    name = "triage"
    ready_path = "/-/ready"

    def __init__(
        self, folder: Path, config: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self._config = config
        self._settings = dict(settings or {})

    def argv(self) -> list[str]:
        settings = {
            "STORE__URL": f"sqlite:///{self.folder / 'data' / 'triage.db'}",
            "LOG__FORMAT": "json",
            "LOG__LEVEL": "info",
            **self._settings,
        }
        return [
            *("/usr/bin/env", f"--chdir={self._config.parent}"),
            *(f"TRIAGE_{name}={value}" for name, value in settings.items()),
            *(sys.executable, "-m", "triage", "serve"),
            *("--config", str(self._config), "--listen", f"{HOST}:{self.port}"),
        ]

    def resident_mb(self) -> float:
        assert self.process is not None
        return resident_mb(self.process.pid)

    def settled_ledger(self, *, within_s: float) -> dict[str, Any]:
        """The ledger by a full count, once nothing is pending and all sinks were told. Raises
        RuntimeError when that takes longer."""
        wait_until(
            lambda: not any(self._ledger("")[name] for name in ("pending", "outbox_pending")),
            what="everything decided and delivered",
            process=self.process,
            within_s=within_s,
        )
        return self._ledger("?full=1")

    def _ledger(self, query: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/api/v1/ledger{query}", timeout=60) as response:  # noqa: S310 - our own local URL
            document: dict[str, Any] = json.load(response)
        return document


class DecidedLog:
    """When each alert was decided, from a daemon's log in JSON, in seconds of `time.time`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.at: dict[str, float] = {}
        self.degraded: set[str] = set()

    def wait_for(self, alert_ids: Collection[str], *, within_s: float) -> None:
        """Returns when all of them are decided. Raises RuntimeError when it takes longer."""
        missing = set(alert_ids)
        ends = time.monotonic() + within_s
        while True:
            self._take()
            missing -= self.at.keys()
            if not missing:
                return
            if time.monotonic() > ends:
                raise RuntimeError(f"{len(missing)} alerts are not decided after {within_s:g} s")
            time.sleep(POLL_S)

    def _take(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the rest of it is still to come
            self._read += len(line)
            if b'"decided"' not in line:
                continue
            entry = orjson.loads(line)
            self.at[entry["alert_id"]] = datetime.fromisoformat(entry["timestamp"]).timestamp()
            if entry["degraded"]:
                self.degraded.add(entry["alert_id"])
