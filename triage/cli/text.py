"""Text from alerts, sources and files, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` on one line, with every character spelled out that a terminal would act on.

    Control characters, escape sequences, line separators, characters that reorder or hide what
    stands beside them, and lone surrogates become `\\x1b`, `\\n`, `\\u202e`, … .
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def printable_lines(text: str) -> str:
    """As `printable`, but its line feeds stay."""
    return "\n".join(map(printable, text.split("\n")))


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
