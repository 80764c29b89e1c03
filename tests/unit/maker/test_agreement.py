"""Both interpreters on the same cases, the second in a process that can do no harm."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.maker.gate_world import ALL, EVALUATE, HEAD, HONEST, QUERIES, candidate, settings
from tests.unit.trial.trial_world import in_sandbox
from triage.maker import agreement as module
from triage.maker.agreement import Agreement, CaseTrial, agreement
from triage.model.case import LabelledCase
from triage.trial.model import Answers, Candidate, Setting, Tried


def of(cases: Sequence[LabelledCase] = ALL) -> list[CaseTrial]:
    return [CaseTrial(case.case_id, *settings(case)) for case in cases]


async def agreed(text: str, cases: Sequence[LabelledCase] = ALL, **more: float) -> Agreement:
    async with in_sandbox() as trials:
        return await agreement(candidate(text), of(cases), trials, **more)  # type: ignore[arg-type]


class Saying:
    """A sandbox whose outcomes are made up, so that only CPython is asked."""

    def __init__(self, change: Tried | None = None) -> None:
        self._change = change

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        assert self._change is not None
        return [self._change] * len(settings)


async def test_an_honest_tool() -> None:
    steps: list[tuple[int, int]] = []
    async with in_sandbox() as trials:
        found = await agreement(
            candidate(), of(), trials, progress=lambda *step: steps.append(step)
        )
    assert found == Agreement(24, {})
    assert found.gate.passed
    assert found.gate.detail == "24 cases come out the same in sandbox and CPython"
    assert steps[-1] == (72, 72)


async def test_the_last_cases_where_there_are_too_many() -> None:
    found = await agreed(HONEST, most=5)
    assert (found.compared, found.left_out) == (5, 19)
    assert found.gate.passed
    assert found.gate.detail.endswith("the 19 oldest were left out")


async def test_another_verdict() -> None:
    """What the interpreters are known to differ in would be mended; so this one is made up."""
    said = Tried("true", "CH-0", explanation="12.5 m deep")
    found = await agreement(candidate(), of(ALL[:1]), Saying(said))
    assert not found.gate.passed
    assert list(found.unlike) == [ALL[0].case_id]
    assert found.gate.name == "interpreters"
    assert "1 of 1 cases come out otherwise in CPython" in found.gate.detail
    assert "the sandbox says true of CH-0" in found.gate.detail


async def test_one_bit_of_a_figure() -> None:
    async with in_sandbox() as trials:
        (mine,) = await trials.run(candidate(), [settings(ALL[0])])
    assert mine.clauses
    first = mine.clauses[0]
    assert isinstance(first.observed, float)
    other = first._replace(observed=first.observed + 2e-15)
    assert other.observed != first.observed
    found = await agreement(
        candidate(),
        of(ALL[:1]),
        Saying(mine._replace(clauses=(other, *mine.clauses[1:]))),
    )
    assert not found.gate.passed
    assert (await agreement(candidate(), of(ALL[:1]), Saying(mine))).gate.passed


async def test_whole_and_broken_numbers_are_not_the_same() -> None:
    async with in_sandbox() as trials:
        (mine,) = await trials.run(candidate(), [settings(ALL[0])])
    last = mine.clauses[-1]
    assert last.observed == 0
    clauses = (*mine.clauses[:-1], last._replace(observed=0.0))
    found = await agreement(candidate(), of(ALL[:1]), Saying(mine._replace(clauses=clauses)))
    assert not found.gate.passed


async def test_a_failure_is_one_whatever_it_is_called() -> None:
    text = HEAD + QUERIES + EVALUATE.replace("if not series:", "if series[7].values:")
    found = await agreed(text)
    assert found.gate.passed, found.gate.detail


async def test_a_failure_in_one_of_them_only() -> None:
    failed = Tried("failed", failure="raised", detail="line 3: it")
    found = await agreement(candidate(), of(ALL[:1]), Saying(failed))
    assert not found.gate.passed
    assert "the sandbox says failed: raised: line 3: it" in found.gate.detail


async def test_sets_of_text_come_in_any_order() -> None:
    """The sandbox has one order, CPython one a process: two processes, two orders."""
    evaluate = EVALUATE.replace(
        "subject=context.entity,\n    )\n", "subject=list(NAMES)[0],\n    )\n"
    )
    names = {chr(97 + one) * 3 for one in range(20)}
    found = await agreed(f"{HEAD}NAMES = {names!r}\n{QUERIES}{evaluate}", ALL[:2])
    assert not found.gate.passed


async def test_a_source_that_did_not_answer_is_nothing_to_compare() -> None:
    bare = [case._replace(answers=()) for case in ALL[:3]]
    found = await agreed(HONEST, [*bare, *ALL[3:5]])
    assert found.compared == 2
    assert found.unanswered == tuple(case.case_id for case in bare)
    assert found.gate.passed
    assert "in 3 more a source did not answer" in found.gate.detail
    nothing = await agreed(HONEST, bare)
    assert not nothing.gate.passed
    assert nothing.gate.detail.startswith("could not be checked")
    assert nothing.and_then(await agreed(HONEST, ALL[:3])) == Agreement(3, {})


async def test_no_cases() -> None:
    assert not (await agreed(HONEST, [])).gate.passed


# --- the child ---------------------------------------------------------------------------------


def doing(body: str, top: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    head, sign, rest = EVALUATE.partition("-> Verdict:\n")
    return HEAD + top + QUERIES + head + sign + lines + rest


async def honestly() -> Tried:
    """What the honest tool says of the first case, with all that it asked."""
    async with in_sandbox() as trials:
        (said,) = await trials.run(candidate(), [settings(ALL[0])])
    return said


def gone() -> list[str]:
    """The folders of children that are still there."""
    return [str(path) for path in Path(tempfile.gettempdir()).glob("triage-*")]


@pytest.mark.parametrize(
    ("body", "cpu_s", "says"),
    [
        ("count = 0\nwhile count >= 0:\n    count += 1", 2, "used up its time on the processor"),
        ("kept = [0]\nwhile kept:\n    kept = kept + kept", 60, "MemoryError"),
    ],
    ids=["endless", "bomb"],
)
async def test_what_harms_only_in_cpython_ends_the_child(body: str, cpu_s: int, says: str) -> None:
    one = candidate(doing(body))
    found = await agreement(one, of(ALL[:1]), Saying(await honestly()), cpu_s=cpu_s)
    assert not found.gate.passed
    assert says in found.gate.detail


async def test_a_child_that_hangs_is_ended() -> None:
    body = "count = 0\nwhile count >= 0:\n    count += 1"
    found = await agreement(
        candidate(doing(body)), of(ALL[:1]), Saying(await honestly()), limit_s=0.0, start_s=1.0
    )
    assert "ran longer than" in found.problem
    assert not found.gate.passed
    assert "must not run in the daemon" in found.gate.detail


async def test_what_the_policy_refuses_does_not_run_in_the_child(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    found = await agreement(
        candidate(doing(f'open({str(mark)!r}, "w")')), of(ALL[:1]), Saying(await honestly())
    )
    assert not found.gate.passed
    assert "uses `open`" in found.gate.detail
    assert not mark.exists()


async def test_what_the_child_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is replaced by one that tells: nothing of this process but two pipes."""
    package = tmp_path / "triage" / "maker"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "agreement_child.py").write_text(
        "import json, os, sys\n"
        "sys.stdin.read()\n"
        "held = sorted(os.listdir('/proc/self/fd'))\n"
        "links = [os.path.basename(os.readlink(f'/proc/self/fd/{one}')) for one in held[:-1]]\n"
        "told = [os.getcwd(), os.listdir('.'), sorted(os.environ), links, os.getsid(0)]\n"
        "print(json.dumps([[told, 'x']]))\n"
    )
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    monkeypatch.setenv("TRIAGE_SECRET", "s3cret")
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    try:
        (said,) = await module.in_child(b"{}", 1, seed=1, cpu_s=5, limit_s=60.0, start_s=10.0)
    finally:
        os.close(reading)
        os.close(writing)
    where, files, names, descriptors, session = said.bits
    assert files == []
    assert where not in gone()
    assert set(names) <= {
        *("PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8"),
        "LC_CTYPE",
    }
    assert len(descriptors) <= 3
    assert session != os.getsid(0)
