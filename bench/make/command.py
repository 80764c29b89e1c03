"""The command `make`, for `bench.__main__` to take up."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.fallback.options import ContextTokens, LlmUrl, ReplyTokens, named
from bench.saying import JsonFile, Sealed, counting, say, show, write


def add_to(application: typer.Typer) -> None:
    application.command("make")(make_command)


def make_command(
    json_file: JsonFile = None,
    nodes: Annotated[str, typer.Option(help="Only these, with commas between them.")] = "",
    train_cases: Annotated[
        int, typer.Option(min=0, help="Training cases of a node, 0 for all. Held-out: always all.")
    ] = 90,
    rounds: Annotated[int, typer.Option(min=0, help="Repairs after the first candidate.")] = 3,
    sealed: Sealed = False,
    llm_url: LlmUrl = "",
    model: Annotated[str, typer.Option(help="The model's name at --llm-url.")] = "",
    sample: Annotated[int, typer.Option(min=1, help="With --llm-url: how many nodes.")] = 10,
    timeout_s: Annotated[
        float, typer.Option(min=1.0, help="With --llm-url: seconds for one request.")
    ] = 600.0,
    agent_s: Annotated[
        float, typer.Option(min=1.0, help="With --llm-url: seconds for an agent on one case.")
    ] = 600.0,
    reply_tokens: ReplyTokens = 2_000,
    context_tokens: ContextTokens = 8_192,
) -> None:
    """The tool maker over all nodes, and with traces, repairs or both taken away.

    Ends with 1 when a node does not come to 99.9 % of its held-out cases, an ablation is not
    visibly worse, or repairs improve what ignores the failing cases.

    With --llm-url a sample of nodes is put to that model instead, which fails nothing; the
    JSON file then has what there is after each node.
    """
    from bench.make import measuring, real_model
    from bench.make.nodes import MakeOptions
    from bench.make.workshop import Model
    from bench.replay import report
    from bench.world.world import OPEN_SEED, SEALED_SEED

    report.quiet()
    plan = measuring.Plan(
        seed=SEALED_SEED if sealed else OPEN_SEED,
        train_cases=train_cases,
        options=MakeOptions(rounds=rounds),
    )
    wanted = [name.strip() for name in nodes.split(",") if name.strip()] or None
    with counting("nodes") as count:
        if llm_url:
            named_model = Model(
                llm_url,
                named(model),
                context_tokens,
                reply_tokens,
                timeout_s=timeout_s,
                agent_s=agent_s,
            )
            figures = real_model.try_model(
                plan,
                named_model,
                keep=lambda so_far: write({"real_model": so_far}, json_file),
                sample=sample,
                nodes=wanted,
                progress=count,
                say=say,
            )
            shown = {name: value for name, value in figures.items() if name != "by_node"}
            show("make, a real model", shown, None)
            return
        figures = measuring.measure(plan, nodes=wanted, processes=2, progress=count)
    show("make", measuring.summary(figures), None)
    write(figures, json_file)
    if not measuring.is_right(figures):
        raise typer.Exit(1)
