"""The commands `fallback` and `isolation`, for `bench.__main__` to take up."""

from __future__ import annotations

from typing import Annotated

import typer
import uvloop

from bench.fallback.options import (
    ContextTokens,
    LlmModel,
    LlmUrl,
    MaxTokens,
    MaxTurns,
    ReplyTokens,
    TimeoutS,
    named,
)
from bench.saying import JsonFile, Sealed, counting, say, show, write


def add_to(application: typer.Typer) -> None:
    application.command("fallback")(fallback_command)
    application.command("isolation")(isolation_command)


def fallback_command(
    json_file: JsonFile = None,
    alerts: Annotated[int, typer.Option(min=1, help="How many historical alerts.")] = 1500,
    sealed: Sealed = False,
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    sample: Annotated[int, typer.Option(min=1, help="With --llm-url: how many nodes.")] = 44,
    timeout_s: TimeoutS = 120.0,
    max_turns: MaxTurns = 6,
    max_tokens: MaxTokens = 40_000,
    reply_tokens: ReplyTokens = 4_000,
    context_tokens: ContextTokens = 16_000,
) -> None:
    """Alerts with tools disabled, through agents, sandbox and MCP.

    In three alerts of four a random quarter of the tools is disabled, in the others all. Ends
    with 1 when a verdict or action is not the one with tools, or not the annotator's.

    With --llm-url a sample of nodes is put to that model instead; wrong answers are counted, and
    fail nothing.
    """
    from bench.fallback import measuring, real_model
    from bench.fallback.agency import Agency, section
    from bench.replay import report
    from bench.world.world import OPEN_SEED, SEALED_SEED

    report.quiet()
    seed = SEALED_SEED if sealed else OPEN_SEED
    budgets = {
        "timeout_s": timeout_s,
        "max_turns": max_turns,
        "max_tokens": max_tokens,
        "max_reply_tokens": reply_tokens,
        "context_tokens": context_tokens,
    }
    if llm_url:
        agency = Agency(section=section(llm_url, named(llm_model), **budgets))
        with counting("nodes") as count:
            figures = uvloop.run(
                real_model.try_model(agency, sample=sample, seed=seed, progress=count, say=say)
            )
        shown = {name: value for name, value in figures.items() if name != "nodes"}
        show("fallback, a real model", shown, None)
        write(figures, json_file)
        return
    with counting("alerts") as count:
        figures = uvloop.run(
            measuring.measure(count=alerts, seed=seed, budgets=budgets, progress=count, say=say)
        )
    show("fallback", figures, json_file)
    if not measuring.is_right(figures):
        raise typer.Exit(1)


def isolation_command(
    json_file: JsonFile = None,
    pairs: Annotated[int, typer.Option(min=1, help="Of each kind of trouble.")] = 10,
    rate: Annotated[float, typer.Option(min=1, help="Alerts a second, in an open loop.")] = 20.0,
    seconds: Annotated[
        float, typer.Option(min=1, help="How long the endpoint stays in one state.")
    ] = 10.0,
) -> None:
    """Latency of alerts whose tools work while the model's endpoint hangs, fails or floods."""
    from bench.fallback import isolation

    plan = isolation.Plan(rate_per_s=rate, half_s=seconds, pairs=pairs)
    with counting("halves") as count:
        figures = isolation.measure_isolation(plan, count)
    show("isolation", figures, json_file)
