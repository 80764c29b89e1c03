"""Runs commands in processes forked after the imports: those take most of a command.

Run as a program it reads jobs, one JSON object a line, from standard input, and writes
`[exit code, standard output, standard error]` for each, one a line.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from triage.cli.main import COMMANDS, main

MODULES = [
    *(f"triage.cli.{name}" for name in (*COMMANDS, "local", "remote", "probing")),
    "triage.app.daemon",
]
LIMIT_S = 120.0  # seconds one of them may take on a loaded machine

Result = tuple[int, str, str]


def run_forked(
    jobs: Sequence[tuple[Sequence[str], Path]], env: Mapping[str, str], stdin: bytes = b""
) -> list[Result]:
    """Exit code, output and errors of each (arguments, folder), one after the other. Each has
    `env` and nothing else for an environment."""
    server = _started()
    return [_ask(server, args, folder, env, stdin) for args, folder in jobs]


@cache
def _started() -> subprocess.Popen[bytes]:
    """One for all of this process's tests; it ends with its standard input."""
    server = subprocess.Popen(  # noqa: S603 - the argv is made here
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    if server.stdin is not None and server.stdout is not None:
        server.stdin.close()
        server.stdout.close()
    server.wait(LIMIT_S)


def _ask(
    server: subprocess.Popen[bytes],
    args: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    stdin: bytes,
) -> Result:
    assert server.stdin is not None
    assert server.stdout is not None
    job = {"args": [*args], "folder": str(folder), "env": {**env}, "stdin": stdin.hex()}
    server.stdin.write(json.dumps(job).encode() + b"\n")
    server.stdin.flush()
    ready, _, _ = select.select([server.stdout], [], [], LIMIT_S)
    if not ready:
        server.kill()
        _started.cache_clear()
        raise TimeoutError(f"triage {' '.join(args)}: no end after {LIMIT_S:g} s")
    line = server.stdout.readline()
    if not line:
        _started.cache_clear()
        raise RuntimeError(f"triage {' '.join(args)}: the server that forks has ended")
    code, out, err = json.loads(line)
    return code, out, err


# --- the program ------------------------------------------------------------------------------


def _fork(job: Mapping[str, Any]) -> Result:
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(bytes.fromhex(job["stdin"]))
        given.seek(0)
        child = os.fork()
        if child == 0:
            for stream, descriptor in ((given, 0), (out, 1), (err, 2)):
                os.dup2(stream.fileno(), descriptor)
            os.environ.clear()
            os.environ.update(job["env"])
            os.chdir(job["folder"])
            sys.argv = ["triage", *job["args"]]
            main()  # ends with SystemExit, and the interpreter with that
            raise SystemExit("main() returned")
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()


def _serve() -> None:
    for name in MODULES:
        import_module(name)
    # A child that ends looks through all it has, which took four fifths of most commands.
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(_fork(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
