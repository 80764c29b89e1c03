"""What is held against tools, for a list of them: from the files, and from the record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from triage.app.settings_places import SQLITE
from triage.cli.exit_codes import CommandFailed
from triage.cli.tool_bench import Bench
from triage.errors import TriageError
from triage.library.overview import STALE_TEXT, ToolRow

MOST = 1_000  # as many as a record gives at once
ELSEWHERE = "the store is a server, which a list does not ask: `triage doctor` shows what changed"


class Marks(NamedTuple):
    """`by_node` has `kind`, `subject` and `since`, ISO 8601 or None, of each mark. `record` is
    whether those of the record are among them; `note` says why not, empty before a first start."""

    by_node: Mapping[str, Sequence[Mapping[str, Any]]]
    record: bool = False
    note: str = ""

    def kinds(self, node: str) -> list[str]:
        return list(dict.fromkeys(one["kind"] for one in self.by_node.get(node, ())))


def marks(library: Bench, config: Path, rows: Sequence[ToolRow]) -> Marks:
    """A store that is a file is read, beside a daemon that may be serving from it. A list is not
    made to wait for a server."""
    by_node: dict[str, list[Mapping[str, Any]]] = {
        row.node: [{"kind": STALE_TEXT, "subject": "", "since": None}] for row in rows if row.stale
    }
    address = library.settings.store.address
    if not address.startswith(SQLITE):
        return Marks(by_node, note=ELSEWHERE)
    if not Path(address.removeprefix(SQLITE)).exists():
        return Marks(by_node)
    try:
        found = asyncio.run(_recorded(config))
    except (TriageError, CommandFailed, OSError) as error:
        return Marks(by_node, note=f"only the files were looked at: {error}")
    for one in found:
        its = {"kind": one["kind"], "subject": one["subject"], "since": one["first_at"]}
        by_node.setdefault(str(one["node"]), []).append(its)
    return Marks(by_node, record=True)


async def _recorded(config: Path) -> list[Mapping[str, Any]]:
    # Here: the store's libraries cost as much as the rest of the command.
    from triage.cli.local import local_reader

    async with local_reader(config) as source:
        found, _ = await source.finding_page(node="", cursor="", limit=MOST)
    return found
