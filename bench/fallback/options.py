"""Options of the commands that ask a model, and whom they name by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bench.fallback.staff import Staff


class Answering(StrEnum):
    direct = "direct"
    delegated = "delegated"
    codeact = "codeact"


LlmUrl = Annotated[
    str,
    typer.Option(help="Base of an OpenAI-compatible API; by default a scripted endpoint."),
]
LlmModel = Annotated[str, typer.Option(help="The model's name at --llm-url.")]
TimeoutS = Annotated[float, typer.Option(min=1, help="Seconds an agent has for one node.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Turns an agent has for one node.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Tokens an agent has for one node.")]
ReplyTokens = Annotated[int, typer.Option(min=1, help="Tokens one reply may have.")]
ContextTokens = Annotated[int, typer.Option(min=1, help="The model's window.")]


@contextmanager
def staff_for(
    mode: Answering, llm_url: str, llm_model: str, timeout_s: float
) -> Iterator[Staff | None]:
    """Agents at the endpoint that is named, or at a scripted one that is started here."""
    if mode is Answering.direct:
        yield None
        return
    from bench.fallback.agency import Agency, section
    from bench.fallback.endpoint_process import ScriptedEndpoint

    if llm_url:
        yield Agency(section=section(llm_url, named(llm_model), timeout_s=timeout_s))
        return
    with (
        TemporaryDirectory(prefix="triage-bench-") as name,
        ScriptedEndpoint(Path(name)) as endpoint,
    ):
        yield Agency(section=section(endpoint.llm_url, endpoint.model, timeout_s=timeout_s))


def named(model: str) -> str:
    if not model:
        raise typer.BadParameter(
            "name the model that --llm-url is to use", param_hint="--llm-model"
        )
    return model
