"""Whether a version says the same in both interpreters: the last gate, passed at its approval.

Until then a version was only ever run in the sandbox; once it is active it runs in CPython. So a
promotion runs its node's cases in both. CPython runs in a process of its own (`agreement_child`),
which has nothing of this one but the source, the settings and the answers that the sandbox's run
was told, on its standard input. No source is asked twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from triage.errors import SourceFailure
from triage.maker.agreement_wire import Said, request_document, said_of
from triage.maker.gates import INTERPRETERS
from triage.maker.metamorphic import EXAMPLES
from triage.maker.model import Gate
from triage.trial.model import Answers, Candidate, Setting, Trials, Tried

MOST_CASES = 400
"""As many as the reference system had a node, training and held-out ones together."""
SEEDS = (1, 2)
"""Of the hashes of text, so that sets of it come in different orders."""
BATCH = 50  # cases between two reports of progress, in the sandbox
CHILD_CPU_S = 60  # seconds on the processor for all cases; one takes some milliseconds
CHILD_S = 90.0  # seconds for all cases, whatever it waits for
START_S = 10.0  # seconds more for it to start, on a busy machine

PACKAGE = Path(__file__).parents[2]
"""Where the child finds this project."""

_UNANSWERED = frozenset(failure.value for failure in SourceFailure)


class CaseTrial(NamedTuple):
    """A case to be run in both. Its answers are asked for once: CPython is told the same."""

    case_id: str
    setting: Setting
    answers: Answers


class ChildFailed(Exception):
    """The process that ran CPython ended without an answer. The text says how."""


class Agreement(NamedTuple):
    """`unlike` maps a case to both answers. `unanswered` are cases in which a source did not
    answer, so that there is nothing to compare. `problem` is why CPython gave no answer at all,
    `left_out` how many cases were too many."""

    compared: int
    unlike: Mapping[str, str]
    unanswered: tuple[str, ...] = ()
    problem: str = ""
    left_out: int = 0

    @property
    def gate(self) -> Gate:
        """Of the name `interpreters`. With nothing compared it has not passed."""
        others = ""
        if self.unanswered:
            others = f"; in {len(self.unanswered)} more a source did not answer"
        if self.left_out:
            others += f"; the {self.left_out} oldest were left out"
        if self.problem:
            said = f"{self.problem} — such code must not run in the daemon"
            return Gate(INTERPRETERS, False, said)
        if self.unlike:
            some = list(self.unlike.items())[:EXAMPLES]
            examples = "; ".join(f"case {case_id}: {what}" for case_id, what in some)
            more = "; …" if len(self.unlike) > EXAMPLES else ""
            said = f"{len(self.unlike)} of {self.compared} cases come out otherwise in CPython"
            return Gate(INTERPRETERS, False, f"{said}{others}: {examples}{more}")
        if not self.compared:
            return Gate(INTERPRETERS, False, f"could not be checked: no case was answered{others}")
        said = f"{self.compared} cases come out the same in sandbox and CPython{others}"
        return Gate(INTERPRETERS, True, said)

    def and_then(self, later: Agreement) -> Agreement:
        """With the cases that were unanswered here, tried once more in `later`."""
        return Agreement(
            self.compared + later.compared,
            {**self.unlike, **later.unlike},
            later.unanswered,
            self.problem or later.problem,
            self.left_out + later.left_out,
        )


async def agreement(
    candidate: Candidate,
    cases: Sequence[CaseTrial],
    trials: Trials,
    *,
    most: int = MOST_CASES,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cpu_s: int = CHILD_CPU_S,
    limit_s: float = CHILD_S,
    start_s: float = START_S,
) -> Agreement:
    """Value, subject, clauses and queries of each case, compared bit for bit.

    The last `most` cases are run. `progress` gets the runs that are done and all there are, those
    of every interpreter. Raises SandboxFailed, and OSError when no process can be started. May be
    cancelled: the child is ended.
    """
    tested = list(cases)[-most:]
    left_out = len(cases) - len(tested)
    total = len(tested) * (1 + len(SEEDS))
    ours: list[Tried] = []
    for start in range(0, len(tested), BATCH):
        some = tested[start : start + BATCH]
        ours += await trials.run(candidate, [(one.setting, one.answers) for one in some])
        progress(len(ours), total)
    both = [
        (one, tried)
        for one, tried in zip(tested, ours, strict=True)
        if tried.failure not in _UNANSWERED
    ]
    answered = {one.case_id for one, _ in both}
    unanswered = tuple(one.case_id for one in tested if one.case_id not in answered)
    if not both:
        return Agreement(0, {}, unanswered, left_out=left_out)
    document = request_document(candidate, [(one.setting, tried.asked) for one, tried in both])
    request = json.dumps(document).encode()
    unlike: dict[str, str] = {}
    for turn, seed in enumerate(SEEDS, start=1):
        try:
            theirs = await in_child(
                request, len(both), seed=seed, cpu_s=cpu_s, limit_s=limit_s, start_s=start_s
            )
        except ChildFailed as error:
            problem = f"CPython gave no answer on {len(both)} cases: {error}"
            return Agreement(len(both), unlike, unanswered, problem, left_out)
        for (one, tried), other in zip(both, theirs, strict=True):
            mine = said_of(tried)
            if _text(mine.bits) != _text(other.bits):
                unlike.setdefault(
                    one.case_id, f"the sandbox says {mine.words}, CPython {other.words}"
                )
        progress(len(tested) * (1 + turn), total)
    return Agreement(len(both), unlike, unanswered, left_out=left_out)


def _text(bits: object) -> str:
    """Of JSON types; tells every bit of a float, 1 from 1.0, and makes NaN equal."""
    return json.dumps(bits)


async def in_child(
    request: bytes, count: int, *, seed: int, cpu_s: int, limit_s: float, start_s: float
) -> list[Said]:
    """What CPython says of `count` cases. Raises ChildFailed."""
    with tempfile.TemporaryDirectory(prefix="triage-") as empty:
        # -P, -s: neither the folder it starts in nor the user's own has modules for it. Its
        # environment is only what it needs to find this package.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-s", "-m", "triage.maker.agreement_child", str(cpu_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=empty,
            env={
                "PYTHONPATH": str(PACKAGE),
                "PYTHONHASHSEED": str(seed),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUTF8": "1",
            },
            close_fds=True,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s + start_s):
                output, _ = await process.communicate(request)
        except TimeoutError:
            raise ChildFailed(f"it ran longer than {limit_s:g} s and was ended") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.shield(process.wait())
    if process.returncode:
        raise ChildFailed(_how(process.returncode))
    try:
        said = [Said(bits, str(words)) for bits, words in json.loads(output)]
    except (ValueError, TypeError) as error:
        raise ChildFailed(f"it wrote what cannot be read: {error}") from None
    if len(said) != count:
        raise ChildFailed(f"it answered {len(said)} cases")
    return said


def _how(code: int) -> str:
    if code > 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    limits = {
        "SIGXCPU": "it used up its time on the processor",
        "SIGKILL": "it used up its time or memory",
        "SIGSEGV": "it crashed, or used up its memory",
    }
    return f"{limits.get(name, 'it was ended')} ({name})"
