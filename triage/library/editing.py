"""Changing a `tool.toml` so that what a person wrote in it, comments and order, stays."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, InlineTable, Table

from triage.errors import ConfigError, Finding, InvalidFiles
from triage.library.files import Unreadable, is_folder_name, locked, within, write_atomic
from triage.library.manifest import (
    Act,
    Manifest,
    ManifestVersion,
    VersionStatus,
    manifest_path,
    parse_manifest,
    read_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LEFT_OUT_EMPTY = ("approver", "approved_sha256", "gap")

_TEMPLATE = """\
# The versions of this node's tool. `triage tools` changes this file and keeps your comments.
node = ""

# What was done, one line an act, oldest first.
history = [
]
"""


class ManifestEdit:
    """One manifest under its lock. `manifest` is as it was read; changes count once saved."""

    def __init__(self, path: Path, node: str, manifest: Manifest, text: str) -> None:
        self.path = path
        self.manifest = manifest
        self._node = node
        try:
            self._document = tomlkit.parse(text)
        except (TOMLKitError, RecursionError) as error:
            raise InvalidFiles(
                [
                    Finding(
                        file=str(path),
                        where=node,
                        problem=f"cannot be edited: {error}",
                        fix="mend the syntax",
                    )
                ]
            ) from None

    def set_active(self, version: int) -> None:
        if "active" not in self._document:
            self._put_after("node", "active = 0\n")
        self._document["active"] = version

    def clear_active(self) -> None:
        self._document.remove("active")

    def set_shadow(self, version: int) -> None:
        if "shadow" not in self._document:
            self._put_after("active" if "active" in self._document else "node", "shadow = 0\n")
        self._document["shadow"] = version

    def clear_shadow(self) -> None:
        self._document.remove("shadow")

    def set_status(self, version: int, status: VersionStatus) -> None:
        self._table(version)["status"] = status.value

    def approve(self, entry: ManifestVersion, *, by: str, at: datetime) -> None:
        """Of exactly this content."""
        table = self._table(entry.version)
        table["approver"] = by
        table["approved_at"] = _moment(at)
        table["approved_sha256"] = entry.sha256

    def add_version(self, entry: ManifestVersion) -> None:
        fields: dict[str, Any] = {
            key: value.value if isinstance(value, VersionStatus) else _toml(value)
            for key, value in entry
            if value is not None and (key not in _LEFT_OUT_EMPTY or value)
        }
        versions = self._document.get("versions")
        if isinstance(versions, AoT):
            versions.append(_table(fields))
        elif isinstance(versions, Array) and len(versions):
            versions.add_line(_inline(fields), indent="  ")
        else:
            if versions is not None:
                self._document.remove("versions")
            rows = tomlkit.aot()
            rows.append(_table(fields))
            self._document.append("versions", rows)

    def add_act(self, act: Act) -> None:
        """One more line of history."""
        fields = {key: _toml(value) for key, value in act}
        fields["verb"] = act.verb.value
        history = self._document.get("history")
        if isinstance(history, AoT):
            history.append(_table(fields))
            return
        if not isinstance(history, Array) or not len(history):
            # An empty array has no line of its own to follow: `[]` becomes one a line.
            if history is None:
                self._put_after("node", "history = []\n")
            history = tomlkit.array()
            history.add_line(_inline(fields), indent="  ")
            history.add_line(indent="", add_comma=False)
            self._document["history"] = history
            return
        history.add_line(_inline(fields), indent="  ")

    def save(self) -> None:
        """Check the new manifest as a reader would and replace the file by it.

        Raises InvalidFiles when it would not be readable (nothing is written), or ConfigError.
        """
        body = tomlkit.dumps(self._document).encode()
        parse_manifest(body, file=self.path, node=self._node)
        try:
            write_atomic(self.path, body)
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written: {error.strerror} — nothing was changed; "
                "check the folder's permissions and the disk"
            ) from error

    def _put_after(self, key: str, line: str) -> None:
        """Give a new key its place; tomlkit would put it below the comments of what follows."""
        text = tomlkit.dumps(self._document)
        found = re.search(rf"^[ \t]*{key}[ \t]*=[^\n]*\n", text, re.MULTILINE)
        if found is not None:
            self._document = tomlkit.parse(text[: found.end()] + line + text[found.end() :])

    def _table(self, version: int) -> Any:
        return next(row for row in self._document["versions"] if row["version"] == version)


@contextmanager
def edit_manifest(root: Path, node: str, *, create: bool = False) -> Iterator[ManifestEdit]:
    """The manifest of `node`, read and locked until the block ends. Nothing is saved by itself.

    With `create` a node without one gets its folder, and its first manifest when saved. Waits for
    another run that holds the lock. Raises Unreadable, InvalidFiles or ConfigError.
    """
    folder = root / node
    if not is_folder_name(node):
        raise ConfigError(f"{node!r} cannot be the name of a folder — name a node of the SOP")
    try:
        real = within(root, folder)
        if create:
            real.mkdir(parents=True, exist_ok=True)
        with locked(real):
            yield _open(root, node, create=create)
    except FileNotFoundError:
        raise Unreadable(
            manifest_path(root, node), "the node has no tool", "add a version", missing=True
        ) from None
    except (NotADirectoryError, FileExistsError, PermissionError) as error:
        raise ConfigError(
            f"{folder}: {error.strerror} — make it a folder you can change"
        ) from error


def _open(root: Path, node: str, *, create: bool) -> ManifestEdit:
    path = manifest_path(root, node)
    try:
        manifest, body = read_manifest(root, node)
    except Unreadable as error:
        if not (error.missing and create):
            raise
        document = tomlkit.parse(_TEMPLATE)
        document["node"] = node
        return ManifestEdit(path, node, Manifest(node=node), tomlkit.dumps(document))
    return ManifestEdit(path, node, manifest, body.decode())


def _table(fields: dict[str, Any]) -> Table:
    table = tomlkit.table()
    table.update(fields)
    table.trivia.indent = "\n"  # a blank line before its header
    return table


def _inline(fields: dict[str, Any]) -> InlineTable:
    row = tomlkit.inline_table()
    row.update(fields)
    return row


def _toml(value: Any) -> Any:
    if isinstance(value, datetime):
        return _moment(value)
    return list(value) if isinstance(value, tuple) else value


def _moment(at: datetime) -> Any:
    text = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return tomlkit.datetime(text)
