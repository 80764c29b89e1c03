"""A candidate that passed every gate becomes a version, with all that led to it beside it.

`<library>/<node>/made/v<N>.json` is the record of a version; `made/last.json` that of the latest
making which registered nothing, until one does. Both are written for people and for `doctor`;
nothing is decided by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from triage.errors import ConfigError
from triage.fallback.masking import Mask
from triage.library.files import (
    Unreadable,
    is_folder_name,
    read_bounded,
    within,
    write_atomic,
)
from triage.library.lifecycle import add_version
from triage.maker.ambiguity import ambiguity_of
from triage.maker.documents import record_document
from triage.maker.model import Made
from triage.maker.prompt import MakerPrompts
from triage.maker.traces import save_trace
from triage.model.decision import NodeId
from triage.ports import WatchFinding
from triage.sop.procedure import Sop

FOLDER, LAST = "made", "last.json"
MAX_RECORD = 64 << 20  # bytes, of one that is read

_RECORD = re.compile(r"v([1-9][0-9]{0,6})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrar:
    """Writes into the library at `root`. `model` is the name of the one that wrote the code,
    `maker` who or what answers for it, `gap` the id of the gap it was made for."""

    root: Path
    sop: Sop
    mask: Mask
    prompts: MakerPrompts
    model: str
    maker: str = ""
    gap: str = ""
    note: str = ""

    def register(self, made: Made, ambiguous: Sequence[WatchFinding], *, at: datetime) -> Made:
        """`made` with the number of its new version, a candidate which nothing runs yet.

        Raises ConfigError or InvalidFiles for one that did not pass every gate, and for a library
        that cannot be written; what is then already there is said.
        """
        best = made.best
        if best is None or not made.gates or not made.passed or made.train is None:
            raise ConfigError(
                f"{made.node}: nothing is registered that has not passed every gate — "
                "see what `triage make` says of them"
            )
        heldout = made.heldout
        version = add_version(
            self.root,
            self.sop,
            made.node,
            best.candidate.text.encode(),
            maker=self.maker or f"triage make ({self.model})",
            at=at,
            dynamic=best.candidate.dynamic,
            reads_parents=[NodeId(name) for name in best.candidate.reads_parents],
            train=(made.train.passed, made.train.total),
            heldout=(heldout.passed, heldout.total) if heldout is not None else (0, 0),
            max_queries=max(
                made.train.max_queries, heldout.max_queries if heldout is not None else 0
            ),
            gap=self.gap,
            note=self.note,
        )
        made = made._replace(version=version)
        try:
            self._write(f"v{version}.json", made, ambiguous)
            self._path(made, LAST).unlink(missing_ok=True)
            for trace in made.traces:
                save_trace(self.root, self.sop.nodes[made.node], trace)
        except (OSError, ConfigError) as error:
            raise ConfigError(
                f"{made.node}: version {version} is registered, but its record is not complete:"
                f" {error} — make room or mend the permissions, and make it again"
            ) from error
        return made

    def keep(self, made: Made, ambiguous: Sequence[WatchFinding]) -> None:
        """The record of a making that registered nothing, in place of the one before. Raises
        ConfigError when it cannot be written."""
        try:
            self._write(LAST, made, ambiguous)
        except OSError as error:
            path = self._path(made, LAST)
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error

    def _path(self, made: Made, name: str) -> Path:
        return self.root / made.node / FOLDER / name

    def _write(self, name: str, made: Made, ambiguous: Sequence[WatchFinding]) -> None:
        if not is_folder_name(made.node):
            raise ConfigError(f"{made.node!r} cannot be the name of a folder")
        document = record_document(
            made,
            self.sop.nodes[made.node],
            ambiguous,
            mask=self.mask,
            model=self.model,
            prompt_version=self.prompts.version,
            prompt_sha256=self.prompts.sha256,
        )
        path = within(self.root, self._path(made, name))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, orjson.dumps(document, option=orjson.OPT_INDENT_2))


def read_ambiguities(library: Path) -> list[WatchFinding]:
    """What the latest making of each node found in its text, by node. A record that cannot be read
    tells nothing; it is not an error of the library. Blocking: reads files."""
    found: list[WatchFinding] = []
    for folder in sorted(library.glob(f"*/{FOLDER}")):
        record = _latest(library, folder)
        for document in _listed(record.get("ambiguities")):
            try:
                found.append(ambiguity_of(document))
            except (KeyError, TypeError, ValueError):
                continue
    return found


def _latest(library: Path, folder: Path) -> Mapping[str, Any]:
    """`last.json` is there only while it is the latest."""
    numbered = [
        (int(match[1]), path)
        for path in folder.glob("v*.json")
        if (match := _RECORD.fullmatch(path.name)) is not None
    ]
    paths = [folder / LAST, *(path for _, path in sorted(numbered, reverse=True)[:1])]
    for path in paths:
        try:
            record = orjson.loads(read_bounded(path, root=library, limit=MAX_RECORD))
        except (Unreadable, ValueError):
            continue
        if isinstance(record, dict):
            return record
    return {}


def _listed(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))
