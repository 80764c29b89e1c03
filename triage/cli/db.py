"""`triage db`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.output import busy, out, print_json
from triage.cli.text import printable

if TYPE_CHECKING:
    from pathlib import Path

application = options.application("See and upgrade the schema of the store.")


@application.command("status")
def status(config: options.Config = options.CONFIG, as_json: options.Json = False) -> None:
    """Say which revision the store's schema has, and which one this version needs.

    Exit codes: 0 it is up to date; 1 it is older, or there are no tables yet; 69 the store did not
    answer; 78 the configuration or the store cannot be used.
    """
    from triage.adapters.store import migrate
    from triage.adapters.store.database import database_at

    address = _address(config)
    label = database_at(address).label
    with busy("reading the store's schema"):
        needed = migrate.needed(address)
        found = migrate.current(address)
    wanted = migrate.REVISIONS[-1]
    if as_json:
        print_json({"store": label, "revision": found, "newest": wanted, "up_to_date": not needed})
    else:
        _say(label, _state(found, wanted))
    if needed:
        raise typer.Exit(Exit.FINDINGS)


@application.command("upgrade")
def upgrade(config: options.Config = options.CONFIG, as_json: options.Json = False) -> None:
    """Bring the store's schema up to what this version needs, in one transaction. What is up to
    date already stays as it is. Back the store up first: there is no way down.

    An SQLite file must not be served from meanwhile. On PostgreSQL one upgrade runs at a time;
    whether replicas of the version before may run on is said in the changelog.

    Exit codes: 0; 69 the store did not answer; 78 the configuration or the store cannot be used,
    or a daemon serves from the SQLite file.
    """
    from triage.adapters.store import migrate
    from triage.adapters.store.database import database_at

    address = _address(config)
    database = database_at(address)
    database.create()
    with database.serving(), busy("upgrading the store's schema"):
        before = migrate.current(address)
        migrate.upgrade(address)
        after = migrate.current(address)
    if as_json:
        print_json({"store": database.label, "from": before, "to": after})
    else:
        _say(database.label, _change(before, after))


def _address(config: Path) -> str:
    from triage.cli.store_settings import store_settings

    return store_settings(config).store.address


def _say(label: str, what: str) -> None:
    out().print(Text(printable(f"{label}: {what}")), soft_wrap=True)


def _state(found: str | None, wanted: str) -> str:
    match found:
        case None:
            return "no tables yet: triage serve makes them, and so does triage db upgrade"
        case _ if found == wanted:
            return f"revision {found}, up to date"
        case _:
            return f"revision {found}, and this version needs {wanted}; run: triage db upgrade"


def _change(before: str | None, after: str | None) -> str:
    if before == after:
        return f"revision {after}, nothing to do"
    if before is None:
        return f"tables made, revision {after}"
    return f"upgraded from revision {before} to {after}"
