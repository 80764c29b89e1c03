"""Plain data from a file, with the line of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triage.errors import Finding

SHOWN = 80  # characters of a value that a message repeats

YamlPath = tuple[str | int, ...]
"""Keys and list indexes from the top of the file."""


def plain(text: str) -> str:
    """`text` fit for one line of a message: shortened, and quoted where it is not printable."""
    if len(text) > SHOWN:
        text = text[: SHOWN - 1] + "…"
    return text if text.isprintable() else repr(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """`data` is a mapping at the top, made of dict, list, str, int, float, bool and None.

    `positions` maps a path to the 1-based (line, column) of its key, or of the item in a list.
    `sections` maps the top-level keys whose entries have names to what such an entry is called.
    """

    file: str
    data: dict[str, Any]
    positions: dict[YamlPath, tuple[int, int]]
    sections: Mapping[str, str]

    def line(self, path: YamlPath) -> int:
        """The line of `path`, or of the nearest thing that encloses it."""
        for length in range(len(path), 0, -1):
            if (position := self.positions.get(path[:length])) is not None:
                return position[0]
        return self.positions[()][0]

    def discard(self) -> None:
        """Free it entry by entry; it is empty afterwards. At once, the hundred thousand parts of
        a large file would keep the interpreter's lock for 20 ms, and the event loop waiting."""
        for table in (self.positions, *filter(_is_mapping, self.data.values())):
            while table:
                table.popitem()

    def finding(
        self, path: YamlPath, problem: str, fix: str = "", *, warning: bool = False
    ) -> Finding:
        """A fault at `path`, with its line and the name of the entry it lies in."""
        return Finding(
            file=self.file,
            line=self.line(path),
            where=entry_name(path, self.sections),
            problem=problem,
            fix=fix,
            warning=warning,
        )


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def entry_name(path: YamlPath, sections: Mapping[str, str]) -> str:
    named = len(path) > 1 and isinstance(path[0], str) and path[0] in sections
    return plain(str(path[1])) if named else ""
