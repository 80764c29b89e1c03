"""Logs come out as one event a line, whoever wrote them."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
import structlog
from pydantic import SecretStr

from triage.telemetry import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A stream to log to; whatever was configured before is back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.captureWarnings(False)


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_object_with_its_fields(stream: io.StringIO) -> None:
    logs.configure(format="json", level="info", stream=stream)
    log = structlog.get_logger("triage.worker").bind(alert_id="abc")
    log.info("decided", outcome="actions", took_ms=1.5)
    log.debug("hidden")
    (event,) = events(stream)
    stamp = datetime.fromisoformat(event.pop("timestamp"))
    assert stamp.utcoffset() == datetime.now(UTC).utcoffset()
    assert event == {
        "event": "decided",
        "level": "info",
        "logger": "triage.worker",
        "alert_id": "abc",
        "outcome": "actions",
        "took_ms": 1.5,
    }


@pytest.mark.parametrize("name", ["uvicorn.error", "sqlalchemy.pool", "alembic", "mcp.x", "httpx"])
def test_libraries_come_out_in_the_same_form(stream: io.StringIO, name: str) -> None:
    logging.getLogger(name).handlers.clear()
    logs.configure(format="json", level="info", stream=stream)
    logging.getLogger(name).warning("lost %s of %d", "one", 2)
    (event,) = events(stream)
    assert (event["event"], event["level"], event["logger"]) == ("lost one of 2", "warning", name)


def test_library_chatter_is_left_out_even_at_debug(stream: io.StringIO) -> None:
    logs.configure(format="json", level="debug", stream=stream)
    logging.getLogger("httpx").info("HTTP Request: GET http://user:pw@host/")
    logging.getLogger("triage").debug("ours")
    assert [event["event"] for event in events(stream)] == ["ours"]


def test_an_exception_is_written_once(stream: io.StringIO) -> None:
    logs.configure(format="json", level="info", stream=stream)
    try:
        raise RuntimeError("the disk is full")
    except RuntimeError:
        structlog.get_logger("a").exception("failed")
    (event,) = events(stream)
    assert event["level"] == "error"
    assert event["exception"].count("RuntimeError: the disk is full") == 1
    assert stream.getvalue().count("the disk is full") == 2  # the source line, and the message
    assert stream.getvalue().count("\n") == 1


def test_secrets_are_masked(stream: io.StringIO) -> None:
    logs.configure(format="json", level="info", stream=stream)
    structlog.get_logger("a").info(
        "started",
        key=SecretStr("hunter2"),
        auth_token="hunter2",
        headers={"Authorization": "hunter2", "nested": {"Set-Cookie": "hunter2"}, "ok": 1},
        token_file="/run/token",
        input_tokens=3,
    )
    assert "hunter2" not in stream.getvalue()
    (event,) = events(stream)
    assert event["token_file"] == "/run/token"  # noqa: S105 - a path
    assert event["input_tokens"] == 3
    assert event["headers"]["ok"] == 1


def test_a_line_comes_out_whatever_a_field_holds(stream: io.StringIO) -> None:
    logs.configure(format="json", level="info", stream=stream)
    log = structlog.get_logger("a")
    log.info("odd", thing=object(), table={1: 2}, big=2**80, raw=b"\xff", when=datetime.now(UTC))
    log.info("lone surrogate", text="\ud800", n="a\nb")
    assert [event["event"] for event in events(stream)] == ["odd", "lone surrogate"]
    assert stream.getvalue().count("\n") == 2


def test_console_has_no_colours_off_a_terminal(stream: io.StringIO) -> None:
    logs.configure(format="console", level="info", stream=stream)
    structlog.get_logger("a").info("hello", who="you")
    assert "\x1b" not in stream.getvalue()
    assert "who=you" in stream.getvalue()


def test_configuring_again_replaces_and_a_level_can_change(stream: io.StringIO) -> None:
    second = io.StringIO()
    logs.configure(format="json", level="info", stream=stream)
    logs.configure(format="json", level="warning", stream=second)
    log = structlog.get_logger("a")
    log.info("no")
    logs.set_level("debug")
    log.debug("yes")
    assert stream.getvalue() == ""
    assert [event["event"] for event in events(second)] == ["yes"]
    with pytest.raises(ValueError, match="loud"):
        logs.set_level("loud")


def test_bound_context_is_in_every_line(stream: io.StringIO) -> None:
    logs.configure(format="json", level="info", stream=stream)
    with structlog.contextvars.bound_contextvars(alert_id="abc", sop_version=7):
        structlog.get_logger("a").info("one")
        logging.getLogger("lib").warning("two")
    assert [(e["alert_id"], e["sop_version"]) for e in events(stream)] == [("abc", 7)] * 2
