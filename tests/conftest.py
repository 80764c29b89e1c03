"""What all tests share."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Generator, Mapping

import pytest
import uvloop
from hypothesis import settings

from tests.servers import needing_servers

# No test depends on how fast the machine is.
settings.register_profile("triage", deadline=None)
settings.load_profile("triage")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "both_loops: runs on asyncio's own loop and on uvloop, as the daemon does"
    )


def pytest_asyncio_loop_factories(
    config: pytest.Config,
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("both_loops"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Ten thousand tests and all that they import are there to the end: the collector of garbage
    would look through them again and again, for a tenth of the time of most tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with needing_servers():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with needing_servers():
        return (yield)
