"""Prometheus, Alertmanager, node exporter, a service and triage on free local ports.

The configuration is this folder's, with ports, intervals and waiting times replaced: alert rules,
procedure and tools are the real ones. Everything lives in one temporary folder and ends with the
`with` block, each process by its own id.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import tomlkit
import yaml

HERE = Path(__file__).parent
LOCAL = "127.0.0.1"
INSTANCE = "demo-host"
SITE = "demo"
STOP_S = 5.0  # what a server gets to end by itself
START_S = 20.0

PROGRAMS = {
    "prometheus": ("prometheus",),
    "alertmanager": ("prometheus-alertmanager", "alertmanager"),
    "exporter": ("prometheus-node-exporter", "node_exporter"),
}
"""Debian's name of each program first, the project's own after it."""


class StageError(Exception):
    """The stage cannot be set up, or something on it ended or did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    prometheus: int
    alertmanager: int
    exporter: int
    shop: int
    triage: int

    @classmethod
    def free(cls) -> Ports:
        # All are held at once, so that no two are the same.
        with contextlib.ExitStack() as stack:
            numbers = []
            for _ in range(5):
                probe = stack.enter_context(socket.socket())
                probe.bind((LOCAL, 0))
                numbers.append(int(probe.getsockname()[1]))
        prometheus, alertmanager, exporter, shop, triage = numbers
        return cls(
            prometheus=prometheus,
            alertmanager=alertmanager,
            exporter=exporter,
            shop=shop,
            triage=triage,
        )


