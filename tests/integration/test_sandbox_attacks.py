"""Attacks on the sandbox. None reaches what is outside, each ends, and the pool serves afterwards.

There is one worker in the pool: what an attack leaves taken or broken, the next session meets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.sandbox_bombs import BOMBS, GIANTS, Bomb, Giant
from tests.integration.sandbox_reaches import PRINT_NOTHING, REACHED, REACHES, Reach
from tests.integration.sandbox_world import (
    LIMITS,
    LONG_S,
    SHORT_S,
    Hanging,
    Host,
    opened,
    run_once,
    serves,
    session_of,
)
from triage.adapters.sandbox import SandboxLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from triage.adapters.sandbox import MontySandbox

SECRET = "hunter2-hunter2"  # noqa: S105 - what the attacks are after


@pytest.fixture
async def sandbox(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MontySandbox]:
    monkeypatch.setenv("TRIAGE_TEST_SECRET", SECRET)
    async with opened() as made:
        yield made


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


@pytest.mark.parametrize("reach", REACHES, ids=lambda reach: reach.name)
async def test_nothing_outside_is_reached(
    sandbox: MontySandbox, tmp_path: Path, reach: Reach
) -> None:
    """As it is written, and hidden from the type checker, which refuses much before it runs."""
    file = tmp_path / "secret"
    file.write_text(SECRET)
    written = reach.code.replace("PATH", repr(str(file)))
    for code in (written, f"exec({written!r})"):
        async with session_of(sandbox) as session:
            run = await session.run(code, timeout_s=LONG_S)
            # What failed must not have left a door open.
            again = await session.run("print(site_name())", timeout_s=LONG_S)
        assert REACHED not in run.printed
        assert SECRET not in f"{run}"
        assert run.error is not None or reach.name in PRINT_NOTHING
        assert again.printed == "north\n"
        assert names_in(tmp_path) == ["secret"]
        assert file.read_text() == SECRET
    await serves(sandbox)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
async def test_bombs_end(sandbox: MontySandbox, bomb: Bomb) -> None:
    async with session_of(sandbox) as session:
        run = await session.run(bomb.code, timeout_s=LONG_S)
        assert (run.error.kind if run.error else "") in bomb.kinds, run.error
        # Spoiled or not, the session goes on.
        again = await session.run("print(site_name())", timeout_s=LONG_S)
    assert again.printed == "north\n"
    assert again.error is None
    assert len(run.printed.encode()) < LIMITS.printed_bytes + 100
    assert run.printed.isprintable() or "\n" in run.printed or "\x1b" in run.printed
    await serves(sandbox)


@pytest.mark.parametrize("giant", GIANTS, ids=lambda giant: giant.name)
async def test_giant_arguments_do_not_reach_a_host_function(
    sandbox: MontySandbox, giant: Giant
) -> None:
    host = Host()
    code = f"""
nested = anything([])
for _ in range(10_000):
    nested = [nested]
laughs = anything([1])
for _ in range(30):
    laughs = [laughs] * 10
own = anything([])
own.append(own)
await ask(selector=anything({giant.value}))
"""
    run = await run_once(sandbox, code, host.functions)
    # A list in itself crosses as a text that says so.
    assert (run.error.kind if run.error else "") == giant.kind
    assert host.asked == ([{"selector": ["[...]"]}] if giant.value == "own" else [])
    await serves(sandbox)


async def test_many_middling_arguments_are_a_giant_too(sandbox: MontySandbox) -> None:
    host = Host()
    run = await run_once(sandbox, "await ask('x' * 6_000, 'y' * 6_000)", host.functions)
    assert run.error is not None
    assert run.error.kind == "limit"
    assert "ask() was given too much: window is larger than" in run.error.text
    assert host.asked == []
    await serves(sandbox)


@pytest.mark.parametrize(
    ("argument", "made", "problem"),
    [
        ("'x' * 9_000", 4, "all calls together get 40,000 bytes at most"),
        ("{1}", 0, "it made more than 20 calls that were refused"),
        ("'x' * 90_000", 0, "selector is larger than 10,000 bytes"),
    ],
)
async def test_giants_one_after_the_other_end_the_run_whatever_it_catches(
    sandbox: MontySandbox, argument: str, made: int, problem: str
) -> None:
    host = Host()
    code = f"""
while True:
    try:
        await ask(selector=anything({argument}))
    except BaseException:
        pass
