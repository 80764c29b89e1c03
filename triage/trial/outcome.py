"""How a setting ended, whichever interpreter the tool ran in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.errors import FallbackFailure, ToolFailure
from triage.fallback.host import one_line
from triage.fallback.masking import Mask
from triage.model.verdict import Verdict
from triage.ports import SandboxError
from triage.trial.asking import Failed
from triage.trial.model import FAILED, Told, Tried

PARENTS_CLOSED = (
    "RuntimeError: queries() reads context.parents: it is called before any parent has answered"
)
"""In the words of `evaluation.context`."""

_OWN = re.compile(r"^line (\d+) of a text that was run")
_FRAME = re.compile(r"^(?:line \d+\b|in .{0,200}\(\), which is given|… \d+ calls before)")
_LINE = re.compile(r"^line \d+: ")
_IN_SOURCE = re.compile(r" ?\(<string>, line (\d+)\)")


def judged(verdict: Verdict, told: Sequence[Told], elapsed_ms: float) -> Tried:
    return Tried(
        value=verdict.value.word,
        subject=verdict.subject,
        clauses=verdict.clauses,
        explanation=verdict.explanation,
        asked=tuple(told),
        elapsed_ms=elapsed_ms,
    )


def failed(
    failure: Failed, mask: Mask, told: Sequence[Told] = (), elapsed_ms: float = 0.0
) -> Tried:
    return _failed(failure.reason, one_line(mask, failure.detail), told, elapsed_ms)


def stopped(
    error: SandboxError, mask: Mask, told: Sequence[Told] = (), elapsed_ms: float = 0.0
) -> Tried:
    """Of a run that a limit ended, or that took the worker with it. The line it names is that of
    what serves the tool."""
    detail = one_line(mask, _LINE.sub("", error.text, count=1))
    return _failed(FallbackFailure.SANDBOX.value, detail, told, elapsed_ms)


def raised(
    error: SandboxError, mask: Mask, told: Sequence[Told] = (), elapsed_ms: float = 0.0
) -> Tried:
    """Of the code's own exception, or of what its interpreter does not have."""
    detail = one_line(mask, _raised(error))
    return _failed(ToolFailure.RAISED.value, detail, told, elapsed_ms)


def _failed(reason: str, detail: str, told: Sequence[Told], elapsed_ms: float) -> Tried:
    return Tried(
        value=FAILED, failure=reason, detail=detail, asked=tuple(told), elapsed_ms=elapsed_ms
    )


def _raised(error: SandboxError) -> str:
    """`line 12: ValueError: …`, the innermost line of the tool's own file, as in process."""
    if error.kind == "syntax":
        # Its line is that of what loads the file.
        return _LINE.sub("", error.text, count=1)
    lines = error.text.split("\n")
    line = 0
    while len(lines) > 1 and _FRAME.match(lines[0]):
        found = _OWN.match(lines.pop(0))
        if found is not None:
            line = int(found[1])
    message = "\n".join(lines)
    in_source = _IN_SOURCE.search(message)
    if in_source is not None and line == 0:
        line = int(in_source[1])
        message = _IN_SOURCE.sub("", message, count=1)
    if message.startswith("AttributeError: ") and "'Asking' object has no attribute" in message:
        message = PARENTS_CLOSED if "'parents'" in message else message.replace("Asking", "Context")
    return f"line {line}: {message}" if line else message
