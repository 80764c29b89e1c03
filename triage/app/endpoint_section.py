"""What the sections of `triage.toml` have in common that name a model's endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from triage.app.sections import Section, Variable


class EndpointSection(Section):
    """There is no endpoint while `llm_url` is empty."""

    SECRETS: ClassVar[tuple[str, ...]] = ("api_key",)

    llm_url: Annotated[str, Field(repr=False)] = ""
    model: str = ""
    api_key_env: Variable | None = None
    api_key_file: Path | None = None
    ca_file: Path | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.llm_url and not self.llm_url.startswith(("http://", "https://")):
            raise ValueError("llm_url must begin with http:// or https://")
        if self.llm_url and not self.model:
            raise ValueError("model is missing: name the model that the endpoint is to use")
        return self
