"""What all tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping

import pytest
import uvloop

from tests.servers import needing_servers


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
def pytest_runtest_setup() -> Generator[None]:
    with needing_servers():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with needing_servers():
        return (yield)
