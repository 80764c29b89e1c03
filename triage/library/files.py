"""Reading and writing the few files this package owns, so that a crash or a rival loses none.

Reads are bounded, never leave the library's root and never wait on a pipe. Writes replace the
whole file at once and are durable when they return.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from triage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST_NAME = "tool.toml"
MANIFEST_LIMIT = 1 << 20  # bytes; about 4,000 acts of history

_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class Unreadable(ConfigError):
    """A file that cannot be used as it is. `missing` when there is no such file."""

    reason = "unreadable"

    def __init__(self, path: Path, problem: str, fix: str, *, missing: bool = False) -> None:
        self.path = path
        self.problem = problem
        self.fix = fix
        self.missing = missing
        super().__init__(f"{path}: {problem} — {fix}")


def is_folder_name(name: str) -> bool:
    """Whether `name` is one plain path component that no shell or file system reads otherwise."""
    return _FOLDER_NAME.fullmatch(name) is not None


def within(root: Path, path: Path) -> Path:
    """`path` with every link below `root` followed. Raises Unreadable when one leads out of it.

    `path` is `root` joined with plain names.
    """
    # Strings and not paths: a load looks at thousands, and each `Path` costs as much as the look.
    top, part = str(root), str(path)
    while part != top and not os.path.islink(part):  # noqa: PTH114 - see above
        above = os.path.dirname(part) or "."  # noqa: PTH120 - see above
        if above == part:
            break
        part = above
    if part == top:
        return path
    real_root = os.path.realpath(root)
    real = os.path.realpath(path)
    if real != real_root and not real.startswith(real_root.rstrip(os.sep) + os.sep):
        raise Unreadable(
            path,
            f"leads out of the library, to {real}",
            f"replace the link with a file inside {root}",
        )
    return Path(real)


def read_bounded(path: Path, *, root: Path, limit: int) -> bytes:
    """The bytes of a regular file inside `root`, at most `limit` of them. Raises Unreadable."""
    real = within(root, path)
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise Unreadable(path, "there is no such file", "restore it", missing=True) from None
    except OSError as error:
        problem = error.strerror or str(error)
        raise Unreadable(path, f"cannot be opened: {problem}", "make it readable") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(path, "is not a regular file", "put the file itself there")
        try:
            body = _read(descriptor, expected=status.st_size, limit=limit + 1)
        except OSError as error:
            raise Unreadable(path, f"cannot be read: {error.strerror}", "check the disk") from error
    finally:
        os.close(descriptor)
    if len(body) > limit:
        raise Unreadable(path, f"is larger than {limit} bytes", "it must be smaller")
    return body


def _read(descriptor: int, *, expected: int, limit: int) -> bytes:
    """All there is, at most `limit` bytes; `expected` saves memory, and may be wrong."""
    body = os.read(descriptor, min(expected + 1, limit))
    while len(body) < limit and (more := os.read(descriptor, limit - len(body))):
        body += more
    return body


def write_atomic(path: Path, body: bytes) -> None:
    """Replace `path` by `body`, keeping its permissions and owner. Raises OSError.

    A reader sees the old bytes or the new ones, never a part, whatever is killed when.
    """
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{target.name}.{secrets.token_hex(6)}.tmp"
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    try:
        descriptor = _create(temporary)
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
                # Root editing a file of the daemon's user must leave it the daemon's.
                with suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            file.write(body)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def write_new(path: Path, body: bytes) -> None:
    """Create `path` with `body`, durable when it returns. Raises FileExistsError, OSError."""
    descriptor = _create(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names created or replaced in `folder` survive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, create: bool = False) -> Iterator[None]:
    """Hold the exclusive lock of `path`, a folder or (with `create`) a file made for it.

    Waits for whoever holds it, another process or another thread; the kernel frees the lock of a
    process that dies. Raises OSError when `path` cannot be opened.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
