"""The real command line in a process of its own, and a project for it to work on."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.forked_commands import run_forked
from tests.servers import HOST, answers_ok, free_port, wait_until

TRIAGE = (sys.executable, "-m", "triage")
LIMIT_S = 60.0  # seconds a command may take on a loaded machine


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's own, without settings of triage and without a width."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRIAGE_") and k != "COLUMNS"}
    return {**kept, **(more or {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be JSON and nothing else."""
        return orjson.loads(self.out)


def triage(
    *args: str, cwd: Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Ended:
    """Runs one command to its end, in a process of its own. None may ever show a traceback."""
    if any(name.startswith("PYTHON") for name in env or {}):
        ended = _started_anew(args, cwd, stdin, environment(env))
    else:
        [(code, out, err)] = run_forked([(args, cwd)], environment(env), stdin)
        ended = Ended(code=code, out=out, err=err)
    assert "Traceback" not in ended.err, ended.err
    return ended


def _started_anew(args: Sequence[str], cwd: Path, stdin: bytes, env: Mapping[str, str]) -> Ended:
    """With an interpreter of its own, which reads such variables once, at its start."""
    done = subprocess.run(  # noqa: S603 - the argv is made here
        [*TRIAGE, *args],
        cwd=cwd,
        input=stdin,
        env=dict(env),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


class Daemon:
    """`triage serve` on a port of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "serve.log"
        self._env = env
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - the argv is made here
                [*TRIAGE, "serve", "--listen", f"{HOST}:{self.port}"],
                cwd=self.folder,
                env=environment(self._env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(
                lambda: answers_ok(f"{self.url}/-/ready"), what="triage serve", process=self.process
            )
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{self.log.read_text()[-2000:]}") from None

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=LIMIT_S)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def serving(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    daemon = Daemon(folder, env)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.kill()


# --- a project -------------------------------------------------------------------------------

TOML = """\
[sop]
file = "sop.yaml"
[sources.tables]
type = "sql"
url = "sqlite:///facts.db"
[intake]
default_site = "home"
"""

SOP = """\
sop: queues
version: 7
alarms: {QueueDeep: [obs_deep]}
params: {depth: {value: 10, unit: jobs}}
nodes:
  obs_deep:
    kind: observation
    text: Is the queue too deep?
    sources: [tables]
    on_true: [add_worker]
    on_false: [close_alert]
    on_failed: [look]
actions:
  close_alert: {text: Close it, rank: 1, cost: low, yields: true}
  add_worker: {text: Add a worker, rank: 2, cost: low}
  look: {text: Look, rank: 2, cost: low}
"""

TOOL = '''\
"""Is the queue too deep?"""

from triage.tool_api import compare, conclude, no_data, rows


def queries(warehouse, timestamp, context):
    return [rows("tables", "select depth from queues where name = :name", name=context.entity)]


def evaluate(warehouse, timestamp, context):
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no such queue")
    depth = float(found[0]["depth"])
    limit = float(context.params["depth"])
    return conclude([compare("depth", depth, ">", limit, "jobs")], f"{depth:g} jobs wait")
'''

ALERT = {"alarm": "QueueDeep", "entity": "mail", "fired_at": "2026-06-01T12:31:00Z"}


def make_project(folder: Path) -> Path:
    """A procedure of one node, with an active tool that asks an SQLite file. Returns `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "triage.toml").write_text(TOML)
    (folder / "sop.yaml").write_text(SOP)
    (folder / "tool.py").write_text(TOOL)
    (folder / "tools_lib").mkdir()
    with sqlite3.connect(folder / "facts.db") as facts:
        facts.execute("create table queues (name text, depth integer)")
        facts.executemany("insert into queues values (?, ?)", [("mail", 40), ("idle", 0)])
    facts.close()
    added = triage("tools", "add", "obs_deep", "tool.py", "--maker", "ann", cwd=folder)
    assert (added.code, added.out) == (0, "obs_deep: version 1 is a candidate\n")
    promoted = triage("tools", "promote", "obs_deep", "--by", "bob", cwd=folder)
    assert (promoted.code, promoted.out) == (0, "obs_deep: version 1 is active\n")
    return folder
