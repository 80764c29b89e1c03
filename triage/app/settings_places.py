"""Makes settings independent of where they were written: absolute paths, secrets read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, SecretStr

from triage.app.delivery_sections import Addressed
from triage.app.sections import Section
from triage.app.settings_faults import KeyPath, Places
from triage.errors import Finding

MAX_SECRET_BYTES = 64 * 1024
SQLITE = "sqlite:///"

M = TypeVar("M", bound=BaseModel)


def settle(
    settings: M, folder: Path, env: Mapping[str, str] | None, places: Places
) -> tuple[M, list[Finding]]:
    """A copy with paths taken from `folder` and secrets from `env` and files; and what was wrong
    with those. Without `env` secrets are left unread."""
    settler = _Settler(folder, env, places)
    settled = settler.model(settings, ())
    return settled, settler.faults


class _Settler:
    def __init__(self, folder: Path, env: Mapping[str, str] | None, places: Places) -> None:
        self._folder = folder
        self._env = env
        self._places = places
        self.faults: list[Finding] = []

    def model(self, model: M, at: KeyPath) -> M:
        changes = {
            name: self._value(getattr(model, name), (*at, name))
            for name in type(model).model_fields
        }
        settled = model.model_copy(update=changes)
        if isinstance(settled, Section) and self._env is not None:
            secrets = self._secrets(settled, at, self._env)
            if isinstance(settled, Addressed) and "url" in secrets:
                secrets["url"] = self._address(settled, secrets["url"], at)
            return settled.with_secrets(secrets)
        return settled

    def _address(self, section: Addressed, found: SecretStr, at: KeyPath) -> SecretStr:
        """A URL from a variable or file, held to the same as one that is written."""
        url = found.get_secret_value()
        if url and not url.startswith(section.SCHEMES):
            key = section.elsewhere
            schemes = ", ".join(section.SCHEMES)
            self._fault((*at, key), "what it names is no such URL", f"begin it with {schemes}")
        return SecretStr(self._absolute(url))

    def _value(self, value: Any, at: KeyPath) -> Any:
        match value:
            case BaseModel():
                return self.model(value, at)
            case Path():
                return self._folder / value
            case str() if at[-1] == "url":
                return self._absolute(value)
            case dict():
                return {key: self._value(below, (*at, key)) for key, below in value.items()}
            case tuple():
                return tuple(self._value(below, (*at, i)) for i, below in enumerate(value))
            case _:
                return value

    def _absolute(self, url: str) -> str:
        if not url.startswith(SQLITE):
            return url
        # An absolute path has a slash of its own, which then wins over the folder.
        return SQLITE + str(self._folder / url.removeprefix(SQLITE))

    def _secrets(
        self, section: Section, at: KeyPath, env: Mapping[str, str]
    ) -> dict[str, SecretStr]:
        found: dict[str, SecretStr] = {}
        for name in section.SECRETS:
            env_key, file_key = (f"{name}_env", f"{name}_file") if name else ("env", "file")
            variable = getattr(section, env_key, None)
            file = getattr(section, file_key, None)
            if variable is not None and file is not None:
                self._fault((*at, env_key), f"{env_key} and {file_key} are both set", "keep one")
            elif variable is not None:
                found[name] = self._from_variable(variable, (*at, env_key), env)
            elif file is not None:
                found[name] = self._from_file(file, (*at, file_key))
        for field in section.SECRET_MAPS:
            for name, variable in getattr(section, field).items():
                found[f"{field}.{name}"] = self._from_variable(variable, (*at, field, name), env)
        return found

    def _from_variable(self, variable: str, at: KeyPath, env: Mapping[str, str]) -> SecretStr:
        value = env.get(variable, "").strip()
        if not value:
            self._fault(
                at,
                f"the environment variable {variable} is not set, or empty",
                f"export {variable} before the start",
            )
        return SecretStr(value)

    def _from_file(self, file: Path, at: KeyPath) -> SecretStr:
        try:
            with file.open("rb") as opened:
                body = opened.read(MAX_SECRET_BYTES + 1)
        except OSError as error:
            self._fault(at, f"{file} cannot be read: {error.strerror}", "mend the path or its mode")
            return SecretStr("")
        value = body.decode("utf-8", "replace").strip()
        if not value or "\ufffd" in value or len(body) > MAX_SECRET_BYTES:
            self._fault(at, f"{file} holds no secret", "put the secret there as text, alone")
        return SecretStr(value)

    def _fault(self, at: KeyPath, problem: str, fix: str) -> None:
        self.faults.append(self._places.finding(at, problem, fix))
