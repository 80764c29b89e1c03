"""What went wrong in a run, told to the model that wrote the code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pydantic_monty as pm

from triage.adapters.sandbox.limits import SandboxLimits
from triage.adapters.sandbox.values import clean_text
from triage.ports import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

PRELUDE = "<python-input-0>"
"""The file that tracebacks name for the first feed of a session."""

_DIAGNOSTIC = re.compile(r"^[^:\n]*:(\d+):\d+: (?:error|warning)\[([\w-]+)\] (.*)$", re.MULTILINE)
_BAD_SYNTAX = "invalid-syntax"
_UNSUPPORTED = re.compile(r"^The monty syntax parser does not yet support (.*)$", re.DOTALL)
_FEED = re.compile(r"^<python-input-(\d+)>$")

_MESSAGE = 1_000  # characters of an exception's own text
_SOURCE = 120  # characters of a line of code in a traceback
_FRAMES = 8
_DIAGNOSTICS = 8


def error_of(error: pm.MontyError, code: str, limits: SandboxLimits) -> SandboxError:
    """Its kind and text. `code` is what the model wrote: its lines bound those that are named."""
    match error:
        case pm.MontyTypingError():
            return _typing(error.display(), code)
        case pm.MontySyntaxError():
            frames = error.traceback()
            return SandboxError("syntax", _at(frames[-1:], error.display("msg"), code))
        case pm.MontyRuntimeError():
            return _runtime(error, code, limits)
        case pm.MontyCrashedError() if error.timed_out:
            return SandboxError("limit", too_long(limits.feed_s))
        case _:
            return SandboxError("crash", "the interpreter died while it ran this code")


def too_long(seconds: float) -> str:
    return f"the run was ended because it took longer than {seconds:.3g} s"


def stopped(why: str) -> str:
    return f"the run was ended because {_cut(why, _MESSAGE)}"


def _typing(diagnostics: str, code: str) -> SandboxError:
    found = _DIAGNOSTIC.findall(diagnostics)
    broken = [each for each in found if each[1] == _BAD_SYNTAX]
    lines = [
        f"line {_line(int(line), code)}: {_cut(message, _MESSAGE)}"
        + ("" if rule == _BAD_SYNTAX else f" [{rule}]")
        for line, rule, message in (broken or found)[:_DIAGNOSTICS]
    ]
    if left := len(broken or found) - len(lines):
        lines.append(f"… and {left} more")
    text = "\n".join(lines) or _cut(diagnostics, _MESSAGE)
    return SandboxError("syntax" if broken else "type", text)


def _runtime(error: pm.MontyRuntimeError, code: str, limits: SandboxLimits) -> SandboxError:
    frames = error.traceback()
    said = error.display("type-msg")
    if passed := _limit(said, limits):
        return SandboxError("limit", _at(_own(frames)[-1:], passed, code))
    if unsupported := _UNSUPPORTED.match(error.display("msg")):
        message = f"this interpreter does not have {unsupported[1]}: write it without"
        return SandboxError("syntax", _at(frames[-1:], message, code))
    lines = [_frame(frame, code) for frame in frames[-_FRAMES:]]
    if len(frames) > _FRAMES:
        lines.insert(0, f"… {len(frames) - _FRAMES} calls before")
    return SandboxError("raised", "\n".join([*lines, _cut(said, _MESSAGE)]))


def _limit(said: str, limits: SandboxLimits) -> str:
    """In words that say what to do, empty when it is no limit. Code that raises the same words
    only loses its own session."""
    kind, _, message = said.partition(": ")
    match kind:
        case "TimeoutError" if "time limit exceeded" in message:
            return f"{too_long(limits.feed_s)}: ask the source for less, or for an aggregate"
        case "MemoryError" if "memory limit" in message:
            return f"the run was ended because it needed more than {limits.memory_bytes:,} bytes"
        case "RuntimeError" if message.startswith("suspension limit"):
            return f"the run was ended because it made more than {limits.suspensions:,} calls"
        case "RecursionError" if message.startswith("maximum recursion depth"):
            return f"a function calls itself more than {limits.recursion} levels deep"
        case _:
            return ""


def _own(frames: Sequence[pm.Frame]) -> list[pm.Frame]:
    return [frame for frame in frames if frame.filename != PRELUDE]


def _at(frames: Sequence[pm.Frame], message: str, code: str) -> str:
    place = f"line {_line(frames[-1].line, code)}: " if frames else ""
    return place + _cut(message, _MESSAGE)


def _frame(frame: pm.Frame, code: str) -> str:
    function = frame.function_name or ""
    inside = f", in {_cut(function, _SOURCE)}" if function and function != "<module>" else ""
    if frame.filename == PRELUDE:
        return f"in {_cut(function, _SOURCE)}(), which is given"
    if not _FEED.match(frame.filename):
        return f"line {frame.line} of a text that was run{inside}"
    source = (frame.source_line or "").strip()
    lines = code.split("\n")
    # A function of an earlier run of the session is in a text of its own.
    here = frame.line <= len(lines) and lines[frame.line - 1].strip() == source
    place = f"line {frame.line}{inside}" if here else f"line {frame.line} of earlier code{inside}"
    return f"{place}: {_cut(source, _SOURCE)}"


def _line(line: int, code: str) -> int:
    """The interpreter also sees a line or two of ours after the code."""
    return max(1, min(line, code.count("\n") + 1))


def _cut(text: str, most: int) -> str:
    text = clean_text(text)
    return text if len(text) <= most else f"{text[:most]}…"
