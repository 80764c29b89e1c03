"""The words of a text that tell what it is about, as far as letters can tell."""

from __future__ import annotations

import re

STEM = 4  # letters by which two words are taken for one: chute and chutes
MOST_TOPICS = 24

_LONG = re.compile(r"[a-z]{4,}")
_ANY = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    _ANY.findall("""
    about above after again all although and any are been before below between both but can clearly
    could did does each elsewhere enough far few for from had has have here high his hour how
    hundred into its itself just keep least less like long low many minute more most much next nor
    not now off often once one only other others our out over own part per really right same say
    seen set should since six some something still such ten than that the their them then there
    these they this those time today too truly two under until usual very was well were what when
    where which while who will with within without would yet you your
    """)
)


def stems(text: str) -> set[str]:
    """Of words of four letters and more."""
    return {word[:STEM] for word in _LONG.findall(text.lower()) if word not in _COMMON}


def topics(*texts: str) -> tuple[str, ...]:
    """Stems of words of three letters and more, in their order, at most MOST_TOPICS."""
    found = (word for text in texts for word in _ANY.findall(text.lower()))
    wanted = dict.fromkeys(word[:STEM] for word in found if word not in _COMMON)
    return tuple(wanted)[:MOST_TOPICS]
