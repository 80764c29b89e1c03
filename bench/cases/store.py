"""A world's cases, made once and kept beside it: making them all takes minutes."""

from __future__ import annotations

from pathlib import Path

from bench.annotator.case_file import read_cases, write_cases
from bench.annotator.cases import Case, CaseMaker
from bench.annotator.settings import SITES, SOP, load_settings
from bench.world import cache
from bench.world.world import Extent, World

_SOURCES = (
    *sorted((Path(__file__).resolve().parents[1] / "annotator").glob("*.py")),
    *cache.world_sources(),
    SOP,
    SITES,
)


def fingerprint() -> str:
    """Of all that cases hang on: how they are chosen, the rules, the world, the procedure and the
    sites."""
    return cache.digest_of(_SOURCES)


class CaseStore:
    """Cases of one node do not depend on those of another, so each node has a file of its own."""

    def __init__(self, world: World, extent: Extent, folder: Path) -> None:
        self._world = world
        self._folder = folder / (
            f"cases-{world.seed}-{extent.start}-{extent.days}-{extent.sites}-{fingerprint()}"
        )
        self._maker: CaseMaker | None = None

    def of(self, node: str) -> list[Case]:
        """Train and held-out cases of one node: read, or made and kept. Raises OSError."""
        path = self._folder / f"{node}.jsonl"
        if path.exists():
            return read_cases(path)
        if self._maker is None:
            self._maker = CaseMaker(self._world, load_settings(), self._world.seed)
        cases = self._maker.of(node)
        self._folder.mkdir(parents=True, exist_ok=True)
        writing = path.with_name(f"{path.name}.writing")
        write_cases(writing, cases)
        writing.replace(path)
        return cases
