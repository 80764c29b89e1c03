"""What traces and failing cases show together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.make.reading import Field, SaidAnswer, Shown


class Evidence:
    """Of some traces and failing cases, asked in one place."""

    def __init__(self, shown: Sequence[Shown]) -> None:
        self._shown = tuple(shown)

    @property
    def text(self) -> str:
        return "\n".join(one.text for one in self._shown)

    @property
    def units(self) -> Iterator[tuple[str, str]]:
        """Metric and unit, of every site that was shown."""
        for one in self._shown:
            yield from one.units.items()

    @property
    def entities(self) -> Iterator[str]:
        """As alerts spelled them."""
        for one in self._shown:
            if entity := one.lines.get("entity", ""):
                yield entity

    @property
    def failures(self) -> str:
        return "\n".join(one.failure for one in self._shown if one.failure)

    def answers(self, *kinds: str) -> Iterator[SaidAnswer]:
        for one in self._shown:
            for answer in one.answers:
                if answer.kind in kinds:
                    yield answer

    def fields(self, *kinds: str) -> Iterator[Field]:
        for answer in self.answers(*kinds):
            yield from answer.fields
