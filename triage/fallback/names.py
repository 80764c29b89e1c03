"""What the host function of a source's tool is called."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from keyword import iskeyword

Key = tuple[str, str]
"""Source and tool."""

_OTHER = re.compile(r"[^a-zA-Z0-9_]")


def function_names(keys: Iterable[Key], taken: Collection[str]) -> Mapping[Key, str]:
    """`<source>_<tool>`, other characters replaced by `_`.

    Where two tools would have one name, or a name is `taken`, each of them gets `_1`, `_2`, … in
    the order of source and tool: a plain name then means none of them, so that what was written
    for the one never calls the other.
    """
    wanted: dict[str, list[Key]] = {}
    for key in sorted(set(keys)):
        wanted.setdefault(_plain(key), []).append(key)
    names: dict[Key, str] = {}
    used = {*taken, *wanted}
    for name, claimants in sorted(wanted.items()):
        if len(claimants) == 1 and name not in taken and not iskeyword(name):
            names[claimants[0]] = name
            continue
        number = 0
        for key in claimants:
            number += 1
            while f"{name}_{number}" in used:
                number += 1
            used.add(f"{name}_{number}")
            names[key] = f"{name}_{number}"
    return names


def _plain(key: Key) -> str:
    name = _OTHER.sub("_", f"{key[0]}_{key[1]}")
    # Names that begin with an underscore are left to Python.
    return name if name[:1].isalpha() else f"x{name}"
