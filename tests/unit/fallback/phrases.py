"""The phrases of the prompt, filled in as plainly as can be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from triage.fallback.template import phrased

FILE = Path(__file__).parents[3] / "triage/fallback/prompts/phrases.yaml"


class PlainPhrases:
    """Implements `observation.Phrases`."""

    def __init__(self) -> None:
        self.texts = _texts()

    def phrase(self, name: str, **values: str) -> str:
        return phrased(self.texts[name], values)


@cache
def _texts() -> dict[str, str]:
    texts: dict[str, str] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return texts


class Stars:
    """Implements `observation.Cleaner`: hides one word."""

    def __init__(self, word: str = "hunter2", stars: str = "***") -> None:
        self.word = word
        self.stars = stars

    def clean(self, text: str) -> str:
        return text.replace(self.word, self.stars)
