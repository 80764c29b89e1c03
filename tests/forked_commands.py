"""Runs many commands, each in a process forked after the imports: those take most of a command.

Run as a program it reads `[[arguments, folder], …]` as JSON from standard input and writes
`[[exit code, standard output, standard error], …]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from triage.cli.main import COMMANDS, main

MODULES = [
    *(f"triage.cli.{name}" for name in (*COMMANDS, "local", "remote", "probing")),
    "triage.app.daemon",
]
LIMIT_S = 120.0  # seconds all of them may take


def run_forked(
    jobs: Sequence[tuple[Sequence[str], Path]], env: dict[str, str]
) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each (arguments, folder), one after the other."""
    done = subprocess.run(  # noqa: S603 - the argv is made here
        [sys.executable, __file__],
        input=json.dumps([[list(args), str(folder)] for args, folder in jobs]).encode(),
        env=env,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def _fork(args: Sequence[str], folder: str) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(folder)
            sys.argv = ["triage", *args]
            main()  # ends with SystemExit, and the interpreter with that
            raise SystemExit("main() returned")
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()


def _serve() -> None:
    jobs = json.load(sys.stdin)
    for name in MODULES:
        import_module(name)
    sys.stdout.write(json.dumps([_fork(args, folder) for args, folder in jobs]))


if __name__ == "__main__":
    _serve()
