"""docs/making-tools.md, done word for word: from `make` to `retire`."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tests.command_line import LIMIT_S, TOOL, TRIAGE, environment
from tests.integration.make_world import AGENT, answering, block
from tests.servers import HOST, answers_ok, free_port, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "making-tools.md"
FILE = re.compile(
    r"^`(?P<name>[a-z_.]+)`[^\n]*(?:\n[^\n`]+)*:\n\n```\w+\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "…"
LISTEN = "127.0.0.1:9797"
REPORT = "triage tools shadow obs_deep"
MODEL = "http://127.0.0.1:8177"

REPAIRED = TOOL.replace("Is the queue too deep?", "Do more jobs wait than are allowed?")
FIRST = REPAIRED.replace('">"', '">="')
SECOND = REPAIRED.replace("jobs wait", "jobs are waiting")
DIAGNOSIS = "The question says more than the allowed depth, the code also takes the depth itself."


@dataclass(slots=True)
class Model:
    """A mistake at first, mended when a failing case shows it; another wording the next time."""

    mended: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        if "# Host functions" in prompt:
            return block(AGENT)
        if "# Diagnosis" in prompt:
            self.mended = True
            return block(REPAIRED)
        if "# Failing cases" in prompt:
            return DIAGNOSIS
        return block(SECOND if self.mended else FIRST)


@dataclass(frozen=True, slots=True)
class Command:
    """`said` are the lines shown below it."""

    line: str
    said: tuple[str, ...]


def files(page: str) -> Mapping[str, str]:
    return {found["name"]: found["text"] for found in FILE.finditer(page)}


def commands(page: str) -> Iterator[Command]:
    for found in CONSOLE.finditer(page):
        for part in re.split(r"^\$ ", found["text"], flags=re.MULTILINE)[1:]:
            line, *said = part.rstrip("\n").split("\n")
            yield Command(line, tuple(one for one in said if one.strip() and one != ANYTHING))


class Shell:
    """Runs the page's commands in a folder, with `triage` on the path, and its ports moved."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder = folder
        self._model = model
        self._port = free_port()
        self._serving: subprocess.Popen[bytes] | None = None
        bin_folder = folder.parent / "bin"
        bin_folder.mkdir()
        shim = bin_folder / "triage"
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(TRIAGE)} "$@"\n')
        shim.chmod(0o755)
        (bin_folder / "python3").symlink_to(sys.executable)
        self._env = environment(
            {
                "PATH": f"{bin_folder}:{os.environ['PATH']}",
                "USER": "ann",
                "COLUMNS": "200",
                "PYTHONPATH": str(PAGE.parents[1]),
                "TRIAGE_HTTP__LISTEN": f"{HOST}:{self._port}",
            }
        )

    def moved(self, text: str) -> str:
        return text.replace(LISTEN, f"{HOST}:{self._port}").replace(MODEL, self._model)

    def run(self, line: str) -> str:
        """All that it said. One that ends with `&` goes on, and is waited for until it is ready."""
        line = self.moved(line)
        if line.endswith("&"):
            self._serve(line.removesuffix("&").strip())
            return ""
        done = subprocess.run(  # noqa: S603 - a line of our own page
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            timeout=2 * LIMIT_S,
            check=False,
        )
        said = (done.stdout + done.stderr).decode()
        assert "Traceback" not in said, said
        return said

    def shows(self, command: Command) -> None:
        """Runs it. A report is asked for again while decisions are still compared."""
        said = self.run(command.line)
        if command.line == REPORT:

            def again() -> bool:
                nonlocal said
                said = self.run(command.line)
                return shows(said, command.said[0])

            wait_until(again, what="a comparison", process=self._serving)
        for line in command.said:
            assert shows(said, self.moved(line)), f"$ {command.line}\n{said}\nlacks: {line}"

    def _serve(self, line: str) -> None:
        with (self.folder / "serve.log").open("wb") as log:
            self._serving = subprocess.Popen(  # noqa: S603 - likewise
                shlex.split(f"exec {line}")[1:], cwd=self.folder, env=self._env, stderr=log
            )
        ready = f"http://{HOST}:{self._port}/-/ready"
        wait_until(lambda: answers_ok(ready), what="the daemon", process=self._serving)

    def close(self) -> None:
        if self._serving is not None:
            self._serving.kill()
            self._serving.wait()


def shows(said: str, line: str) -> bool:
    """Whether some line of `said` is `line`, in which … stands for anything, and spaces for any
    number of them."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in line.split(ANYTHING)]
    pattern = re.compile(r"\s*" + r".*?".join(rf"\s*{part}\s*" for part in parts) + r"\s*")
    return any(pattern.fullmatch(one) for one in said.splitlines())


async def test_the_page_word_for_word(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    model = Model()
    async with answering(model) as server:
        folder = tmp_path / "project"
        folder.mkdir()
        shell = Shell(folder, server.url)
        for name, text in files(page).items():
            (folder / name).write_text(shell.moved(text))
        try:
            for command in commands(page):
                await asyncio.to_thread(shell.shows, command)
        finally:
            shell.close()
    assert model.mended
    manifest = (folder / "tools_lib" / "obs_deep" / "tool.toml").read_text()
    verbs = re.findall(r'verb = "(\w+)"', manifest)
    assert verbs[0] == "add"
    assert verbs[-1] == "retire"
    assert {"promote", "shadow", "rollback", "deprecate"} <= set(verbs)
    made = orjson.loads((folder / "tools_lib" / "obs_deep" / "made" / "v1.json").read_bytes())
    assert made["rounds"]
