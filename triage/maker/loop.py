"""Making a tool: collect, make, test, reflect, repair, and the test on cases that no model saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import NamedTuple, Protocol

from triage.errors import ModelFailed, SandboxFailed, SourceFailed
from triage.fallback.masking import Mask
from triage.maker.model import CaseTrace, Gate, Made, Round, Score
from triage.maker.prompt import MakerPrompts, PromptTooLarge, Repair
from triage.maker.reply import Diagnosis, Taken, read_candidate, read_diagnosis
from triage.maker.scoring import Seen, Settings, failures, outage, score
from triage.maker.task import Task
from triage.maker.transcript import MAKE, REFLECT, REPAIR, ModelLimits, Transcript
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.ports import ChatModel, Completion
from triage.trial.model import Candidate, Trials

MOST_REPEATS = 3
"""Times that a reply is code which was tried before: then nothing new comes."""


class Collector(Protocol):
    async def collect(self, node: NodeId, cases: Sequence[LabelledCase]) -> list[CaseTrace]:
        """The agent's work on a few of these training cases, balanced over verdicts. Raises
        nothing for what the model, the sandbox or a source did. May be cancelled."""


class Gates(Protocol):
    async def check(self, candidate: Candidate, train: Score, heldout: Score) -> list[Gate]:
        """Everything that a candidate must pass before it is registered. Raises SandboxFailed.
        May be cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRequest:
    """`train` and `heldout` are disjoint; nothing of the latter reaches the model. `rounds` are
    repairs after the first candidate. `given` are traces that are there already; with `traces`
    off neither they nor new ones are shown. With `repair` off there is one candidate."""

    task: Task
    train: Sequence[LabelledCase]
    heldout: Sequence[LabelledCase]
    rounds: int = 3
    given: Sequence[CaseTrace] = ()
    traces: bool = True
    repair: bool = True


