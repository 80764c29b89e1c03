"""The command tree itself: help, exit codes, and what an error ends as."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from triage import __version__
from triage.app.exits import Exit
from triage.cli.exit_codes import MEANINGS, CommandFailed
from triage.cli.main import COMMANDS, application, command_name
from triage.errors import (
    ConfigError,
    Finding,
    InvalidFiles,
    PayloadError,
    SourceFailed,
    SourceFailure,
    StoreError,
)


def invoke(*args: str) -> Any:
    return CliRunner().invoke(application, list(args), prog_name="triage")


def test_the_version() -> None:
    assert invoke("--version").output == f"triage {__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_and_every_exit_code(flag: str) -> None:
    result = invoke(flag)
    assert result.exit_code == 0
    for module, line in COMMANDS.items():
        assert f"  {command_name(module)}" in result.output
        assert line in result.output
    for code, meaning in MEANINGS.items():
        first, *rest = meaning.split("\n")
        assert f"{int(code):>4}  {first}" in result.output
        assert all(line.strip() in result.output for line in rest)


def test_every_exit_code_has_a_meaning() -> None:
    assert set(Exit) <= set(MEANINGS)


@pytest.mark.parametrize("module", COMMANDS)
def test_the_listed_line_is_the_commands_own(module: str) -> None:
    command = get_command(import_module(f"triage.cli.{module}").application)
    assert (command.help or "").split("\n")[0] == COMMANDS[module]


def _leaves(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if not below:
        return [(path, command)]
    return [leaf for name, each in below.items() for leaf in _leaves(each, (*path, name))]


LEAVES = [
    leaf
    for module in COMMANDS
    for leaf in _leaves(
        get_command(import_module(f"triage.cli.{module}").application), (command_name(module),)
    )
]


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_says_what_its_exit_codes_mean(path: tuple[str, ...], command: Any) -> None:
    assert "Exit codes: 0" in command.help
    result = invoke(*path, "-h")
    assert result.exit_code == 0
    assert "Exit codes:" in result.output
    for parameter in command.params:
        assert parameter.help or parameter.name == "help", f"{parameter.name} has no help"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CommandFailed("no such thing", Exit.FINDINGS), 1, "no such thing"),
        (ConfigError("mend it"), 78, "mend it"),
        (
            InvalidFiles([Finding(file="f", line=3, problem="is bad", fix="mend it")]),
            78,
            "f:3: is bad — mend it",
        ),
        (PayloadError("cursor", "is none"), 2, "cursor: is none"),
        (StoreError("disk full"), 69, "disk full"),
        (SourceFailed(SourceFailure.CONNECT, "gone"), 70, "source_connect: gone"),
        (FileNotFoundError(2, "No such file", "x\x1by"), 69, "x\\x1by: No such file"),
        (ConfigError("evil \x1b[31m\nsecond"), 78, "evil \\x1b[31m\nsecond"),
    ],
)
def test_errors_become_a_message_and_a_code(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str
) -> None:
    result = _invoke_raising(monkeypatch, error)
    assert result.exit_code == code
    assert result.output == f"triage: {said}\n"


def test_a_fault_of_ours_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _invoke_raising(monkeypatch, ZeroDivisionError("x"))
    assert result.exit_code == Exit.INTERNAL
    assert "ZeroDivisionError" in result.output
    assert result.output.endswith("please report it\n")


def test_interruption_has_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _invoke_raising(monkeypatch, KeyboardInterrupt()).exit_code == 130


def _invoke_raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Any:
    raising = typer.Typer(add_completion=False)

    @raising.command()
    def schema() -> None:
        raise error

    monkeypatch.setattr(import_module("triage.cli.schema"), "application", raising)
    return invoke("schema")


HEAVY = ("sqlalchemy", "alembic", "mcp", "httpx", "starlette", "uvicorn")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("main", (*HEAVY, "rich", "structlog", "pydantic")),
        ("check", (*HEAVY, "structlog", "prometheus_client")),
        ("tools", (*HEAVY, "structlog", "prometheus_client")),
        ("serve", (*HEAVY, "triage.cli.tree", "triage.cli.output")),
        ("decisions", HEAVY),
        ("gaps", HEAVY),
        ("dead_letters", (*HEAVY, "structlog", "prometheus_client")),
        ("db", (*HEAVY, "psycopg")),
        ("run", HEAVY),
        ("test", HEAVY),
    ],
)
def test_a_command_does_not_import_what_only_others_need(
    module: str, absent: tuple[str, ...]
) -> None:
    program = (
        f"import sys, triage.cli.{module}\n"
        f"sys.exit(', '.join(name for name in {absent!r} if name in sys.modules))"
    )
    done = subprocess.run(  # noqa: S603 - the argv is made here
        [sys.executable, "-c", program], check=False, capture_output=True
    )
    assert done.stderr.decode().strip() == ""