class Stage:
    """Starts and stops the servers by name. `folder` is empty and removed by the caller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = Ports.free()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._http = httpx.Client(timeout=5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        for name in reversed(list(self._running)):
            self.stop(name)

    def url(self, name: str) -> str:
        return f"http://{LOCAL}:{getattr(self.ports, name)}"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    # --- processes ----------------------------------------------------------------------------

    def start_servers(self) -> None:
        """Everything but triage; returns when all of them answer. Raises StageError."""
        programs = {name: _program(name) for name in PROGRAMS}
        self._write_configuration()
        textfiles = self.folder / "textfiles"
        textfiles.mkdir()
        ports = self.ports
        self.start(
            "exporter",
            programs["exporter"],
            f"--web.listen-address={LOCAL}:{ports.exporter}",
            f"--collector.textfile.directory={textfiles}",
        )
        self.start(
            "top", sys.executable, str(HERE / "top_process.py"), str(textfiles), "--interval=2"
        )
        self.start_shop()
        self.start(
            "alertmanager",
            programs["alertmanager"],
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'alertmanager'}",
            f"--web.listen-address={LOCAL}:{ports.alertmanager}",
            "--cluster.listen-address=",
        )
        self.start(
            "prometheus",
            programs["prometheus"],
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'prometheus'}",
            f"--web.listen-address={LOCAL}:{ports.prometheus}",
        )
        self.wait_for("exporter", "/metrics")
        self.wait_for("shop", "/metrics")
        self.wait_for("alertmanager", "/-/ready")
        self.wait_for("prometheus", "/-/ready")

    def start_shop(self) -> None:
        self.start("shop", sys.executable, str(HERE / "shop.py"), str(self.ports.shop))

    def start_triage(self) -> None:
        """Returns when the daemon is ready. Raises StageError."""
        self.start(
            "triage",
            sys.executable,
            "-m",
            "triage",
            "serve",
            "--config",
            str(self.folder / "triage.toml"),
            "--listen",
            f"{LOCAL}:{self.ports.triage}",
        )
        self.wait_for("triage", "/-/ready")

    def start(self, name: str, *command: str) -> None:
        with self.log(name).open("ab") as log:
            # A session of its own: Ctrl-C reaches this process only, which then stops the rest.
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def stop(self, name: str) -> int:
        """Its exit status, negative for the signal that ended it."""
        process = self._running.pop(name)
        process.terminate()
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def wait_for(self, name: str, path: str) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if (status := self._running[name].poll()) is not None:
                raise StageError(f"{name} ended with status {status}:\n{self.tail(name)}")
            with contextlib.suppress(httpx.TransportError):
                if self._http.get(self.url(name) + path).status_code == httpx.codes.OK:
                    return
            time.sleep(0.05)
        raise StageError(f"{name} was not ready in {START_S:g} s:\n{self.tail(name)}")

    def tail(self, name: str, lines: int = 15) -> str:
        """The end of a server's log."""
        text = self.log(name).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    # --- asking -------------------------------------------------------------------------------

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query of PromQL."""
        response = self._http.get(
            self.url("prometheus") + "/api/v1/query", params={"query": expression}
        )
        response.raise_for_status()
        result: list[dict[str, Any]] = response.json()["data"]["result"]
        return result

    def firing(self) -> set[str]:
        """Names of the alert rules that fire."""
        found = self.query('ALERTS{alertstate="firing"}')
        return {one["metric"]["alertname"] for one in found}

    def decided(self, alarm: str, subject: str = "") -> dict[str, Any] | None:
        """The newest decision of the alarm; with `subject`, the newest that speaks of it and of
        no other: the machine may have a full disk, or a dead service, besides ours."""
        response = self._http.get(
            self.url("triage") + "/api/v1/decisions", params={"alarm": alarm, "limit": 50}
        )
        response.raise_for_status()
        for head in response.json()["decisions"]:
            document = self.decision(head["alert_id"])
            named = {node["subject"] for node in document["nodes"]} - {""}
            if not subject or not named or subject in named:
                return document
        return None

    def decision(self, alert_id: str) -> dict[str, Any]:
        response = self._http.get(f"{self.url('triage')}/api/v1/decisions/{alert_id}")
        response.raise_for_status()
        document: dict[str, Any] = response.json()
        return document

    def metrics(self) -> str:
        response = self._http.get(self.url("triage") + "/metrics")
        response.raise_for_status()
        return response.text

    # --- configuration ------------------------------------------------------------------------

    def _write_configuration(self) -> None:
        ports = self.ports
        prometheus = _yaml("prometheus.yml")
        prometheus["global"] = {
            "scrape_interval": "1s",
            "evaluation_interval": "1s",
            "external_labels": {"site": SITE},
        }
        prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [
            f"{LOCAL}:{ports.alertmanager}"
        ]
        targets = {
            "prometheus": (ports.prometheus, "monitor"),
            "triage": (ports.triage, "monitor"),
            "node": (ports.exporter, INSTANCE),
            "shop": (ports.shop, INSTANCE),
        }
        for job in prometheus["scrape_configs"]:
            port, instance = targets[job["job_name"]]
            job["static_configs"] = [
                {"targets": [f"{LOCAL}:{port}"], "labels": {"instance": instance}}
            ]
        self._dump("prometheus.yml", prometheus)

        rules = _yaml("host.rules.yml")
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule["for"] = "4s"
                rule["expr"] = rule["expr"].replace("[2m]", "[10s]")
        self._dump("host.rules.yml", rules)

        alertmanager = _yaml("alertmanager.yml")
        alertmanager["receivers"][0]["webhook_configs"][0]["url"] = (
            self.url("triage") + "/api/v1/alerts/alertmanager"
        )
        self._dump("alertmanager.yml", alertmanager)

        config = tomllib.loads((HERE / "triage.toml").read_text(encoding="utf-8"))
        for key in ("file", "sites", "library"):
            config["sop"][key] = str(HERE / config["sop"][key])
        config["store"]["url"] = f"sqlite:///{self.folder / 'triage.db'}"
        config["sources"]["prometheus"]["url"] = self.url("prometheus")
        config["sinks"]["decisions"]["path"] = str(self.folder / "decisions.jsonl")
        (self.folder / "triage.toml").write_text(tomlkit.dumps(config), encoding="utf-8")

    def _dump(self, name: str, document: object) -> None:
        (self.folder / name).write_text(yaml.safe_dump(document), encoding="utf-8")


def _yaml(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))
    return document


def _program(name: str) -> str:
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/bin"])
    for program in PROGRAMS[name]:
        if (path := shutil.which(program, path=places)) is not None:
            return path
    raise StageError(
        f"{' or '.join(PROGRAMS[name])} is not installed; "
        f"on Debian: apt-get install {PROGRAMS[name][0]}"
    )
