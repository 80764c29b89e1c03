"""The command tree, and how a command's errors become a message and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from triage import __version__
from triage.app.exits import Exit
from triage.cli import serve
from triage.errors import ConfigError

application = typer.Typer(
    name="triage",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Decides alerts by walking a written procedure with compiled, versioned tools.",
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"triage {__version__}\n")
        raise typer.Exit


@application.callback()
def root(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Common to every command."""


application.command("serve")(serve.serve)


def main() -> None:
    """A person's mistake ends with a message, never with a traceback."""
    try:
        application()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(Exit.CONFIG) from None
