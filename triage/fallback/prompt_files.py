"""Files that prompts are made of, under prompts/ of a package: Markdown with slots, and YAML."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable

import yaml

from triage.fallback.template import phrased

FOLDER = "prompts"
RULES, PHRASES = "rules.md", "phrases.yaml"

_VERSION = re.compile(r"version: (\S+)\n+")


class PromptFiles:
    """`files` maps a path under prompts/ to its text. `version` is the one in the rules, `sha256`
    is of all files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """Raises ValueError for rules without a version, KeyError for a file that is missing."""
        found = _VERSION.match(files[RULES])
        if found is None:
            raise ValueError(f"{RULES} must begin with a line `version: …`")
        self.version = found[1]
        digest = hashlib.sha256()
        for name in sorted(files):
            digest.update(f"{name}\0{files[name]}\0".encode())
        self.sha256 = digest.hexdigest()
        self._files = files
        self._rules = files[RULES][found.end() :].strip()
        self._phrases: Mapping[str, str] = yaml.safe_load(files[PHRASES])

    def phrase(self, name: str, **values: str) -> str:
        """Raises KeyError for a phrase that there is not, or a value that it lacks."""
        return phrased(self._phrases[name], values)


def files_of(package: str) -> dict[str, str]:
    """Reads files of this project."""
    return dict(_files(resources.files(package) / FOLDER))


def _files(folder: Traversable, under: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{under}{entry.name}/")
        elif entry.name.endswith((".md", ".yaml")):
            yield f"{under}{entry.name}", entry.read_text(encoding="utf-8")
