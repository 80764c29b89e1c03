"""Logs as events with fields: one line each, of this program and of the libraries it uses.

Everything goes through one standard-library handler, so that uvicorn, SQLAlchemy, Alembic, mcp and
httpx come out in the same form. Own code logs with `structlog.get_logger()`, event names and
fields; an exception is logged by whoever handles it, once.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["json", "console"]
LEVELS = ("debug", "info", "warning", "error", "critical")

# Their INFO is one line a request or a step, their DEBUG holds payloads.
QUIET = {
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore2": logging.WARNING,
    "mcp": logging.WARNING,
    "sqlalchemy": logging.WARNING,
    "alembic": logging.WARNING,
    "asyncio": logging.WARNING,
    "uvicorn.access": logging.WARNING,
}
MASK = "**********"
SECRET = re.compile(
    r"(^|[_\-.])(secrets?|password|passwd|token|authorization|api[_-]?key|cookie|credentials?)$",
    re.IGNORECASE,
)
"""`auth_token` but not `token_file` or `input_tokens`."""


def configure(
    *,
    format: LogFormat = "json",  # noqa: A002 - the settings' own word
    level: str = "info",
    stream: TextIO | None = None,
) -> None:
    """Send all logs of the process to `stream` (standard error) from now on; may be called again.

    JSON is one object a line with `event`, `level`, `logger`, `timestamp` (ISO 8601, UTC) and the
    event's fields; console is for eyes, coloured on a terminal only. Raises ValueError for a level
    that is none of LEVELS.
    """
    number = _number(level)
    stream = stream if stream is not None else sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_colours,
                *_renderers(format, colors=stream.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for name, least in QUIET.items():
        # At debug they keep quiet too: a payload may hold what must not be in a log.
        logging.getLogger(name).setLevel(max(least, number))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.captureWarnings(True)


def set_level(level: str) -> None:
    """Change how much is logged, as a reload may. Raises ValueError as `configure` does."""
    number = _number(level)
    logging.getLogger().setLevel(number)
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(max(least, number))


def mask_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replace the value of every field that is named like a secret, at any depth of mappings.

    A net under the types that hide themselves, not a substitute for them: a secret inside a text
    passes.
    """
    del logger, method
    for key, value in event.items():
        if _is_secret(key):
            event[key] = MASK
        elif isinstance(value, Mapping):
            event[key] = _masked(value)
    return event


def _masked(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        key: MASK if _is_secret(key) else _masked(value) if isinstance(value, Mapping) else value
        for key, value in fields.items()
    }


def _is_secret(key: object) -> bool:
    return isinstance(key, str) and SECRET.search(key) is not None


def _without_colours(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """uvicorn repeats its messages with escape sequences in an extra field."""
    event.pop("color_message", None)
    return event


def _renderers(log_format: LogFormat, *, colors: bool) -> list[Processor]:
    if log_format == "console":
        return [
            structlog.dev.ConsoleRenderer(
                colors=colors, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    return [structlog.processors.format_exc_info, _render_json]


def _render_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    # A log line must come out whatever a field holds: `str` for what JSON has no form for, and
    # keys that are no strings as text. Lone surrogates, which UTF-8 cannot hold, are escaped.
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        return orjson.dumps({str(key): _printable(value) for key, value in event.items()}).decode()


def _printable(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _number(level: str) -> int:
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not a log level: use one of {', '.join(LEVELS)}")
    return logging.getLevelNamesMapping()[level.upper()]
