"""Notices an attempt that goes round in circles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from triage.model.trace import CallRecord


class Repeats:
    """Counts over one attempt. Code is the same when it differs in nothing but blank lines and
    white space at line ends; a call is when function, arguments and result are, the error
    included.

    A call counts once a run: code that asks the same twice while it computes goes nowhere else
    than code that keeps the answer.
    """

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str, str]] = Counter()

    def code(self, code: str) -> int:
        """How often this code has come, this time included."""
        lines = (line.rstrip() for line in code.splitlines())
        normal = "\n".join(line for line in lines if line)
        self._codes[normal] += 1
        return self._codes[normal]

    def calls(self, records: Sequence[CallRecord]) -> tuple[str, int]:
        """The function of one run that was called most often in this way, and in how many runs;
        ("", 0) when the run called none."""
        keys = dict.fromkeys(
            (record.function, record.arguments, record.answer_sha256 if record.ok else record.error)
            for record in records
        )
        self._calls.update(list(keys))
        most = max(keys, key=lambda key: self._calls[key], default=None)
        return ("", 0) if most is None else (most[0], self._calls[most])
