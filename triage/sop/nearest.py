"""What a person who wrote a wrong name most likely meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LOOKUPS = 20  # one among 4,400 names takes up to 60 ms; a broken file may need thousands


class Nearest:
    """Suggests the nearest of some known names, for the first MAX_LOOKUPS wrong ones."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def __call__(self, name: str, known: Iterable[str]) -> str:
        """`did you mean …?`, or an empty string when nothing is near."""
        if name not in self._found:
            if len(self._found) >= MAX_LOOKUPS:
                return ""
            matches = get_close_matches(name[:128], list(known), n=1)
            self._found[name] = f"did you mean `{matches[0]}`?" if matches else ""
        return self._found[name]
