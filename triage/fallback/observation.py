"""What the model is told about a run, or about a reply that could not be run."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple, Protocol

from triage.fallback.reply import Reply
from triage.fallback.submission import SUBMIT
from triage.fallback.template import FENCE, fenced
from triage.model.trace import CallRecord
from triage.ports import SandboxError, SandboxRun

NEAREST = 3
LISTED_CALLS = 3
LISTED_NAMES = 30
SUMMARY_CHARS = 160
MARGIN = 4096
"""Characters next to a cut that are masked and not shown: half a secret matches no pattern, and
masking costs 2 ms a kilobyte, too much for text that nobody will see."""
MAX_SEARCHED = 4096  # characters of an error
LONGEST_ROW = 8  # of tildes in data: its fence is longer than any

_ROWS = re.compile(rf"{FENCE}{{{LONGEST_ROW},}}")
_UNKNOWN_NAME = re.compile(
    r"[Nn]ame [`']([A-Za-z_]\w{0,99})[`'] (?:is not defined|used when not defined)"
)
_HINTED = frozenset({"syntax", "type", "raised", "limit", "crash"})


class Phrases(Protocol):
    """Implemented by the prompt."""

    def phrase(self, name: str, **values: str) -> str: ...


class Cleaner(Protocol):
    """Implemented by the mask."""

    def clean(self, text: str) -> str: ...


class Observation(NamedTuple):
    """`summary` is one line that says what it was about."""

    text: str
    summary: str


class Observer:
    """Of one attempt. `functions` are those that may be called, `names` all that the code can
    use; `limit` is in bytes."""

    def __init__(
        self,
        phrases: Phrases,
        mask: Cleaner,
        *,
        functions: Collection[str],
        names: Collection[str],
        limit: int,
    ) -> None:
        self._phrases = phrases
        self._mask = mask
        self._functions = sorted(functions)
        self._names = sorted({*functions, *names})
        self._limit = limit

    def of_reply(self, reply: Reply, *, turns_left: int) -> Observation:
        """Of one that holds no code."""
        assert reply.problem is not None
        told = self._say(reply.problem.value, **reply.values)
        return self._bounded([told, self._say("turns_left", count=str(turns_left))], told)

    def of_run(
        self,
        run: SandboxRun,
        calls: Sequence[CallRecord],
        *,
        repeated_code: bool,
        repeated_call: str,
        refused: str,
        kept: bool,
        turns_left: int,
    ) -> Observation:
        """Of one that gave no verdict. `repeated_call` is a function that was called the same way
        before, `refused` what submit() complained of; `kept` when a verdict was submitted and the
        run failed afterwards."""
        error = run.error
        after = self._of_calls(calls)
        if repeated_code:
            after.append(self._say("repeated_code"))
        if repeated_call:
            after.append(self._say("repeated_call", function=repeated_call))
        if refused:
            after.append(self._say("submission_refused", error=self._mask.clean(refused)))
        after.append(self._say("submission_kept" if kept else "run_not_submitted"))
        after.append(self._say("turns_left", count=str(turns_left)))
        hint = self._hint(error) if error is not None else ""
        # What is ours is short and stays whole; what the code made shares the rest.
        room = max(0, self._limit - _size("\n".join([hint, *after])) - self._frame)
        parts: list[str] = []
        summary = ""
        if error is not None:
            text = self.shown(_short_rows(error.text), room // 2 if run.printed else room)
            room -= _size(text)
            summary = f"error ({error.kind}): {text}"
            parts += [self._say("run_error", kind=error.kind, text=fenced(text)), hint]
        if run.printed:
            text = self.shown(_short_rows(run.printed), room)
            summary = summary or text
            parts.append(self._say("run_printed", text=fenced(text)))
        elif error is None:
            parts.append(self._say("run_printed_nothing"))
        return self._bounded([*parts, *after], summary or parts[0])

    def shown(self, text: str, limit: int) -> str:
        """`text` masked, its head and tail in at most `limit` bytes."""
        text = text.encode(errors="replace").decode()
        edge = max(0, limit) + MARGIN
        if len(text) <= 2 * edge:
            whole = self._mask.clean(text)
            return self._ends(whole, whole, _size(whole), limit)
        head = self._mask.clean(text[:edge])[:-MARGIN]
        tail = self._mask.clean(text[-edge:])[MARGIN:]
        return self._ends(head, tail, _size(text), limit)

    def _ends(self, head: str, tail: str, size: int, limit: int) -> str:
        """The beginning of `head` and the end of `tail`, which are the same text when it is short,
        with how much of its `size` bytes is left out."""
        if size <= limit:
            return head
        room = limit - _size(self._say("cut", count=str(size))) - 2  # its lines
        if room <= 0:
            return head.encode()[: max(0, limit)].decode(errors="ignore")
        first = head.encode()[: room - room // 3].decode(errors="ignore")
        last = tail.encode()[-(room // 3) :].decode(errors="ignore") if room // 3 else ""
        note = self._say("cut", count=str(size - _size(first) - _size(last)))
        return f"{first}\n{note}\n{last}"

    @property
    def _frame(self) -> int:
        """Bytes of what stands around the texts of a run."""
        around = self._say("run_error", kind="x" * 20, text="") + self._say("run_printed", text="")
        return _size(around) + 2 * (2 * LONGEST_ROW + 3) + 20

    def _of_calls(self, calls: Sequence[CallRecord]) -> list[str]:
        """Fenced too: an error may be in the words of its source."""
        failed = dict.fromkeys(
            f"{call.function}: {_short_rows(call.error)}" for call in calls if not call.ok
        )
        if not failed:
            return []
        text = "\n".join(list(failed)[:LISTED_CALLS])
        return [self._say("run_calls_failed", count=str(len(failed)), text=fenced(text))]

    def _hint(self, error: SandboxError) -> str:
        unknown = _UNKNOWN_NAME.search(error.text[:MAX_SEARCHED])
        if unknown is not None and error.kind in {"raised", "type"}:
            wanted = unknown[1]
            nearest = get_close_matches(wanted, self._names, n=NEAREST, cutoff=0.5)
            if nearest:
                return self._say("hint_unknown", wanted=wanted, nearest=", ".join(nearest))
            known = ", ".join([*self._functions[:LISTED_NAMES], SUBMIT])
            return self._say("hint_unknown_far", wanted=wanted, known=known)
        return self._say(f"hint_{error.kind}") if error.kind in _HINTED else ""

    def _bounded(self, parts: Sequence[str], summary: str) -> Observation:
        text = "\n".join(part for part in parts if part)
        first = " ".join(summary[: 4 * SUMMARY_CHARS].split())[:SUMMARY_CHARS]
        return Observation(self._ends(text, text, _size(text), self._limit), first)

    def _say(self, name: str, **values: str) -> str:
        return self._phrases.phrase(name, **values)


def _short_rows(text: str) -> str:
    """A fence is longer than what is in it: data must not make it fill the observation."""
    return _ROWS.sub(FENCE * (LONGEST_ROW - 1), text)


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
