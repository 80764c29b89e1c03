"""What each exit code says, and the error that ends a command with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from triage.app.exits import Exit
from triage.errors import TriageError

INTERRUPTED = 130
"""128 + SIGINT, as a shell says it."""
READER_GONE = 141
"""128 + SIGPIPE: whoever read standard output has closed it."""

MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        Exit.OK: "done",
        Exit.FINDINGS: "it ran, and the answer is bad news: faults found, an alert\n"
        "      refused or escalated, a ledger that is off, nothing by this id",
        Exit.USAGE: "the command line cannot be understood, or a file it names",
        Exit.UNRECORDED: "no bad news, but answers were not recorded that it rests on",
        Exit.UNAVAILABLE: "a daemon, address, store or file that is needed is not there",
        Exit.INTERNAL: "a fault of triage, or a tool that blocked the event loop",
        Exit.UNFINISHED: "stopped with alerts still being decided; they are kept",
        Exit.CONFIG: "the configuration, the procedure or the library was refused",
        INTERRUPTED: "interrupted with Ctrl-C",
        READER_GONE: "the reader of the output went away",
    }
)


def epilog() -> str:
    """For the help page; `\\b` keeps the lines as they are."""
    lines = (f"{int(code):>4}  {text}" for code, text in MEANINGS.items())
    return "\b\nExit codes:\n" + "\n".join(lines)


class CommandFailed(TriageError):
    """Ends the command with `code`; `str()` is all that is said."""

    reason = "command_failed"

    def __init__(self, message: str, code: Exit) -> None:
        self.code = code
        super().__init__(message)


@contextmanager
def showing(what: str) -> Iterator[None]:
    """A document of another version's form ends the command, with a way on."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CommandFailed(
            f"this version cannot show the {what} ({type(error).__name__}: {error}): use --json",
            Exit.UNAVAILABLE,
        ) from None
