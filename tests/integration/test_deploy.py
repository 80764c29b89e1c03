"""What lies in deploy/ for compose, systemd and Kubernetes: checked as far as it runs here."""

from __future__ import annotations

import configparser
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.redis_server import RedisServer
from tests.integration.deploy_world import DEPLOY, KUBERNETES, run
from tests.servers import HOST, binary
from triage.app.deliveries import make_queue
from triage.app.delivery_sections import QueueSection
from triage.app.exits import Exit
from triage.app.settings import Settings
from triage.cli.main import COMMANDS
from triage.clock import SystemClock

DRAIN_S = tomllib.loads((DEPLOY / "triage.toml").read_text())["http"]["drain_s"]
AFTER_S = 10  # seconds from the drain's end to the process's


def seconds(text: str) -> int:
    """Of `35s` or `35`."""
    return int(text.removesuffix("s"))


# --- the configuration that all three start from --------------------------------------------------


def configurations() -> dict[str, str]:
    (of_kubernetes,) = yaml.safe_load_all((KUBERNETES / "config.yaml").read_text())
    return {
        "deploy/triage.toml": (DEPLOY / "triage.toml").read_text(),
        "kubernetes/config.yaml": of_kubernetes["data"]["triage.toml"],
    }


@pytest.mark.parametrize("name", list(configurations()))
def test_the_configuration_is_accepted_with_its_secrets(tmp_path: Path, name: str) -> None:
    config = tmp_path / "triage.toml"
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    text = configurations()[name]
    for file in set(re.findall(r'file = "(/run/secrets/[^"]+)"', text)):
        (secrets / Path(file).name).write_text("t0ken\n")
        text = text.replace(file, str(secrets / Path(file).name))
    config.write_text(text)
    (secrets / "store_url").write_text("postgresql://triage:word@postgres:5432/triage\n")
    (secrets / "queue_url").write_text("redis://triage:word@redis:6379/0\n")
    env = {
        "TRIAGE_STORE__URL_FILE": str(secrets / "store_url"),
        "TRIAGE_QUEUE__URL_FILE": str(secrets / "queue_url"),
    }
    settings = Settings.load(config, env)
    assert settings.store.address == "postgresql://triage:word@postgres:5432/triage"
    assert settings.queue.address == "redis://triage:word@redis:6379/0"
    assert [token.token for token in settings.http.tokens] == ["t0ken", "t0ken"]
    assert settings.http.drain_s == DRAIN_S


# --- compose --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What compose-secrets.sh makes."""
    folder = tmp_path_factory.mktemp("deploy") / "secrets"
    run("/bin/sh", DEPLOY / "compose-secrets.sh", folder)
    return folder


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return document


def test_secrets_are_made_once_and_are_nobody_elses(secrets: Path) -> None:
    before = {file.name: file.read_text() for file in secrets.iterdir()}
    run("/bin/sh", DEPLOY / "compose-secrets.sh", secrets)
    assert {file.name: file.read_text() for file in secrets.iterdir()} == before
    assert secrets.stat().st_mode & 0o777 == 0o700
    for name, secret in compose()["secrets"].items():
        assert secret["file"] == f"./secrets/{name}"
        assert before[name].strip()
    assert before["postgres_password"].strip() in before["store_url"]
    assert len(before["intake_token"].strip()) == 48
    assert before["intake_token"] != before["operator_token"]
    QueueSection(url=before["queue_url"].strip())
    QueueSection(url=before["nats_url"].strip())


def test_compose_services_are_pinned_hardened_and_watched() -> None:
    document = compose()
    for name, service in document["services"].items():
        assert service["read_only"] is True, name
        assert "no-new-privileges:true" in service["security_opt"], name
        tag = service["image"].partition(":")[2]
        assert tag, name
        assert "latest" not in tag, name
        if "build" not in service:
            assert re.search(r"\d+\.\d+", tag), name
            assert service["healthcheck"]["test"], name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name
        for secret in service.get("secrets", ()):
            assert secret in document["secrets"], name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).exists(), volume
            elif not source.startswith("$"):
                assert source in document["volumes"], volume
    triage = document["services"]["triage"]
    assert triage["deploy"]["replicas"] == 2
    assert seconds(triage["stop_grace_period"]) >= DRAIN_S + AFTER_S
    assert triage["depends_on"]["upgrade"]["condition"] == "service_completed_successfully"
    assert document["networks"]["back"]["internal"] is True


async def test_the_redis_of_compose_keeps_what_it_is_told(secrets: Path, tmp_path: Path) -> None:
    """Its own configuration and users, and what `triage check --connect` says of them: nothing."""
    text = (DEPLOY / "redis" / "redis.conf").read_text()
    text = text.replace("/run/secrets/redis_users", str(secrets / "redis_users"))
    text = re.sub(r"(?m)^dir .*$", "", text)
    config = tmp_path / "redis.conf"
    config.write_text(text)
    with _ConfiguredRedis(tmp_path / "redis", config) as redis:
        written = (secrets / "queue_url").read_text().strip()
        url = re.sub(r"@redis:6379", f"@{HOST}:{redis.port}", written)
        queue = make_queue(QueueSection(url=url), lease_s=30, clock=SystemClock())
        assert queue is not None
        try:
            assert await queue.weaknesses() == []
            assert set((await queue.depth()).values()) == {0}
        finally:
            await queue.close()
        stranger = make_queue(
            QueueSection(url=f"redis://{HOST}:{redis.port}/0"), lease_s=30, clock=SystemClock()
        )
        assert stranger is not None
        try:
            with pytest.raises(Exception, match=r"(?i)permission|auth"):
                await stranger.depth()
        finally:
            await stranger.close()


