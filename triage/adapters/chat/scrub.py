"""Words from outside, made fit for an error: one short line, without secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence

import orjson

LONGEST = 300
LEAST_SECRET = 4
"""Characters; what is shorter ("x", "-") is a stand-in for servers that want any key at all, and
masking it would leave nothing readable."""
MASK = "***"
EXAMINED = 16_384
"""Characters looked at; an error holds what matters at its beginning."""

_CREDENTIALS = re.compile(
    r"(?<=://)[^/\s@]{1,500}@"  # of any URL
    r"|\b(?:bearer|basic)\s+[\w.~+/=-]{16,}"
    r"|\bsk-[\w-]{8,}",  # how most providers' keys begin
    re.IGNORECASE,
)


class Scrub:
    """Knows the endpoint's secrets, and masks these and what looks like one."""

    def __init__(self, secrets: Sequence[str]) -> None:
        # As they are and as JSON has them, for a body that is cut off and so is no JSON any more.
        written = {form for s in secrets for form in (s, orjson.dumps(s).decode()[1:-1])}
        # The longest first: one may be part of another.
        self._secrets = tuple(
            sorted((s for s in written if len(s) >= LEAST_SECRET), key=len, reverse=True)
        )

    def __repr__(self) -> str:
        return f"Scrub({len(self._secrets)} secrets)"

    def line(self, text: str, longest: int = LONGEST) -> str:
        """At most `longest` characters, all printable."""
        text = text[:EXAMINED]
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        text = _CREDENTIALS.sub(MASK, text)
        shown = "".join(char if char.isprintable() else " " for char in text)
        line = " ".join(shown.split())
        # Cut last: no secret is left of which the end would be missing, and so not be found.
        return line if len(line) <= longest else line[: longest - 1] + "…"