class Maker:
    """Makes one tool at a time. `settings` says what a tool may see in a case, `seen` how an answer
    is shown. Without a `collector` only given traces are shown; without `gates` what comes out can
    be looked at and not be registered. `told` gets a line at every step, for people; `monotonic`
    gives seconds."""

    def __init__(
        self,
        *,
        model: ChatModel,
        trials: Trials,
        settings: Settings,
        seen: Seen,
        prompts: MakerPrompts,
        mask: Mask,
        limits: ModelLimits,
        monotonic: Callable[[], float],
        collector: Collector | None = None,
        gates: Gates | None = None,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._model = model
        self._trials = trials
        self._settings = settings
        self._seen = seen
        self._prompts = prompts
        self._mask = mask
        self._limits = limits
        self._monotonic = monotonic
        self._collector = collector
        self._gates = gates
        self._told = told

    async def make(self, request: MakeRequest) -> Made:
        """Nothing is registered or written. A model, source or sandbox that fails ends it with what
        is known until then: the best candidate so far is still tested and put to the gates, where
        that can be done. Cancelled, nothing is left behind."""
        began = self._monotonic()
        transcript = Transcript(self._model, self._limits, monotonic=self._monotonic)
        making = _Making(request, self._prompts, self._mask, transcript)
        best: Round | None = None
        heldout: Score | None = None
        gates: list[Gate] = []
        problem, unavailable = "", False
        try:
            await self._collect(request, making)
            problem, unavailable = await self._rounds(making)
            best = best_of(making.rounds)
            if best is not None:
                assert best.score is not None, "only what was tried can be the best"
                self._told(f"testing on {len(request.heldout)} held-out cases")
                heldout = await self._score(best.candidate, request.heldout, shown=False)
                if self._gates is not None:
                    self._told("checking the gates")
                    gates = await self._gates.check(best.candidate, best.score, heldout)
        except (ModelFailed, SandboxFailed, SourceFailed) as error:
            # Without gates: none was passed that was not checked.
            best = best or best_of(making.rounds)
            problem, unavailable = str(error), True
        if best is None and not problem:
            problem = making.rounds[-1].refused if making.rounds else "no reply came"
        return Made(
            node=request.task.node,
            best=best,
            rounds=tuple(making.rounds),
            train=best.score if best is not None else None,
            heldout=heldout,
            gates=tuple(gates),
            traces=tuple(making.traces),
            transcript=tuple(transcript.said),
            tokens=transcript.tokens,
            seconds=self._monotonic() - began,
            problem=" ".join(self._mask.clean(problem).split()),
            unavailable=unavailable,
        )

    async def _collect(self, request: MakeRequest, making: _Making) -> None:
        if not request.traces:
            return
        if self._collector is not None:
            self._told("collecting traces")
            making.traces += await self._collector.collect(request.task.node, request.train)
            making.transcript.add_collected(making.traces)
        fresh = {trace.origin for trace in making.traces}
        making.traces += [
            trace
            for trace in request.given
            if trace.origin not in fresh and not _is_of(trace, request.heldout)
        ]

    async def _rounds(self, making: _Making) -> tuple[str, bool]:
        """Why they ended early, and whether that is because something could not be reached; empty
        when they ran their course."""
        request = making.request
        try:
            for number in range(1 + (request.rounds if request.repair else 0)):
                if making.is_done:
                    break
                self._told("asking for a first candidate" if not number else f"repair {number}")
                taken, diagnosis = await making.candidate(number)
                tried: Score | None = None
                if taken.candidate is not None:
                    self._told(f"trying it on {len(request.train)} cases")
                    tried = await self._score(taken.candidate, request.train, shown=True)
                making.add(number, taken, diagnosis, tried)
                if tried is not None and (down := outage(tried)) is not None:
                    raise down
        except (ModelFailed, PromptTooLarge) as error:
            return str(error), isinstance(error, ModelFailed)
        return "", False

    async def _score(
        self, candidate: Candidate, cases: Sequence[LabelledCase], *, shown: bool
    ) -> Score:
        return await score(
            candidate, cases, self._trials, self._settings, seen=self._seen if shown else None
        )


class _Base(NamedTuple):
    """What the next repair starts from."""

    taken: Taken
    score: Score | None


class _Making:
    """The rounds of one making, and what the next one is asked with."""

    def __init__(
        self, request: MakeRequest, prompts: MakerPrompts, mask: Mask, transcript: Transcript
    ) -> None:
        self.request = request
        self.transcript = transcript
        self.rounds: list[Round] = []
        self.traces: list[CaseTrace] = []
        self._prompts = prompts
        self._mask = mask
        self._base: _Base | None = None
        self._tried: dict[str, tuple[int, str]] = {}
        self._diagnosis = Diagnosis("")
        self._note = ""
        self._repeats = 0

    @property
    def is_done(self) -> bool:
        """All cases pass, or nothing new comes any more."""
        last = self.rounds[-1].score if self.rounds else None
        return self._repeats >= MOST_REPEATS or (last is not None and last.passed == last.total)

    async def candidate(self, number: int) -> tuple[Taken, Diagnosis]:
        """Of a reply, with the diagnosis that it was asked with. Raises ModelFailed and
        PromptTooLarge."""
        if number == 0:
            return self._taken(await self._first()), Diagnosis("")
        base = self._base
        if not self._note and base is not None and base.score is not None:
            self._diagnosis = await self._reflect(number, base.taken.code, base.score)
        known = self._diagnosis
        parts = [part for part in (known.text, self._why()) if part]
        completion = await self._repair(number)
        return self._taken(completion), Diagnosis("\n".join(parts), known.blamed)

    def add(self, number: int, taken: Taken, diagnosis: Diagnosis, tried: Score | None) -> None:
        """A round that has ended."""
        self.rounds.append(
            Round(
                number=number,
                candidate=taken.candidate
                or Candidate(self.request.task.node, taken.code, tuple(self.request.task.sources)),
                sha256=taken.sha256,
                score=tried,
                diagnosis=diagnosis.text,
                blamed=diagnosis.blamed,
                refused=taken.refused,
            )
        )
        self._note = taken.refused
        if taken.sha256 in self._tried:
            # What the reply was to have mended is still to be mended.
            self._repeats += 1
        elif taken.code:
            self._base = _Base(taken, tried)
            self._tried[taken.sha256] = (number, taken.refused)
            self._diagnosis = Diagnosis("")

    def _taken(self, completion: Completion) -> Taken:
        taken = read_candidate(completion, self.request.task, self._prompts)
        if taken.sha256 not in self._tried:
            return taken
        number, refused = self._tried[taken.sha256]
        which = (
            self._prompts.phrase("round_repair", number=str(number))
            if number
            else self._prompts.phrase("round_first")
        )
        said = [self._prompts.phrase("repeated", round=which), refused]
        return Taken(taken.code, None, "\n".join(part for part in said if part))

    async def _first(self) -> Completion:
        messages = self._prompts.make(
            self.request.task, self._shown, mask=self._mask, fits=self.transcript.fits
        )
        return await self.transcript.ask(MAKE, 0, messages)

    async def _reflect(self, number: int, code: str, found: Score) -> Diagnosis:
        messages = self._prompts.reflect(
            self.request.task, code, found, mask=self._mask, fits=self.transcript.fits
        )
        completion = await self.transcript.ask(REFLECT, number, messages)
        return read_diagnosis(completion, self.request.task.text)

    async def _repair(self, number: int) -> Completion:
        base = self._base
        given = Repair(
            code=base.taken.code if base is not None else "",
            score=base.score if base is not None else None,
            diagnosis=self._diagnosis.text,
            note=self._why(),
        )
        messages = self._prompts.repair(
            self.request.task, self._shown, given, mask=self._mask, fits=self.transcript.fits
        )
        return await self.transcript.ask(REPAIR, number, messages)

    def _why(self) -> str:
        """Why the code that is to be repaired was not tried, and the last reply neither."""
        held = self._base.taken.refused if self._base is not None else ""
        if held in self._note:
            held = ""
        return "\n".join(part for part in (held, self._note) if part)

    @property
    def _shown(self) -> Sequence[CaseTrace] | None:
        return self.traces if self.request.traces else None


def _is_of(trace: CaseTrace, heldout: Sequence[LabelledCase]) -> bool:
    """Whether a trace that is there already is of a case that is held out by now: what comes later
    moves the line between the two. A site may have several names, so it is not looked at."""
    asked = (trace.entity, trace.timestamp)
    return any(
        trace.origin in (case.case_id, case.origin)
        or asked == (case.entity, case.timestamp.astimezone(UTC).isoformat())
        for case in heldout
    )


def best_of(rounds: Sequence[Round]) -> Round | None:
    """The one that passes most; of equals the one that fails least often, then the earlier. None
    when none could be tried."""
    tried = [(one, one.score) for one in rounds if one.score is not None]
    if not tried:
        return None
    return min(tried, key=lambda one: (-one[1].rate, failures(one[1]), one[0].number))[0]
