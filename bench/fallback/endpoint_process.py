"""The scripted endpoint as a process of its own, as a model's server is, and its controls."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from bench.dock import LIBRARY, ROOT, SOP
from bench.fallback.endpoint import MODEL, Mode
from bench.servers import HOST, Server

CONTROL_S = 30.0


class ScriptedEndpoint(Server):
    """`sop` and `library` are what it learned: a tool for every text it is to know."""

    name = "endpoint"
    ready_path = "/-/ready"
    model = MODEL

    def __init__(self, folder: Path, *, sop: Path = SOP, library: Path = LIBRARY) -> None:
        super().__init__(folder)
        self._sop = sop
        self._library = library

    @property
    def llm_url(self) -> str:
        """The base of its API."""
        return f"{self.url}/v1"

    def argv(self) -> list[str]:
        return [
            *("/usr/bin/env", f"--chdir={ROOT}"),
            *(sys.executable, "-m", "bench.fallback.endpoint", "--port", str(self.port)),
            *("--sop", str(self._sop), "--library", str(self._library)),
        ]

    def switch(self, mode: Mode) -> dict[str, Any]:
        """From the next request on. Returns what it counted so far."""
        return self._control(json.dumps({"mode": mode.value}).encode())

    def counts(self) -> dict[str, Any]:
        return self._control(None)

    def _control(self, body: bytes | None) -> dict[str, Any]:
        request = urllib.request.Request(f"http://{HOST}:{self.port}/control", data=body)
        with urllib.request.urlopen(request, timeout=CONTROL_S) as response:  # noqa: S310 - our own local URL
            counted: dict[str, Any] = json.load(response)
        return counted
