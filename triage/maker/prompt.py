"""The three prompts of the maker: files with slots, filled for one node, cut down to the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import yaml

from triage.errors import TriageError
from triage.fallback.masking import Mask
from triage.fallback.prompt_files import PromptFiles, files_of
from triage.fallback.template import filled
from triage.maker.model import CaseTrace, Score
from triage.maker.scoring import SHOWN
from triage.maker.shown import Detail
from triage.maker.task import Task
from triage.maker.wording import Wording
from triage.ports import ChatMessage

REFLECT_RULES, API, EXAMPLE = "reflect_rules.md", "tool_api.md", "example.md"
MAKE, REFLECT, REPAIR = "make.md", "reflect.md", "repair.md"
TEXTS = "texts.yaml"
EXAMPLES = "examples/"

MANY = 1_000  # more traces, cases or fields than there are
LADDER = (
    Detail(traces=MANY, cases=SHOWN, fields=MANY, every_turn=True),
    Detail(traces=MANY, cases=SHOWN, fields=MANY, every_turn=False),
    Detail(traces=MANY, cases=6, fields=24, every_turn=False),
    Detail(traces=3, cases=5, fields=16, every_turn=False),
    Detail(traces=3, cases=4, fields=12, every_turn=False),
    Detail(traces=2, cases=4, fields=12, every_turn=False),
    Detail(traces=2, cases=3, fields=10, every_turn=False),
    Detail(traces=1, cases=3, fields=10, every_turn=False),
    Detail(traces=1, cases=2, fields=8, every_turn=False),
    Detail(traces=1, cases=1, fields=8, every_turn=False),
    Detail(traces=1, cases=1, fields=4, every_turn=False),
    Detail(traces=0, cases=1, fields=4, every_turn=False),
    Detail(traces=0, cases=0, fields=0, every_turn=False),
)
"""What is shown of the data, from all of it to none: the first that fits the window. A failing case
stays longer than a second trace: it is what a repair is about."""

Fits = Callable[[Sequence[ChatMessage]], bool]


class PromptTooLarge(TriageError):
    """What may not be cut (rules, question, candidate, diagnosis) does not fit the window."""

    reason = "prompt_too_large"


class Repair(NamedTuple):
    """What a repair starts from. `code` is "" when no reply has held any. `score` is None when it
    was not tried. `diagnosis` is a model's, data; `note` our own words."""

    code: str
    score: Score | None
    diagnosis: str = ""
    note: str = ""


class MakerPrompts(PromptFiles):
    def __init__(self, files: Mapping[str, str]) -> None:
        """As PromptFiles."""
        super().__init__(files)
        self._wording = Wording(yaml.safe_load(files[TEXTS]))
        api = files[API].strip()
        self._rules = filled(self._rules, {"api": api, "examples": self._worked()})
        self._reflect_rules = filled(files[REFLECT_RULES].strip(), {"api": api})

    @classmethod
    def load(cls) -> Self:
        """Reads the files of this package."""
        return cls(files_of(__package__ or "triage.maker"))

    # --- the three ----------------------------------------------------------------------------

    def make(
        self, task: Task, traces: Sequence[CaseTrace] | None, *, mask: Mask, fits: Fits
    ) -> list[ChatMessage]:
        """For a first candidate. `traces` None leaves out their section. Raises PromptTooLarge."""

        def user(detail: Detail) -> str:
            return filled(
                self._files[MAKE],
                {**self._wording.opening(task, traces, detail, mask), "question": task.text},
            )

        return self._fitted(self._rules, user, fits)

    def reflect(
        self, task: Task, code: str, score: Score, *, mask: Mask, fits: Fits
    ) -> list[ChatMessage]:
        """For a diagnosis of what `score` found. Raises PromptTooLarge."""

        def user(detail: Detail) -> str:
            return filled(
                self._files[REFLECT],
                {
                    "question": task.text,
                    "candidate": self._wording.candidate(code),
                    "cases": self._wording.cases(score, detail, mask),
                },
            )

        return self._fitted(self._reflect_rules, user, fits)

    def repair(
        self,
        task: Task,
        traces: Sequence[CaseTrace] | None,
        given: Repair,
        *,
        mask: Mask,
        fits: Fits,
    ) -> list[ChatMessage]:
        """For a rewrite. Raises PromptTooLarge."""

        def user(detail: Detail) -> str:
            return filled(
                self._files[REPAIR],
                {
                    **self._wording.opening(task, traces, detail, mask),
                    "candidate": self._wording.candidate(given.code),
                    "diagnosis": self._wording.diagnosis(given.diagnosis, given.note, mask),
                    "cases": self._wording.cases(given.score, detail, mask),
                    "question": task.text,
                },
            )

        return self._fitted(self._rules, user, fits)

    def _fitted(self, rules: str, user: Callable[[Detail], str], fits: Fits) -> list[ChatMessage]:
        messages: list[ChatMessage] = []
        for detail in LADDER:
            messages = [ChatMessage("system", rules), ChatMessage("user", user(detail).strip())]
            if fits(messages):
                return messages
        size = sum(len(message.content.encode(errors="replace")) for message in messages)
        raise PromptTooLarge(
            f"the rules, the question and the code alone have {size} bytes, which leaves no room"
            " for a reply: raise context_tokens of [make], or lower its max_reply_tokens"
        )

    def _worked(self) -> str:
        documents = [
            yaml.safe_load(text) for name, text in self._files.items() if name.startswith(EXAMPLES)
        ]
        documents.sort(key=lambda document: document["order"])
        return "".join(
            filled(
                self._files[EXAMPLE],
                {
                    "number": str(index),
                    "question": " ".join(document["question"].split()),
                    "thought": " ".join(document["thought"].split()),
                    "code": document["code"].strip("\n"),
                },
            )
            for index, document in enumerate(documents, 1)
        ).strip("\n")
