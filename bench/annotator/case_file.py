"""Cases on disk: JSON Lines, one case a line, keys as the fields of Case and in their order.

    {"node":"rc_cup_worn","site":0,"t":1791012345,"entity":"RC-03","expected":"true",
     "subject":"RC-03","split":"train","episode":512,"margin":0.013,"near":"cup_worn"}

(on one line). `site` counts the world's sites from 0, `t` is in seconds since the epoch, `margin`
may be null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from bench.annotator.cases import Case


def write_cases(path: Path, cases: Iterable[Case]) -> None:
    lines = [json.dumps(asdict(case), separators=(",", ":")) for case in cases]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_cases(path: Path) -> list[Case]:
    """Raises ValueError for a line that is no case, and says which."""
    cases: list[Case] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            cases.append(Case(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a case: {error}") from error
    return cases
