"""What a prompt shows: traces, failing cases, and the units of the sites file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.make.reading import Field, SaidAnswer, Shown


class Evidence:
    """Of some traces and failing cases, and units beside them, asked in one place."""

    def __init__(self, shown: Sequence[Shown], units: Sequence[tuple[str, str]] = ()) -> None:
        self._shown = tuple(shown)
        self._units = tuple(units)

    @property
    def text(self) -> str:
        return "\n".join(one.text for one in self._shown)

    @property
    def units(self) -> Iterator[tuple[str, str]]:
        """Metric and unit, of every site that was shown or that the file names."""
        yield from self._units
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
