"""The prompt: files with slots, filled for one node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, Self

import yaml

from triage.fallback.described import described
from triage.fallback.examples import CALL, FACE_KINDS, Example, choose
from triage.fallback.host import HostTools
from triage.fallback.listing import kind_of
from triage.fallback.masking import Mask
from triage.fallback.prelude import tool_mode_inputs
from triage.fallback.prompt_files import PromptFiles, files_of
from triage.fallback.template import fenced, filled, phrased
from triage.fallback.words import stems
from triage.model.question import Asker, Follower, Parameter, Question
from triage.ports import ChatMessage, FallbackRequest

__all__ = ["Example", "Prompt"]

TASK, EXAMPLE = "task.md", "example.md"
AS_JSON = "as_json.md"
TEXTS = "texts.yaml"

ALERT_NAMES = ("site", "fired_at", "entity", "labels", "facts", "units", "zone")
MAX_DATA = 6_000  # characters of the alert and the site's facts
MAX_SAID = 200  # characters of what a parent said


class Prompt(PromptFiles):
    """With `as_json` replies are asked for as REPLY_SCHEMA has them."""

    def __init__(self, files: Mapping[str, str], *, as_json: bool = False) -> None:
        """As PromptFiles."""
        super().__init__(files)
        self.as_json = as_json
        if as_json:
            self._rules += f"\n\n{files[AS_JSON].strip()}"
        self._task = files[TASK]
        self._example = files[EXAMPLE]
        self._texts: Mapping[str, str] = yaml.safe_load(files[TEXTS])

    @classmethod
    def load(cls, *, as_json: bool = False) -> Self:
        """Reads the files of this package."""
        return cls(files_of(__package__ or "triage.fallback"), as_json=as_json)

    def inputs(self, request: FallbackRequest) -> dict[str, Any]:
        """The sandbox's globals, JSON types."""
        question = request.question
        return tool_mode_inputs(
            site=request.site,
            fired_at=request.alert.fired_at,
            entity=request.alert.entity,
            labels=request.alert.labels,
            params={name: one.value for name, one in question.parameters.items()},
            parents={one.node: one.verdict for one in question.before},
        )

    def opening(
        self,
        request: FallbackRequest,
        tools: HostTools,
        examples: Sequence[Example],
        *,
        mask: Mask,
    ) -> list[ChatMessage]:
        """Rules, then the node's own part with worked examples: those of `examples` that fit."""
        question = request.question
        task = filled(
            self._task,
            {
                "examples": self._worked(tools, examples),
                "alert_names": "`, `".join(ALERT_NAMES),
                "alert": fenced(_alert(request, mask)),
                "params": self._params(question),
                "functions": self._functions(tools, mask),
                "place": "\n".join(self._place(question, mask)),
                "question": question.text,
                "kind": self._texts[f"kind_{question.kind.value}"],
            },
        )
        return [ChatMessage("system", self._rules), ChatMessage("user", task.strip())]

    def _say(self, text: str, /, **values: str) -> str:
        return phrased(self._texts[text], values)

    def _worked(self, tools: HostTools, examples: Sequence[Example]) -> str:
        kinds = kinds_of(tools)
        return "\n".join(
            filled(
                self._example,
                {
                    "number": str(number),
                    "question": example.question,
                    "thought": example.thought,
                    "code": example.with_functions(kinds),
                },
            )
            for number, example in enumerate(choose(examples, kinds), 1)
        )

    def _place(self, question: Question, mask: Mask) -> Iterator[str]:
        if not question.before:
            yield self._texts["before_none"]
        for asker in question.before:
            yield self._before(asker)
        said = [line for asker in question.before if (line := self._said(asker))]
        if said:
            yield fenced(mask.clean("\n".join(said)))
        for follower in question.after:
            yield self._after(follower)

    def _before(self, asker: Asker) -> str:
        return self._say("before", text=asker.text, node=asker.node, word=asker.on)

    def _said(self, asker: Asker) -> str:
        """What a parent told, in words that may be those of its sources."""
        verdict = asker.verdict
        if verdict is None or not (verdict.explanation or verdict.subject):
            return ""
        return self._say(
            "said",
            node=asker.node,
            subject=_cut(verdict.subject, MAX_SAID) or "-",
            explanation=_cut(verdict.explanation, MAX_SAID) or "-",
        )

    def _after(self, follower: Follower) -> str:
        return self._say("after", word=follower.on, text=follower.text)

    def _params(self, question: Question) -> str:
        """All of them, and more about those that share a word with the question."""
        near, others = [], []
        wanted = stems(question.text)
        for parameter in question.parameters.values():
            if wanted & stems(f"{parameter.name.replace('_', ' ')} {parameter.text}"):
                near.append(self._param(parameter))
            else:
                others.append(f"{parameter.name}={_value(parameter)}")
        lines = [self._texts["params_near"], *near] if near else []
        if others:
            lines += [self._texts["params_others"], ", ".join(others)]
        return "\n".join(lines) or self._texts["params_none"]

    def _param(self, parameter: Parameter) -> str:
        return self._say(
            "param",
            name=parameter.name,
            value=_value(parameter),
            unit=self._say("param_unit", unit=parameter.unit) if parameter.unit else "",
            text=self._say("param_text", text=parameter.text) if parameter.text else "",
        )

    def _functions(self, tools: HostTools, mask: Mask) -> str:
        lines = [fenced(mask.clean(described(tools.described)))] if tools.described else []
        for source, why in tools.unreachable.items():
            lines += [self._say("unreachable", source=source), fenced(mask.clean(why))]
        if tools.listings:
            lines.append(self._texts["listed"])
        for listing in tools.listings:
            lines += [
                self._say("listing", function=listing.function),
                fenced(mask.clean(listing.text)),
            ]
        return "\n".join(lines) or self._texts["functions_none"]


def kinds_of(tools: HostTools) -> dict[str, str]:
    """Kind to the first of the node's functions that is of it. Listing what there is answers no
    question."""
    kinds: dict[str, str] = {}
    for tool in tools.described:
        if kind_of(tool) is not None:
            continue
        kinds.setdefault(tool.tool if tool.tool in FACE_KINDS else CALL, tool.name)
    return kinds


def _alert(request: FallbackRequest, mask: Mask) -> str:
    alert, site = request.alert, request.site
    values = (
        site.name,
        alert.fired_at.astimezone(UTC).isoformat(),
        alert.entity,
        dict(alert.labels),
        dict(site.facts),
        dict(site.units),
        site.zone,
    )
    lines = (
        f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}"
        for name, value in zip(ALERT_NAMES, values, strict=True)
    )
    return _cut(mask.clean("\n".join(lines)), MAX_DATA)


def _value(parameter: Parameter) -> str:
    value = parameter.value
    return f"{value:g}" if type(value) is float else json.dumps(value, ensure_ascii=False)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
