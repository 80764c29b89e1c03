"""`triage serve`."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.library.ahead import begin
from triage.telemetry import logs

LISTEN = "TRIAGE_HTTP__LISTEN"

application = options.application()


@application.command()
def serve(
    config: options.Config = options.CONFIG,
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT, in place of http.listen; port 0 for any.")
    ] = "",
) -> None:
    """Take alerts in over HTTP, decide them, store and send it.

    SIGTERM drains and stops, a second one stops at once; SIGHUP reads the configuration, the
    procedure and the tools again and keeps the old ones when the new are refused. Logs go to
    standard error: for eyes on a terminal, as JSON elsewhere.

    Exit codes: 0 drained and stopped; 69 the address or the store cannot be had; 70 a fault of
    triage, or a tool that blocked the event loop (155, ended by SIGPROF, for one that also held
    the interpreter's lock); 75 stopped with alerts under way, which are kept; 78 the
    configuration was refused.
    """
    # What is imported stays: collecting while importing only finds that out, again and again.
    gc.disable()
    override = {LISTEN: listen} if listen else {}
    settings = Settings.load(config, {**os.environ, **override})
    log = settings.log
    automatic: logs.LogFormat = "console" if sys.stderr.isatty() else "json"
    logs.configure(format=automatic if log.format == "auto" else log.format, level=log.level)
    # Before the imports: on a second core, a large library is compiled while they go on here.
    ahead = begin(settings.sop.library, passed=data_folder(settings).linted)
    import uvloop

    from triage.app.daemon import serve as run
    from triage.app.garbage import settle_in
    from triage.app.server import CannotListen

    settle_in()
    try:
        code = uvloop.run(run(config, override, settings, ahead))
    except CannotListen as error:
        raise CommandFailed(str(error), Exit.UNAVAILABLE) from None
    raise typer.Exit(code)
