"""The sandbox: what its sessions keep, what they give and what they say of errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.sandbox_world import (
    LONG_S,
    SHORT_S,
    Hanging,
    Host,
    opened,
    run_once,
    serves,
    session_of,
)
from triage.adapters.sandbox import MontySandbox
from triage.ports import Sandbox, SandboxError, SandboxRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.both_loops


@pytest.fixture
async def sandbox() -> AsyncIterator[MontySandbox]:
    async with opened() as made:
        yield made


def test_it_is_a_sandbox() -> None:
    made: Sandbox = MontySandbox()
    assert made.trouble == "the sandbox is not open"


async def test_code_has_the_prelude_the_inputs_and_the_functions(sandbox: MontySandbox) -> None:
    await serves(sandbox)


async def test_names_stay_for_the_next_run(sandbox: MontySandbox) -> None:
    async with session_of(sandbox) as session:
        await session.run(
            "def double(x: int) -> int:\n    return 2 * x\nkept = 4", timeout_s=LONG_S
        )
        run = await session.run("print(double(kept))", timeout_s=LONG_S)
    assert run == SandboxRun("8\n")


@pytest.mark.parametrize("fault", ["print(", "print(1 / 0)", "1 + 'a'"])
async def test_names_stay_after_an_error_of_the_code(sandbox: MontySandbox, fault: str) -> None:
    async with session_of(sandbox) as session:
        await session.run("kept = 4", timeout_s=LONG_S)
        assert (await session.run(fault, timeout_s=LONG_S)).error is not None
        assert await session.run("print(kept)", timeout_s=LONG_S) == SandboxRun("4\n")


@pytest.mark.parametrize("spoiler", ["while True:\n    pass", "await ask()"])
async def test_a_spoiled_session_begins_anew_with_the_prelude(
    sandbox: MontySandbox, spoiler: str
) -> None:
    async with session_of(sandbox, {"ask": Hanging()}) as session:
        await session.run("left = 4", timeout_s=LONG_S)
        spoiled = await session.run(spoiler, timeout_s=SHORT_S)
        assert spoiled.error is not None
        assert spoiled.error.kind == "limit"
        after = await session.run("print(site_name(), 'left' in locals())", timeout_s=LONG_S)
    assert after == SandboxRun("north False\n")


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("x = 1\ny = (1 +\n", "syntax", "line 3: "),
        ("def f() -> None:\npass", "syntax", "line 2: "),
        ("if True:", "syntax", "line 1: "),
        ("x = 1 + \\", "syntax", "line 1: "),
        ("class A(int):\n    pass", "syntax", "line 1: this interpreter does not have class inh"),
        ("x = 1\ndef g() -> object:\n    yield 1", "syntax", "line 3: this interpreter does not"),
        ("x = 1\n\nx + 'a'", "type", "line 3: Operator `+` is not supported"),
        ("x = 1\nprint(redings)", "type", "line 2: Name `redings` used when not defined"),
        ("x = 1\nmean(3)", "type", "line 2: Argument to function `mean` is incorrect"),
        ("r = ask()\nr['data']", "type", "line 2: "),
        ("ask(selector='up')", "type", "is not awaited [unused-awaitable]"),
        ("x = 1\nprint(x / 0)", "raised", "line 2: print(x / 0)\nZeroDivisionError: division by"),
        ("mean([])", "raised", "line 1: mean([])\nin mean(), which is given\nZeroDivisionError"),
        ("exec('1 / 0')", "raised", "line 1 of a text that was run"),
        ("def f(n: int) -> int:\n    return f(n)\nf(1)", "limit", "calls itself more than 200"),
        ("x = 1\nwhile True:\n    pass", "limit", "took longer than 0.5 s"),
        ("x = 'a' * 10**10", "limit", "line 1: the run was ended because it needed more than"),
        ("for i in range(300):\n    await ask()", "limit", "it made more than 200 calls"),
    ],
)
async def test_errors_say_what_and_on_which_line(
    sandbox: MontySandbox, code: str, kind: str, text: str
) -> None:
    error = (await run_once(sandbox, code)).error
    assert error is not None
    assert error.kind == kind
    assert text in error.text
    assert "main.py" not in error.text
    assert "monty" not in error.text


async def test_an_error_in_a_function_of_an_earlier_run_says_so(sandbox: MontySandbox) -> None:
    async with session_of(sandbox) as session:
        await session.run("\n\ndef half(x: int) -> float:\n    return 1 / x", timeout_s=LONG_S)
        run = await session.run("half(0)", timeout_s=LONG_S)
    assert run.error == SandboxError(
        "raised",
        "line 1: half(0)\nline 4 of earlier code, in half: return 1 / x\n"
        "ZeroDivisionError: division by zero",
    )


async def test_what_was_printed_before_an_error_is_kept(sandbox: MontySandbox) -> None:
    run = await run_once(sandbox, "print('so far')\nprint(1 / 0)")
    assert run.printed == "so far\n"
    run = await run_once(sandbox, "print('so far')\nawait ask()", {"ask": Hanging()}, timeout_s=0.3)
    assert run.printed == "so far\n"


@pytest.mark.parametrize("code", ["raise ValueError('x' * 100_000)", "1 + 'a'\n" * 5_000])
async def test_errors_are_short(sandbox: MontySandbox, code: str) -> None:
    error = (await run_once(sandbox, code)).error
    assert error is not None
    assert len(error.text) < 3_000


async def test_printing_past_the_limit_is_dropped_and_said(sandbox: MontySandbox) -> None:
    run = await run_once(sandbox, "print('é' * 1_000)")
    assert run.error is None
    assert run.printed == "é" * 500 + "\n… and 1,001 bytes more, which were not kept"


@pytest.mark.parametrize(
    "call",
    ["ask(selector='up', window=3)", "ask('up', window=3)", "ask('up', 3)", "ask(*['up', 3])"],
)
async def test_functions_are_given_their_arguments_by_name(
    sandbox: MontySandbox, call: str
) -> None:
    host = Host()
    run = await run_once(sandbox, f"print((await {call})['data']['window'])", host.functions)
    assert run == SandboxRun("3\n")
    assert host.asked == [{"selector": "up", "window": 3}]


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ("(1, (2, 3))", [1, [2, 3]]),
        ("{'a': [None, True, 1.5]}", {"a": [None, True, 1.5]}),
        ("2**63 - 1", 2**63 - 1),
        ("'é'", "é"),
    ],
)
async def test_arguments_arrive_as_json(sandbox: MontySandbox, value: str, arrives: Any) -> None:
    host = Host()
    run = await run_once(sandbox, f"await ask(selector={value})", host.functions)
    assert run == SandboxRun()
    assert host.asked == [{"selector": arrives}]


@pytest.mark.parametrize(
    "value",
    ["{1}", "b'x'", "2**63", "{1: 2}", "Reading(1.0)", "{'a': {'b': {1}}}"],
)
async def test_other_arguments_are_refused_before_the_function_is_called(
    sandbox: MontySandbox, value: str
) -> None:
    host = Host()
    run = await run_once(sandbox, f"await ask(selector=anything({value}))", host.functions)
    assert run.error is not None
    assert run.error.kind == "raised"
    assert "ask(): selector holds " in run.error.text
    assert host.asked == []


async def test_calls_are_under_way_together(sandbox: MontySandbox) -> None:
    met = asyncio.Barrier(3)

    async def ask(**arguments: Any) -> Any:
        await met.wait()
        return arguments["selector"]

    code = "import asyncio\nprint(await asyncio.gather(ask('a'), ask('b'), ask('c')))"
    assert await run_once(sandbox, code, {"ask": ask}) == SandboxRun("['a', 'b', 'c']\n")


async def test_a_call_that_nobody_awaits_is_made_all_the_same(sandbox: MontySandbox) -> None:
    host = Host()
    assert await run_once(sandbox, "call = ask('up')", host.functions) == SandboxRun()
    assert host.asked == [{"selector": "up"}]


async def test_the_same_code_gives_the_same_answer(sandbox: MontySandbox) -> None:
    code = "import random\nprint(random.random())"
    assert await run_once(sandbox, code) == await run_once(sandbox, code)


async def test_a_cancelled_run_ends_its_host_function_and_frees_the_worker(
    sandbox: MontySandbox,
) -> None:
    hanging = Hanging()
    run = asyncio.create_task(run_once(sandbox, "await ask()", {"ask": hanging}))
    await hanging.began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert hanging.was_cancelled
    await serves(sandbox)


async def test_a_run_is_cancelled_while_its_code_executes(sandbox: MontySandbox) -> None:
    began = asyncio.Event()

    async def ask(**_arguments: Any) -> None:
        began.set()

    code = "import asyncio\nawait ask()\nwhile True:\n    pass"
    run = asyncio.create_task(run_once(sandbox, code, {"ask": ask}))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await serves(sandbox)


async def test_the_prelude_may_be_empty_and_stubs_too(sandbox: MontySandbox) -> None:
    async with sandbox.session(prelude="", stubs="", functions={}, inputs={}) as session:
        assert await session.run("print(1)", timeout_s=LONG_S) == SandboxRun("1\n")
