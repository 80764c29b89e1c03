"""Which sources passed the lint and did load before, so that a start need not do it to thousands.

A file in the daemon's data folder: the policy's fingerprint, then one passed source a line. It
holds verdicts and never code: what runs is always compiled from bytes that have the hash in the
manifest, though no sooner than it is called. Whoever could forge a line could so spare an approved
source the lint, and nothing else; the manifest that pins the hash and names the approver is not to
be found here.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from triage.library import lint, policy, rules
from triage.library.files import Unreadable, read_bounded, write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection

_LIMIT = 32 << 20  # bytes: about 400,000 sources
_KEY = re.compile(r"[0-9a-f]{64} (?:static|dynamic)")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def key(sha256: str, dynamic: bool) -> str:
    """How a passed source is named: the contract depends on `dynamic` as well."""
    return f"{sha256} {'dynamic' if dynamic else 'static'}"


def fingerprint() -> str:
    """Of everything a verdict depends on besides the source: rules and interpreter. Empty when
    the rules cannot be read; then nothing is remembered."""
    digest = hashlib.sha256(sys.version.encode())
    for module in (lint, policy, rules):
        try:
            digest.update(Path(str(module.__file__)).read_bytes())
        except OSError:
            return ""
    # What modules offer is part of the rules, and tool_api's part grows with this project.
    for name, offered in sorted(rules.ALLOWED_IMPORTS.items()):
        digest.update(f"{name}: {sorted(offered)}\n".encode())
    return digest.hexdigest()


def read(path: Path) -> frozenset[str]:
    """Keys of the sources that passed; none when the file is missing, damaged, of another policy,
    or may be written by anybody but its owner and root. Raises nothing: it saves time only."""
    try:
        status = path.lstat()
        if status.st_uid not in {0, os.geteuid()} or status.st_mode & _OTHERS_MAY_WRITE:
            return frozenset()
        first, *keys = read_bounded(path, root=path.parent, limit=_LIMIT).decode().splitlines()
    except (OSError, Unreadable, ValueError):
        return frozenset()
    if not first or first != fingerprint() or not all(map(_KEY.fullmatch, keys)):
        return frozenset()
    return frozenset(keys)


def write(path: Path, keys: Collection[str]) -> None:
    """Raises OSError."""
    if policy_now := fingerprint():
        path.touch(mode=0o600)
        write_atomic(path, "".join(f"{line}\n" for line in (policy_now, *sorted(keys))).encode())
