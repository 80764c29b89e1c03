"""The sections of the maker's prompts: the procedure's part, traces, failing cases, a diagnosis."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triage.fallback.masking import Mask
from triage.fallback.template import fenced, phrased
from triage.fallback.words import stems
from triage.maker.model import CaseTrace, Score
from triage.maker.scoring import SHOWN
from triage.maker.shown import Detail, case_text, confusion_text, number, trace_text
from triage.maker.task import Task
from triage.model.site import ParamValue, Site
from triage.sop.procedure import Param

MAX_FACTS = 3_000  # characters of a site's facts, and of the units of all sites

_BACKTICKS = re.compile(r"`+")


class Wording:
    """`texts` are the sentences of `prompts/texts.yaml`, by name."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def opening(
        self, task: Task, traces: Sequence[CaseTrace] | None, detail: Detail, mask: Mask
    ) -> dict[str, str]:
        """By slot: what a first candidate and a repair are both told."""
        return {
            "place": "\n".join(self._place(task)),
            "params": "\n".join(self._params(task, mask)),
            "sources": "\n".join(self._sources(task)),
            "traces": "" if traces is None else self._traces(traces, detail, mask),
        }

    def candidate(self, code: str) -> str:
        """Between two rows of backticks that are longer than any in it."""
        if not code:
            return self._texts["candidate_none"]
        longest = max((len(run) for run in _BACKTICKS.findall(code)), default=0)
        row = "`" * max(3, longest + 1)
        return f"{row}python\n{code.strip()}\n{row}"

    def _place(self, task: Task) -> Iterator[str]:
        yield self._texts[f"kind_{task.kind.value}"]
        if not task.before:
            yield self._texts["before_none"]
        for asker in task.before:
            yield self._say("before", word=asker.on, node=asker.node, text=asker.text)
        for follower in task.after:
            yield self._say("after", word=follower.on, text=follower.text)
        if task.readable:
            nodes = ", ".join(f"`{node}`" for node in task.readable)
            yield self._say("readable", nodes=nodes)
        elif task.before:
            yield self._texts["readable_none"]

    def _params(self, task: Task, mask: Mask) -> Iterator[str]:
        """All of them, and more about those that share a word with the question; then what the
        sites file states: the facts of one site, and the units of all. No site is named beside a
        unit, for a tool is to read it from its site."""
        near, others = [], []
        wanted = stems(task.text)
        for name, param in task.params.items():
            if wanted & stems(f"{name.replace('_', ' ')} {param.text}"):
                near.append(self._param(name, param))
            else:
                unit = self._say("param_unit", unit=param.unit) if param.unit else ""
                others.append(f"{name}={_value(param.value)}{unit}")
        if near:
            yield self._texts["params_near"]
            yield from near
        if others:
            yield self._texts["params_others"]
            yield ", ".join(others)
        if not task.params:
            yield self._texts["params_none"]
        known = next((site for site in task.sites if site.facts), None)
        if known is not None:
            yield self._say("facts", site=known.name, zone=known.zone)
            yield fenced(mask.clean(_stated(dict(known.facts))))
        units = _units(task.sites)
        if units:
            yield self._texts["units"]
            yield fenced(mask.clean(f"units: {_stated(units)}"))

    def _param(self, name: str, param: Param) -> str:
        return self._say(
            "param",
            name=name,
            value=_value(param.value),
            unit=self._say("param_unit", unit=param.unit) if param.unit else "",
            text=self._say("param_text", text=param.text) if param.text else "",
        )

    def _sources(self, task: Task) -> Iterator[str]:
        if not task.sources:
            yield self._texts["sources_none"]
        for source, kind in task.sources.items():
            yield self._say(f"source_{kind.value}", source=source)

    def _traces(self, traces: Sequence[CaseTrace], detail: Detail, mask: Mask) -> str:
        shown = traces[: detail.traces]
        parts = ["", "# Traces", ""]
        if not traces:
            return "\n".join([*parts, self._texts["traces_none"], ""])
        parts.append(self._texts["traces"])
        left_out = []
        if len(shown) < len(traces):
            left_out.append(
                self._say(
                    "left_out_traces",
                    count=str(len(traces) - len(shown)),
                    total=str(len(traces)),
                )
            )
        if not detail.every_turn and any(len(_codes(trace)) > 1 for trace in shown):
            left_out.append(self._texts["left_out_turns"])
        if any(len(seen.fields) > detail.fields for trace in shown for seen in trace.answers):
            left_out.append(self._say("left_out_fields", count=str(detail.fields)))
        if left_out:
            parts.append(self._say("left_out", what="; ".join(left_out)))
        for index, trace in enumerate(shown, 1):
            parts += ["", trace_text(index, trace, detail, mask)]
        return "\n".join([*parts, ""])

    def diagnosis(self, said: str, note: str, mask: Mask) -> str:
        """`said` is a model's, data; `note` our own words."""
        parts = []
        if said:
            parts += [self._texts["diagnosis"], fenced(mask.clean(said))]
        if note:
            parts.append(note)
        return "\n".join(parts) or self._texts["diagnosis_none"]

    def cases(self, score: Score | None, detail: Detail, mask: Mask) -> str:
        """The first of the mismatches, which `scoring` has put in the order to be shown in."""
        if score is None:
            return self._texts["cases_untried"]
        parts = [
            self._say("cases", passed=str(score.passed), total=str(score.total)),
            confusion_text(score),
        ]
        most = min(SHOWN, len(score.mismatches))
        shown = score.mismatches[: min(most, detail.cases)]
        left_out = []
        if len(shown) < most:
            left_out.append(
                self._say("left_out_cases", count=str(most - len(shown)), total=str(most))
            )
        if any(len(seen.fields) > detail.fields for case in shown for seen in case.answers):
            left_out.append(self._say("left_out_fields", count=str(detail.fields)))
        if left_out:
            parts.append(self._say("left_out", what="; ".join(left_out)))
        if shown:
            wrong = str(len(score.mismatches))
            parts.append(self._say("cases_shown", shown=str(len(shown)), wrong=wrong))
        for mismatch in shown:
            parts += ["", case_text(mismatch, detail, mask)]
        return "\n".join(parts)

    def _say(self, text: str, /, **values: str) -> str:
        return phrased(self._texts[text], values)


def _codes(trace: CaseTrace) -> list[str]:
    return [turn.code for turn in trace.turns if turn.code.strip()]


def _units(sites: Sequence[Site]) -> dict[str, list[str]]:
    """By metric."""
    found: dict[str, set[str]] = {}
    for site in sites:
        for metric, unit in site.units.items():
            found.setdefault(metric, set()).add(unit)
    return {metric: sorted(found[metric]) for metric in sorted(found)}


def _stated(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_FACTS else f"{text[: MAX_FACTS - 1]}…"


def _value(value: ParamValue) -> str:
    return number(value) if type(value) is float else json.dumps(value, ensure_ascii=False)
