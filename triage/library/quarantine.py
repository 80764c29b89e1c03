"""Tools that blocked the process and may not run again until a person releases them.

One JSON object in the daemon's data folder: SHA-256 of the tool's source to the reason. It is
written by a watchdog thread just before the process ends, so every call is synchronous and
durable when it returns.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from triage.errors import ConfigError
from triage.library.files import Unreadable, locked, read_bounded, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

_LIMIT = 1 << 20  # bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read(path: Path) -> dict[str, str]:
    """SHA-256 to reason; empty when there is no file. Raises ConfigError for a damaged one."""
    try:
        body = read_bounded(path, root=path.parent, limit=_LIMIT)
    except Unreadable as error:
        if error.missing:
            return {}
        raise
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _damaged(path, "is not a JSON object")
    for key, reason in document.items():
        if not _DIGEST.fullmatch(key) or not isinstance(reason, str):
            raise _damaged(path, f"{key[:80]!r} is not a tool's SHA-256 with a reason")
    return document


def add(path: Path, tool_sha256: str, reason: str) -> None:
    """Quarantine a tool; the first reason given stays. Safe from any thread.

    Raises ConfigError when the file is damaged, OSError when it cannot be written, ValueError
    when `tool_sha256` is not 64 hex digits.
    """
    if not _DIGEST.fullmatch(tool_sha256):
        raise ValueError(f"{tool_sha256!r} is not a SHA-256 in lower-case hex")
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(_lock_file(path), create=True):
        entries = read(path)
        if tool_sha256 not in entries:
            _write(path, {**entries, tool_sha256: reason})


def release(path: Path, tool_sha256: str) -> bool:
    """Let a tool run again; False when it was not quarantined. Raises as `add` does."""
    if not path.exists():
        return False
    with locked(_lock_file(path), create=True):
        entries = read(path)
        if entries.pop(tool_sha256, None) is None:
            return False
        _write(path, entries)
        return True


def _write(path: Path, entries: dict[str, str]) -> None:
    text = json.dumps(entries, indent=2, sort_keys=True, ensure_ascii=False)
    write_atomic(path, text.encode("utf-8", "backslashreplace") + b"\n")


def _lock_file(path: Path) -> Path:
    """Beside the file: the data folder's own lock may be held for the life of a daemon."""
    return path.with_name(f".{path.name}.lock")


def _damaged(path: Path, problem: str) -> ConfigError:
    return ConfigError(
        f"{path}: {problem} — restore it, or remove it to release every quarantined tool"
    )
