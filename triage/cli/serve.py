"""`triage serve`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from triage.app.exits import Exit
from triage.app.settings import Settings
from triage.telemetry import logs

LISTEN = "TRIAGE_HTTP__LISTEN"


def serve(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="The configuration file.")
    ] = Path("triage.toml"),
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT, in place of http.listen; port 0 for any.")
    ] = "",
) -> None:
    """Take alerts in over HTTP, decide them, store and send the decisions.

    SIGTERM drains and stops, a second one stops at once; SIGHUP reloads.

    Exit codes: 0 drained and stopped; 69 the address cannot be had; 70 a fault of triage, or a
    tool that blocked the event loop; 75 stopped with alerts under way, which are kept; 78 the
    configuration was refused.
    """
    override = {LISTEN: listen} if listen else {}
    settings = Settings.load(config, {**os.environ, **override})
    log = settings.log
    logs.configure(
        format=("console" if sys.stderr.isatty() else "json") if log.format == "auto" else log.format,
        level=log.level,
    )
    import uvloop

    from triage.app.daemon import serve as run
    from triage.app.server import CannotListen

    try:
        code = uvloop.run(run(config, override, settings))
    except CannotListen as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(Exit.UNAVAILABLE) from None
    raise typer.Exit(code)
