"""An event loop whose time passes only when nothing is left to do: timeouts cost no waiting, and
no test depends on how fast the machine is."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec

P = ParamSpec("P")

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves the time on. Waiting without an end would be for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("everything waits for something that nothing will bring about")
        self.now += max(timeout, 0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class LoopClock:
    """Implements `ports.Clock` on the running loop's time."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an async test on a `VirtualLoop` of its own, and fails it for a task it leaves."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await test(*args, **kwargs)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(main())

    return run


async def settled() -> None:
    """Returns when every other task waits for a timer or for the test itself."""
    for _ in range(50):
        await asyncio.sleep(0)
