"""The real servers of `bench.servers`, for tests: one that is not installed skips its test.

In CI it fails it. `conftest` sees to that for every `MissingServer` that a fixture or a test lets
through.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from bench.servers import (
    HOST,
    Alertmanager,
    MissingServer,
    NodeExporter,
    OldSeries,
    Prometheus,
    Server,
    answers_ok,
    binary,
    free_port,
    openmetrics,
    wait_until,
)

__all__ = [
    "HOST",
    "Alertmanager",
    "MissingServer",
    "NodeExporter",
    "OldSeries",
    "Prometheus",
    "Server",
    "answers_ok",
    "binary",
    "free_port",
    "missing",
    "needing_servers",
    "openmetrics",
    "wait_until",
]


def missing(what: str) -> NoReturn:
    """Ends the test for want of something: skipped here, failed in CI."""
    _end(f"{what} is not installed")


@contextmanager
def needing_servers() -> Iterator[None]:
    """What runs inside is skipped, or fails in CI, for want of a server."""
    try:
        yield
    except MissingServer as error:
        reason = str(error)
    else:
        return
    _end(reason)


def _end(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; CI runs every test", pytrace=False)
    pytest.skip(reason)
