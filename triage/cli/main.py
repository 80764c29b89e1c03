"""The command tree, and how a command's errors become a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from triage import __version__
from triage.app.exits import Exit
from triage.cli.exit_codes import INTERRUPTED, READER_GONE, CommandFailed, epilog
from triage.cli.text import printable_lines
from triage.errors import ConfigError, PayloadError, StoreError, TriageError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "init": "Make a new project that can be checked and served.",
        "check": "Find what is wrong with configuration, SOP, sites and tools.",
        "serve": "Take alerts in over HTTP, decide them, store and send it.",
        "run": "Decide one payload's alerts here and now, and show the walk.",
        "decisions": "Read stored decisions.",
        "dead_letters": "Look at what was given up; try it again, or take it out.",
        "gaps": "Look at what no tool could answer; close what is dealt with.",
        "replay": "Make stored decisions again; show which would change and why.",
        "test": "Run golden cases: alerts whose decisions must not change.",
        "cases": "Add, list and check the labelled cases of nodes.",
        "doctor": "Find what is wrong with the tools that are at work.",
        "retest": "Try the active tools on their cases again.",
        "tools": "Look at the tools, and change which version is active.",
        "make": "Make a tool for a node from its text and labelled cases.",
        "ledger": "Count what was accepted and what became of it.",
        "db": "See and upgrade the schema of the store.",
        "schema": "Print the JSON Schema of a file you write, for editors.",
    }
)
"""Each is a module of this package, imported when it is used: `--help` needs none of them, and
`serve` does not pay for what only others need."""


def command_name(module: str) -> str:
    """What a person types for a module of COMMANDS."""
    return module.replace("_", "-")


class Commands(TyperGroup):
    """Loads a command when it is called, and ends every command's errors here."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for module, line in COMMANDS.items():
            name = command_name(module)
            self.commands[name] = TyperCommand(name=name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        if found is not None:
            module = str(found.name).replace("-", "_")
            found = get_command(import_module(f"triage.cli.{module}").application)
        return name, found, rest

    def invoke(self, ctx: Any) -> Any:
        with _errors_told():
            result = super().invoke(ctx)
            sys.stdout.flush()  # here a reader that went away can still be told from a fault
            return result


application = typer.Typer(
    name="triage",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decides alerts by walking a written procedure with compiled, versioned tools.",
    epilog=epilog(),
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


def main() -> None:
    """A person's mistake ends with a message and a documented code, never with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What the terminal's encoding lacks must not end a command.
            stream.reconfigure(errors="backslashreplace")
    try:
        application(prog_name="triage")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _let_go_of_stdout()
        raise typer.Exit(READER_GONE) from None
    except CommandFailed as error:
        raise _told(error, error.code) from None
    except ConfigError as error:
        raise _told(error, Exit.CONFIG) from None
    except PayloadError as error:
        raise _told(error, Exit.USAGE) from None
    except StoreError as error:
        raise _told(error, Exit.UNAVAILABLE) from None
    except TriageError as error:
        raise _told(error, Exit.INTERNAL) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _told(f"{where}{error.strerror or error}", Exit.UNAVAILABLE) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if hasattr(error, "exit_code"):
            raise  # a usage error, which typer tells
        # A fault of this project. Its code must not be the one that says "findings".
        traceback.print_exc()
        raise _told("this is a fault of triage: please report it", Exit.INTERNAL) from None


def _told(error: object, code: Exit) -> typer.Exit:
    sys.stdout.flush()
    sys.stderr.write(f"triage: {printable_lines(str(error))}\n")
    return typer.Exit(code)


def _let_go_of_stdout() -> None:
    """The interpreter flushes standard output once more at its end, which must not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