"""
    run = await run_once(sandbox, code, host.functions)
    assert run.error is not None
    assert run.error.kind == "limit"
    assert problem in run.error.text
    assert len(host.asked) == made
    await serves(sandbox)


@pytest.mark.parametrize(
    "answer",
    ["x" * 30_000_000, [0] * 1_000_000, {"data": ["x" * 1000] * 1000}],
    ids=["text", "list", "nested"],
)
async def test_giant_answers_do_not_reach_the_code(sandbox: MontySandbox, answer: Any) -> None:
    async def ask(**_arguments: Any) -> Any:
        return answer

    code = "try:\n    await ask()\nexcept ValueError as error:\n    print(error)"
    run = await run_once(sandbox, code, {"ask": ask})
    assert run.error is None
    assert run.printed.startswith("ask(): its answer of ")
    assert run.printed.endswith("bytes is larger than 10,000: ask for less\n")
    await serves(sandbox)


async def test_an_answer_with_half_a_surrogate_pair_arrives_without(sandbox: MontySandbox) -> None:
    async def ask(**_arguments: Any) -> Any:
        return {"data": ["a\ud800b", "é"]}

    run = await run_once(sandbox, "print((await ask())['data'])", {"ask": ask})
    assert run.printed == "['a?b', 'é']\n"
    await serves(sandbox)


async def test_half_a_surrogate_pair_in_an_argument_does_not_arrive(sandbox: MontySandbox) -> None:
    host = Host()
    await run_once(sandbox, "await ask('a\\ud800b')", host.functions)
    for asked in host.asked:
        asked["selector"].encode()
    await serves(sandbox)


@pytest.mark.parametrize(
    "code",
    [
        "await ask()",
        "while True:\n    try:\n        await ask()\n    except BaseException:\n        pass",
        "import asyncio\nawait asyncio.gather(*[ask() for i in range(50)])",
        "import asyncio\nawait asyncio.gather(ask(), asyncio.sleep(0))",
        "call = ask()",
    ],
)
async def test_a_host_function_that_never_returns_does_not_hold_the_run(
    sandbox: MontySandbox, code: str
) -> None:
    hanging = Hanging()
    run = await run_once(sandbox, code, {"ask": hanging}, timeout_s=SHORT_S)
    assert run.error is not None
    assert run.error.kind == "limit"
    assert hanging.was_cancelled
    await serves(sandbox)


async def test_a_host_function_that_refuses_to_end_does_not_hold_the_run(
    sandbox: MontySandbox, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()
    ended = asyncio.Event()

    async def ask(**_arguments: Any) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    run = await run_once(sandbox, "await ask()", {"ask": ask}, timeout_s=SHORT_S)
    assert run.error is not None
    assert run.error.kind == "limit"
    assert "a host function did not end when cancelled: sandbox:ask" in caplog.messages
    await serves(sandbox)
    release.set()
    await ended.wait()


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        TimeoutError(SECRET),
        KeyError(SECRET),
        MemoryError(SECRET),
        BaseExceptionGroup("group", [ValueError(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "code",
    [
        "await ask()",
        "try:\n    await ask()\nexcept BaseException as error:\n    print(repr(error), error)",
        "call = ask()",
    ],
)
async def test_the_words_of_a_host_function_that_raises_stay_outside(
    sandbox: MontySandbox, caplog: pytest.LogCaptureFixture, error: BaseException, code: str
) -> None:
    async def ask(**_arguments: Any) -> None:
        raise error

    caplog.set_level(logging.ERROR)
    run = await run_once(sandbox, code, {"ask": ask})
    assert SECRET not in f"{run}"
    if code == "await ask()":
        assert run.error is not None
        assert run.error.text.endswith("RuntimeError: ask() failed")
    assert "a host function raised: sandbox:ask" in caplog.messages
    assert SECRET in caplog.text
    await serves(sandbox)


async def test_a_host_function_that_gives_what_is_not_json_is_a_failed_one(
    sandbox: MontySandbox, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(**_arguments: Any) -> Any:
        return object()

    run = await run_once(sandbox, "await ask()", {"ask": ask})
    assert run.error is not None
    assert run.error.text.endswith("RuntimeError: ask() failed")
    assert "a host function of the sandbox gave what is not JSON" in caplog.messages
    await serves(sandbox)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
@pytest.mark.parametrize("moment", ["waiting for us", "executing"])
async def test_a_worker_killed_from_outside(number: signal.Signals, moment: str) -> None:
    async with opened(SandboxLimits(workers=1, feed_s=LONG_S)) as sandbox:

        async def ask(**_arguments: Any) -> None:
            (pid,) = sandbox.worker_pids
            if moment == "waiting for us":
                os.kill(pid, number)
            else:
                asyncio.get_running_loop().call_later(SHORT_S / 3, os.kill, pid, number)

        async with session_of(sandbox, {"ask": ask}) as session:
            await session.run("left = 1", timeout_s=LONG_S)
            run = await session.run("await ask()\nwhile True:\n    pass", timeout_s=LONG_S)
            assert run.error is not None
            assert run.error.kind == "crash"
            again = await session.run("print(site_name(), 'left' in locals())", timeout_s=LONG_S)
            assert again.printed == "north False\n"
        await serves(sandbox)


async def test_a_worker_that_is_stopped_is_ended_by_the_outer_limit() -> None:
    async with opened(SandboxLimits(workers=1, feed_s=LONG_S)) as sandbox:

        async def ask(**_arguments: Any) -> None:
            (pid,) = sandbox.worker_pids
            os.kill(pid, signal.SIGSTOP)

        code = "await ask()\nwhile True:\n    pass"
        run = await run_once(sandbox, code, {"ask": ask}, timeout_s=SHORT_S)
        assert run.error is not None
        assert run.error.kind == "limit"
        await serves(sandbox)


@pytest.mark.parametrize(
    "code",
    [
        "exec('async def submit(**a): return 1')\nprint('done')",
        "exec('def print(*a): return None')",
        "exec('def mean(x): return 9.0')",
        "exec('def site_name(): return 9')",
        "exec('ask = None')",
        "site['name'] = 'south'",
        "left = 1",
        "import math\nexec('math.fsum = len')",
        "import json\nexec('json.loads = len')",
        "exec('import builtins\\nbuiltins.len = None')",
        "exec('Reading.value = 9.0')",
        "exec('import random\\nrandom.seed(3)')",
        "exec('import os\\nos.chdir(\"/tmp\")')",
    ],
)
async def test_what_one_session_changes_no_other_sees(sandbox: MontySandbox, code: str) -> None:
    probe = """
