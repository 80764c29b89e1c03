"""Options and arguments that several commands have, and how their text is read."""

from __future__ import annotations

import getpass
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Option("--config", "-c", help="The configuration file.")]
CONFIG = Path("triage.toml")
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
By = Annotated[
    str, typer.Option("--by", metavar="NAME", help="Who does this; your user name by default.")
]
Note = Annotated[str, typer.Option("--note", help="Why, for the tool's history.")]
Cursor = Annotated[str, typer.Option("--cursor", help="Go on where an earlier page ended.")]

MOMENT = "an ISO 8601 time with its offset, such as 2026-06-01T12:31:00Z; `now`; or 90s, 15m, 2h, "
MOMENT += "3d ago"

_AGO = re.compile(r"([0-9]{1,9})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MAX_AGO_S = 200 * 365 * 86_400


def application(summary: str = "") -> typer.Typer:
    """What a command's module hangs its command or commands on."""
    return typer.Typer(
        help=summary,
        no_args_is_help=bool(summary),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def moment(text: str, option: str, now: datetime) -> datetime:
    """An aware UTC time from what MOMENT describes. Raises BadParameter naming the option."""
    if text == "now":
        return now
    if (ago := _AGO.fullmatch(text)) is not None:
        seconds = int(ago[1]) * _UNITS[ago[2]]
        if seconds <= _MAX_AGO_S:
            return now - timedelta(seconds=seconds)
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is no time: give {MOMENT}", param_hint=option)


def optional_moment(text: str, option: str, now: datetime) -> datetime | None:
    return moment(text, option, now) if text else None


def person(given: str, option: str) -> str:
    """`given`, or the name of whoever runs this. Raises BadParameter when there is none."""
    if given:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise typer.BadParameter(
            "your user has no name here: say who you are", param_hint=option
        ) from None


def bounded(text: str, limit: int, option: str) -> str:
    """`text`. Raises BadParameter when it has more than `limit` characters."""
    if len(text) > limit:
        raise typer.BadParameter(f"give at most {limit} characters", param_hint=option)
    return text


def read_input(file: str, limit: int, what: str) -> bytes:
    """The bytes of a file, or of standard input for `-`. Raises BadParameter."""
    try:
        if file == "-":
            if sys.stdin.isatty():
                sys.stderr.write(f"reading {what} from standard input; end it with Ctrl-D\n")
            body = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(file).open("rb") as opened:
                body = opened.read(limit + 1)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise typer.BadParameter(f"{file}: cannot be read: {problem}") from None
    if len(body) > limit:
        raise typer.BadParameter(f"{file}: is larger than {limit} bytes")
    return body