class _ConfiguredRedis(RedisServer):
    """With a configuration file, and nothing that would override it."""

    def __init__(self, folder: Path, config: Path) -> None:
        super().__init__(folder)
        self._config = config

    def argv(self) -> list[str]:
        return [
            self._binary, str(self._config),
            *("--bind", HOST, "--port", str(self.port), "--dir", str(self.data)),
        ]  # fmt: skip


def test_the_nats_of_compose_takes_its_file(secrets: Path, tmp_path: Path) -> None:
    text = (DEPLOY / "nats" / "nats.conf").read_text()
    users = tmp_path / "run" / "secrets" / "nats_users"
    users.parent.mkdir(parents=True)
    shutil.copy(secrets / "nats_users", users)
    config = tmp_path / "etc" / "nats" / "nats.conf"
    config.parent.mkdir(parents=True)
    server = binary("nats-server")
    version = re.search(r"v(\d+)\.(\d+)", run(server, "--version"))
    assert version is not None
    if (int(version[1]), int(version[2])) < (2, 10):
        text = text.replace("sync_interval: always", "")
    config.write_text(text)
    assert "is valid" in run(server, "--config", config, "-t")


# --- systemd --------------------------------------------------------------------------------------


@pytest.fixture
def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as configparser wants it
    parser.read(DEPLOY / "systemd" / "triage.service")
    return parser["Service"]


def test_the_unit_lets_the_daemon_drain_and_leaves_what_cannot_start(
    unit: configparser.SectionProxy,
) -> None:
    assert seconds(unit["TimeoutStopSec"]) >= DRAIN_S + AFTER_S
    assert unit["Restart"] == "on-failure"
    final = {int(code) for code in unit["RestartPreventExitStatus"].split()}
    assert final == {Exit.CONFIG, Exit.USAGE}
    assert unit["ExecReload"].startswith("/bin/kill -HUP ")
    # SIGTERM to the whole group would end MCP servers and sandboxes before the drain.
    assert unit["KillMode"] == "mixed"
    for name, value in {
        "DynamicUser": "yes",
        "StateDirectory": "triage",
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
    }.items():
        assert unit[name] == value


def test_the_units_environment_is_accepted(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "triage.service").read_text()
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    for name in re.findall(r"(?m)^LoadCredential=(\w+):", text):
        (credentials / name).write_text("t0ken")
    found = re.findall(r"(?m)^Environment='?(\w+)=(.*?)'?$", text)
    env = {name: value.replace("%d", str(credentials)) for name, value in found}
    config = tmp_path / "triage.toml"
    config.write_text((DEPLOY / "triage.toml").read_text())
    settings = Settings.load(config, env)
    assert settings.store.address == "sqlite:////var/lib/triage/triage.db"
    assert [(token.name, token.token) for token in settings.http.tokens] == [
        ("intake", "t0ken"),
        ("operator", "t0ken"),
    ]


def test_systemd_itself_finds_nothing_wrong(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "triage"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = (DEPLOY / "systemd" / "triage.service").read_text()
    copied = tmp_path / "triage.service"
    copied.write_text(text.replace("/opt/triage/bin/triage", str(program)))
    assert "triage.service" not in run(analyze, "verify", "--man=no", copied)
    said = run(analyze, "security", "--offline=true", "--no-pager", "--threshold=30", copied)
    assert "Overall exposure level" in said


# --- Kubernetes -----------------------------------------------------------------------------------


def manifests() -> dict[str, dict[str, Any]]:
    """By kind; there is one of each."""
    found = {}
    for file in sorted(KUBERNETES.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            assert document["kind"] not in found
            found[document["kind"]] = document
    return found


def test_a_replica_has_time_to_drain_and_is_watched() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] >= DRAIN_S + AFTER_S
    assert container["readinessProbe"]["httpGet"]["path"] == "/-/ready"
    # A replica that is not ready must be left running: its store or queue is what is down.
    assert container["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert container["startupProbe"]["httpGet"]["path"] == "/-/healthy"
    assert "lifecycle" not in container


def test_one_replica_is_always_left() -> None:
    found = manifests()
    deployment = found["Deployment"]["spec"]
    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    labels = deployment["template"]["metadata"]["labels"].items()
    budget = found["PodDisruptionBudget"]["spec"]
    assert budget["minAvailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels
    service = found["Service"]["spec"]
    assert service["selector"].items() <= labels
    assert service["publishNotReadyAddresses"] is True


def test_both_pods_have_no_rights_and_the_same_image_and_files() -> None:
    found = manifests()
    images = set()
    for kind in ("Deployment", "Job"):
        pod = found[kind]["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        images.add(container["image"])
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
        assert volumes["config"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert container["args"][-1] == f"{mounted['config']}/triage.toml"
        for variable in container["env"]:
            assert variable["value"].startswith(f"{mounted['secrets']}/")
        command = container["args"][0]
        assert command in COMMANDS
    assert len(images) == 1
    assert ":latest" not in images.pop()
    assert found["Job"]["spec"]["template"]["spec"]["containers"][0]["args"][:2] == [
        "db",
        "upgrade",
    ]