import json, math, random, os
print(json.loads('[1]'), math.fsum([0.5, 0.5]), len('abc'), os.getcwd())
print(random.random())
"""
    before = await run_once(sandbox, probe)
    assert before.error is None
    await run_once(sandbox, code)
    assert await run_once(sandbox, probe) == before
    await serves(sandbox)


async def test_functions_of_one_session_are_not_those_of_the_next(sandbox: MontySandbox) -> None:
    first, second = Host(), Host()
    async with session_of(sandbox, first.functions) as session:
        await session.run("kept = ask", timeout_s=LONG_S)
    run = await run_once(sandbox, "exec('kept(selector=1)')", second.functions)
    assert run.error is not None
    assert first.asked == second.asked == []
    await serves(sandbox)


async def test_a_function_that_was_not_given_is_no_function(sandbox: MontySandbox) -> None:
    run = await run_once(sandbox, "exec('metrics_drop(name=1)')", {})
    assert run.error is not None
    assert "NameError: name 'metrics_drop' is not defined" in run.error.text
    await serves(sandbox)


async def test_a_type_check_that_outgrows_the_limit_is_ended(sandbox: MontySandbox) -> None:
    code = "x = 0\ny = 0\nz = 0\nwhile True:\n" + "".join(
        f"    {'xyz'[n % 3]} = ({'xyz'[(n + 1) % 3]}, {'xyz'[(n + 2) % 3]})\n" for n in range(30)
    )
    run = await run_once(sandbox, code)
    assert run.error is not None
    assert run.error.kind in {"limit", "crash", "type"}
    await serves(sandbox)


async def test_two_sessions_at_once_do_not_wait_for_an_attack() -> None:
    async with opened(SandboxLimits(workers=2, feed_s=LONG_S)) as sandbox:
        hanging = Hanging()
        attack = asyncio.create_task(
            run_once(sandbox, "await ask()\nwhile True:\n    pass", {"ask": hanging})
        )
        await hanging.began.wait()
        assert (await run_once(sandbox, "print(site_name())")).printed == "north\n"
        assert not attack.done()
        attack.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attack
        await serves(sandbox)
