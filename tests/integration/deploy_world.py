"""Where deploy/ is, and how the programs that it is for are run on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def run(*argv: str | Path, cwd: Path = DEPLOY, errors: bool = True) -> str:
    """What it printed, with its errors. Fails when it does."""
    done = subprocess.run(  # noqa: S603 - the argv is made here
        [str(one) for one in argv],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
        timeout=100,
        check=False,
    )
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 0, text
    return text
