"""All that a making needs, put together as `triage make` does it, around a world's sources."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import ByteSize

from bench.dock import ANSWER_BYTES, LIBRARY, SITES, SOP
from bench.fallback.agency import section
from triage import __version__
from triage.adapters.chat import ChatEndpoint
from triage.adapters.sandbox import MontySandbox, SandboxLimits
from triage.app.collecting import collector
from triage.app.fallback import agent
from triage.app.over_mcp import agent_limits, all_over_mcp
from triage.clock import SystemClock
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.fallback.masking import Mask
from triage.maker.collect import Collector
from triage.maker.prompt import MakerPrompts
from triage.maker.transcript import ModelLimits
from triage.model.case import LabelledCase
from triage.ports import ChatModel, Source
from triage.sop.load import load_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites
from triage.telemetry.metrics import Metrics
from triage.trial.answers import LiveAnswers, Remembering, setting_of
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate, Setting, Trials, Tried
from triage.trial.trials import SandboxTrials

PATIENCE_S = 120.0
"""For one query, one request or one case of an agent. What is measured is what is made."""
SANDBOX_WORKERS = 1
"""Two processes share the machine's two cores."""
MEMORY_BYTES = 256 << 20
MASK = Mask((), ())


class Model(NamedTuple):
    """An endpoint. `context_tokens` is its window, `reply_tokens` of which a reply may take.
    `timeout_s` is for one request, `agent_s` for an agent on one training case."""

    llm_url: str
    name: str
    context_tokens: int
    reply_tokens: int
    timeout_s: float = PATIENCE_S
    agent_s: float = PATIENCE_S

    @property
    def limits(self) -> ModelLimits:
        return ModelLimits(
            context_tokens=self.context_tokens,
            reply_tokens=self.reply_tokens,
            request_timeout_s=self.timeout_s,
        )


@dataclass(slots=True, kw_only=True)
class RememberedTrials:
    """Implements `trial.Trials`: what a candidate came to in one and the same list of settings is
    not tried again, and its seconds are counted as if it were (`saved_s`)."""

    trials: Trials
    saved_s: float = 0.0
    _known: dict[tuple[str, tuple[int, ...]], tuple[list[Tried], float]] = field(
        default_factory=dict
    )

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        key = candidate.text, tuple(id(setting) for setting, _ in settings)
        if key in self._known:
            tried, seconds = self._known[key]
            self.saved_s += seconds
            return tried
        began = time.monotonic()
        tried = await self.trials.run(candidate, settings)
        self._known[key] = tried, time.monotonic() - began
        return tried


class CaseSettings:
    """What a tool may see in a case of one node. The same case has the same setting and answers,
    which are asked of the sources once."""

    def __init__(self, sites: Sites, live: Answers) -> None:
        self._sites = sites
        self._answers = Remembering(live)
        self._made: dict[str, tuple[Setting, Answers]] = {}

    def __call__(self, case: LabelledCase) -> tuple[Setting, Answers]:
        made = self._made.get(case.case_id)
        if made is None:
            setting = setting_of(case, self._sites.profile(case.warehouse))
            made = self._made[case.case_id] = (setting, self._answers)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """`collectors` and `models` are by the name that each model was given under."""

    sop: Sop
    sites: Sites
    live: Answers
    trials: Trials
    prompts: MakerPrompts
    models: Mapping[str, ChatModel]
    collectors: Mapping[str, Collector]
    monotonic: Callable[[], float] = time.monotonic


@asynccontextmanager
async def workshop(
    sources: Mapping[str, Source], models: Mapping[str, Model], *, collecting: Sequence[str]
) -> AsyncIterator[Workshop]:
    """`sources` are open. `collecting` names the models whose agents collect traces. Raises
    InvalidFiles, and RuntimeError when there is no sandbox to be had."""
    sop = load_sop(SOP)
    sites = load_sites(SITES, sop)
    metrics = Metrics.register(version=__version__, monotonic=time.monotonic)
    metrics.nodes.for_nodes(sop.nodes)
    limits = SourceLimits(timeout_s=PATIENCE_S, max_answer_bytes=ANSWER_BYTES)
    async with AsyncExitStack() as stack:
        guarded = {
            name: GuardedSource(source, limits, metrics.sources.cell(name), time.monotonic)
            for name, source in sources.items()
        }
        sandbox = MontySandbox(
            SandboxLimits(
                workers=SANDBOX_WORKERS,
                memory_bytes=MEMORY_BYTES,
                feed_s=PATIENCE_S,
                result_bytes=ByteSize(ANSWER_BYTES),
            )
        )
        stack.push_async_callback(sandbox.close)
        await sandbox.open()
        if sandbox.trouble:
            raise RuntimeError(f"there is no sandbox: {sandbox.trouble}")
        chats: dict[str, ChatModel] = {}
        collectors: dict[str, Collector] = {}
        for name, model in models.items():
            chat = ChatEndpoint(
                model.name,
                model.llm_url,
                request_timeout_s=model.timeout_s,
                monotonic=time.monotonic,
            )
            stack.push_async_callback(chat.close)
            await chat.open()
            chats[name] = chat
        own = next(iter(guarded.values())).limits
        for name in collecting:
            model = models[name]
            agents = section(
                model.llm_url,
                model.name,
                timeout_s=model.agent_s,
                max_reply_tokens=min(model.reply_tokens, model.context_tokens // 2),
                context_tokens=model.context_tokens,
                max_tokens=8 * model.context_tokens,
            )
            if not collectors:
                await stack.enter_async_context(
                    all_over_mcp(
                        guarded,
                        limits=agent_limits(own, agents),
                        metrics=metrics.sources,
                        monotonic=time.monotonic,
                    )
                )
            made = await stack.enter_async_context(
                agent(
                    agents,
                    library=LIBRARY,
                    secrets=(),
                    metrics=metrics.fallback,
                    clock=SystemClock(),
                )
            )
            if made.fallback is None:
                raise RuntimeError(f"the agent is {made.state}")
            collectors[name] = collector(
                fallback=made.fallback,
                section=agents,
                sop=sop,
                sites=sites,
                sources=guarded,
                sections={},
                mask=MASK,
                metrics=metrics.sources,
                monotonic=time.monotonic,
            )
        yield Workshop(
            sop=sop,
            sites=sites,
            live=LiveAnswers(guarded, monotonic=time.monotonic, timeout_s=PATIENCE_S),
            trials=SandboxTrials(
                sandbox,
                limits=TrialLimits(answer_bytes=ANSWER_BYTES, evaluate_s=20.0, run_s=60.0),
                monotonic=time.monotonic,
            ),
            prompts=MakerPrompts.load(),
            models=chats,
            collectors=collectors,
        )
