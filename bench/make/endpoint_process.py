"""The author's endpoint as a process of its own, as a model's server is."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

from bench.dock import LIBRARY, ROOT, SOP
from bench.fallback.endpoint_process import ScriptedEndpoint
from bench.make.author import Bugs


class AuthorEndpoint(ScriptedEndpoint):
    """`bugs` are what its first drafts get wrong."""

    name = "author"

    def __init__(
        self,
        folder: Path,
        bugs: Bugs,
        *,
        ignores_mismatches: bool = False,
        sop: Path = SOP,
        library: Path = LIBRARY,
    ) -> None:
        super().__init__(folder, sop=sop, library=library)
        self._ignores_mismatches = ignores_mismatches
        self._bugs = folder / "bugs.json"
        folder.mkdir(parents=True, exist_ok=True)
        self._bugs.write_bytes(orjson.dumps({node: list(some) for node, some in bugs.items()}))

    def argv(self) -> list[str]:
        return [
            *("/usr/bin/env", f"--chdir={ROOT}"),
            *(sys.executable, "-m", "bench.make.endpoint", "--port", str(self.port)),
            *("--sop", str(self._sop), "--library", str(self._library)),
            *("--bugs", str(self._bugs)),
            *(("--ignores-mismatches",) if self._ignores_mismatches else ()),
        ]
