"""TLS by file and tokens, on a real socket."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import httpx
import pytest

from tests.certificates import certificate_and_key
from tests.daemon import Daemon, Project, native, running, silent_tool
from triage.app.exits import Exit

TOKEN_VARIABLE = "TEST_INGEST_TOKEN"  # noqa: S105 - the name of one
TOKEN = "an-ingest-token"  # noqa: S105 - for this test


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for this machine's loopback address, and its key."""
    made, key = certificate_and_key()
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made)
    key_file.write_bytes(key)
    return cert_file, key_file


class TlsDaemon(Daemon):
    """Its plain readiness check cannot speak TLS: the log says when it listens."""

    async def listening(self) -> str:
        self.spawn()
        [entry] = await self.until_logged("listening")
        return str(entry["url"])


async def test_alerts_come_in_over_tls_with_a_token_only(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    os.environ[TOKEN_VARIABLE] = TOKEN
    project = Project(
        folder=tmp_path / "project",
        nodes={"x": silent_tool()},
        http={"tls_cert_file": str(cert), "tls_key_file": str(key)},
        more=f'[[http.tokens]]\nname = "am"\nenv = "{TOKEN_VARIABLE}"\nscopes = ["ingest"]\n',
    ).write()
    daemon = TlsDaemon(project)
    with running(daemon):
        url = await daemon.listening()
        assert url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))
        async with httpx.AsyncClient(base_url=url, verify=trust, trust_env=False) as client:
            body = native("one", "al_x")
            assert (await client.post("/api/v1/alerts", json=body)).status_code == 401
            with_token = {"Authorization": f"Bearer {TOKEN}"}
            reply = await client.post("/api/v1/alerts", json=body, headers=with_token)
            assert reply.status_code == 202, reply.text
            assert len(reply.json()["alert_ids"]) == 1
            read = await client.get("/api/v1/decisions", headers=with_token)
            assert read.status_code == 403
            assert "read" in read.json()["error"]["problem"]
            assert (await client.get("/-/ready")).status_code == 200
        async with httpx.AsyncClient(base_url=url, trust_env=False) as stranger:
            with pytest.raises(httpx.ConnectError):
                await stranger.get("/-/ready")
        assert await daemon.terminated() == Exit.OK
        assert TOKEN not in daemon.text()


async def test_a_key_that_is_not_the_certificates_is_refused_at_start(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, key = certificate(other)
    project = Project(
        folder=tmp_path / "project",
        nodes={"x": silent_tool()},
        http={"tls_cert_file": str(cert), "tls_key_file": str(key)},
    ).write()
    with running(Daemon(project)) as daemon:
        daemon.spawn()
        assert await daemon.ended() == Exit.CONFIG
        assert "tls_key_file" in daemon.text()
        assert "Traceback" not in daemon.text()
