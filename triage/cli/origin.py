"""Where a command reads the record: the store of the configuration, or a daemon that has it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from triage.cli import options
from triage.errors import ConfigError

MAX_TOKEN_BYTES = 64 * 1024

Url = Annotated[
    str,
    typer.Option("--url", help="Ask the daemon at http://HOST:PORT instead of reading its store."),
]
TokenEnv = Annotated[
    str, typer.Option("--token-env", metavar="NAME", help="Environment variable with the token.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File that holds the token for --url.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`url` when it is given, else the store of `config`. Each field is an option."""

    config: options.Config = options.CONFIG
    url: Url = ""
    token_env: TokenEnv = ""
    token_file: TokenFile = None

    @property
    def token(self) -> str:
        """For `url`, empty when none is named. Raises BadParameter when both a variable and a file
        are, ConfigError for one that holds no token."""
        if self.token_env and self.token_file:
            raise typer.BadParameter("give one of --token-env and --token-file")
        if self.token_env:
            token = os.environ.get(self.token_env, "").strip()
            if not token:
                raise ConfigError(f"the environment variable {self.token_env} is not set, or empty")
        elif self.token_file is not None:
            token = _token_in(self.token_file)
        else:
            return ""
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise ConfigError("the token holds white space or characters that no token has")
        return token


def takes_origin(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `origin` is given by the options of one, the last of its help."""
    taken = inspect.signature(command, eval_str=True)
    own = [one for one in taken.parameters.values() if one.name != "origin"]
    named = inspect.signature(Origin, eval_str=True).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        origin = Origin(**{name: given.pop(name) for name in named})
        command(**given, origin=origin)

    run.__signature__ = taken.replace(parameters=[*own, *named.values()])  # type: ignore[attr-defined]  # of PEP 362
    return run


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            token = opened.read(MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if not token:
        raise ConfigError(f"{file}: holds no token")
    return token
