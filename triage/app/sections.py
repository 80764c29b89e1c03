"""The sections of `triage.toml` and their defaults.

Durations end in `_s` and are seconds; sizes end in `_bytes` and are bytes, or text such as
"4 MiB". Secrets are named, never written: `<secret>_env` is the environment variable that holds
one, `<secret>_file` a file. What they held at load is `section.secret("<secret>")`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    StringConstraints,
    model_validator,
)

MIB = 1 << 20
GB = 10**9

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Seconds = Annotated[float, Field(gt=0, le=31 * 86_400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Size = Annotated[ByteSize, Field(ge=1)]
Paths = tuple[str, ...]
"""Dotted paths into a sender's document; empty for the format's own."""

Scope = Literal["ingest", "read", "admin"]
SCOPES: tuple[Scope, ...] = ("ingest", "read", "admin")
LOOPBACK_NAMES = ("localhost",)


class Section(BaseModel):
    """`SECRETS` are the names that `_env` and `_file` are put to; `SECRET_MAPS` are the fields
    that map a name to the environment variable with its value."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    SECRETS: ClassVar[tuple[str, ...]] = ()
    SECRET_MAPS: ClassVar[tuple[str, ...]] = ()

    _secrets: dict[str, SecretStr] = PrivateAttr(default_factory=dict)

    def secret(self, name: str) -> str:
        """What the variable or file held at load, empty when neither is configured."""
        found = self._secrets.get(name)
        return found.get_secret_value() if found is not None else ""

    def secret_map(self, field: str) -> dict[str, str]:
        """The field's names with the values of their variables at load."""
        return {name: self.secret(f"{field}.{name}") for name in getattr(self, field)}

    def secrets_read(self) -> tuple[str, ...]:
        return tuple(secret.get_secret_value() for secret in self._secrets.values())

    def with_secrets(self, secrets: Mapping[str, SecretStr]) -> Self:
        copy = self.model_copy()
        copy._secrets = dict(secrets)  # noqa: SLF001 - its own, of a copy
        return copy


class SopSection(Section):
    file: Path = Path("sop.yaml")
    sites: Path | None = None
    library: Path = Path("tools_lib")
    allow_broken_tools: bool = False
    """Start although a node's tool is missing or tampered with: the node then fails."""
    golden: Path | None = None
    """Golden cases, for `triage test`; by default the folder `golden` beside the SOP file."""

    @property
    def golden_folder(self) -> Path:
        return self.golden or self.file.parent / "golden"


class EngineSection(Section):
    """Deadlines are from the start of an attempt. A pending alert that nobody has held for
    `sweep_s` is published again. With `coalesce_s` above 0 an alert that fires again within so
    many seconds of the first is not walked: its decision is `coalesced`."""

    deadline_s: Seconds = 5.0
    fallback_deadline_s: Seconds = 60.0
    prefetch: Literal["layer", "subtree"] = "layer"
    fast_slots: Count = 64
    slow_slots: Count = 8
    max_attempts: Count = 5
    lease_s: Seconds = 30.0
    sweep_s: Seconds = 10.0
    coalesce_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.0
    watchdog_s: Seconds = 2.0

    @model_validator(mode="after")
    def _deadlines_in_order(self) -> Self:
        if self.fallback_deadline_s < self.deadline_s:
            raise ValueError("fallback_deadline_s must not be shorter than deadline_s")
        return self


class TokenSection(Section):
    """A bearer token for the HTTP interface; `env` or `file` holds it."""

    SECRETS: ClassVar[tuple[str, ...]] = ("",)

    name: Name
    env: Variable | None = None
    file: Path | None = None
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)] = SCOPES

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if self.env is None and self.file is None:
            raise ValueError("say where the token is: set env or file")
        return self

    @property
    def token(self) -> str:
        return self.secret("")


class HttpSection(Section):
    listen: str = "127.0.0.1:9797"
    max_body_bytes: Size = ByteSize(4 * MIB)
    max_concurrent_requests: Count = 256
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    drain_s: Seconds = 20.0
    tokens: tuple[TokenSection, ...] = ()

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: set both or neither")
        self._address()
        if not self.tokens and not self.is_loopback:
            raise ValueError(
                f"listen is {self.listen}, which others can reach, and there is no token: "
                "add [[http.tokens]], or listen on 127.0.0.1"
            )
        names = [token.name for token in self.tokens]
        if len(set(names)) != len(names):
            raise ValueError("two tokens have the same name")
        return self

    @property
    def host(self) -> str:
        return self._address()[0]

    @property
    def port(self) -> int:
        """0 for any free one."""
        return self._address()[1]

    @property
    def is_loopback(self) -> bool:
        host = self.host
        if host in LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def _address(self) -> tuple[str, int]:
        host, colon, port = self.listen.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if (
            not (colon and host and port.isascii() and port.isdigit() and int(port[:6]) < 1 << 16)
            or (":" in host) != bracketed
        ):
            raise ValueError(
                f"listen is {self.listen!r}: write HOST:PORT, an IPv6 host in brackets"
            )
        return host.strip("[]"), int(port)


class FormatSection(Section):
    """Where the fields of an alert are in a sender's document, in place of the format's own.

    `severities` maps a sender's word to critical, error, warning, info or unknown.
    """

    alarm: Paths = ()
    site: Paths = ()
    entity: Paths = ()
    severity: Paths = ()
    severities: dict[str, Literal["critical", "error", "warning", "info", "unknown"]] = {}
    default_site: str | None = None


class SnsSection(FormatSection):
    """A subscription is confirmed only for a topic of `topic_arns`."""

    verify_signatures: bool = True
    topic_arns: tuple[str, ...] = ()


class IntakeSection(Section):
    default_site: str = ""
    native: FormatSection = FormatSection()
    alertmanager: FormatSection = FormatSection()
    grafana: FormatSection = FormatSection()
    pagerduty: FormatSection = FormatSection()
    cloudevents: FormatSection = FormatSection()
    sns: SnsSection = SnsSection()

    def format(self, name: str) -> FormatSection:
        """Raises KeyError for a format there is not."""
        section = getattr(self, name, None)
        if not isinstance(section, FormatSection):
            raise KeyError(name)
        return section


class SourceSection(Section):
    """`timeout_s` bounds a call with its retry. After `breaker_failures` failed calls in a row
    the source is left alone for `breaker_reset_s`."""

    timeout_s: Seconds = 2.0
    max_concurrency: Count = 32
    max_answer_bytes: Size = ByteSize(MIB)
    breaker_failures: Count = 5
    breaker_reset_s: Seconds = 5.0
    url: Annotated[str | None, Field(repr=False)] = None
    url_env: Variable | None = None

    SECRETS: ClassVar[tuple[str, ...]] = ("url",)
    NEEDS_URL: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """The URL, from whichever place names it; it may hold a password: never show it."""
        return self.secret("url") or self.url or ""

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.NEEDS_URL and (self.url is None) == (self.url_env is None):
            raise ValueError("set one of url and url_env")
        return self


class PrometheusSource(SourceSection):
    type: Literal["prometheus"]
    bearer_token_env: Variable | None = None
    bearer_token_file: Path | None = None
    username: str = ""
    password_env: Variable | None = None
    password_file: Path | None = None
    ca_file: Path | None = None

    SECRETS: ClassVar[tuple[str, ...]] = ("url", "bearer_token", "password")

    @model_validator(mode="after")
    def _authenticates_one_way(self) -> Self:
        token = self.bearer_token_env is not None or self.bearer_token_file is not None
        password = self.password_env is not None or self.password_file is not None
        if token and (self.username or password):
            raise ValueError("set either a bearer token or a username with a password, not both")
        if password and not self.username:
            raise ValueError("a password needs a username")
        return self


class SqlSource(SourceSection):
    type: Literal["sql"]
    max_rows: Count = 10_000


class McpSource(SourceSection):
    """Either `command` with `args` is started and spoken to over its standard input and output,
    or `url` is. `env` maps a variable of the command to the variable here that has its value,
    `headers_env` a header to such a variable. Only tools that the server marks read-only are
    called, and those of `allow_tools`."""

    type: Literal["mcp"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[Variable, Variable] = {}
    headers_env: dict[str, Variable] = {}
    allow_tools: tuple[str, ...] = ()

    SECRET_MAPS: ClassVar[tuple[str, ...]] = ("env", "headers_env")
    NEEDS_URL: ClassVar[bool] = False

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        ways = (self.command or None, self.url, self.url_env)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("set one of command, url and url_env")
        if self.command and self.headers_env:
            raise ValueError("headers_env is for a url; a command has env")
        if not self.command and (self.args or self.env):
            raise ValueError("args and env are for a command; a url has headers_env")
        return self


class CustomSource(SourceSection):
    """A source of your own: `factory` is `package.module:function`, importable by this Python
    (installed, on PYTHONPATH, or in the folder `python_path`), and is called with the source's
    name, `path`, `options` and the address that `url` or `url_env` names ("" without). It returns
    what `triage.ports.Source` asks for, not yet open."""

    type: Literal["custom"]
    factory: Annotated[str, StringConstraints(pattern=r"^[\w.]+:\w+$")]
    python_path: Path | None = None
    path: Path | None = None
    options: dict[str, str | int | float | bool] = {}

    NEEDS_URL: ClassVar[bool] = False

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if self.url is not None and self.url_env is not None:
            raise ValueError("set one of url and url_env")
        return self


AnySource = Annotated[
    PrometheusSource | SqlSource | McpSource | CustomSource, Field(discriminator="type")
]


class JsonLinesSinkSection(Section):
    type: Literal["jsonl"]
    path: Path
    max_age_s: Seconds = 86_400.0


class WebhookSinkSection(Section):
    """The secret may be several, parted by white space: each signs, so that a receiver can change
    from one to the next. A message older than `max_age_s` is given up."""

    type: Literal["webhook"]
    url: Annotated[str, Field(repr=False)]
    secret_env: Variable | None = None
    secret_file: Path | None = None
    timeout_s: Seconds = 5.0
    max_age_s: Seconds = 86_400.0
    concurrency: Count = 4

    SECRETS: ClassVar[tuple[str, ...]] = ("secret",)

    @property
    def signing_secrets(self) -> tuple[str, ...]:
        return tuple(self.secret("secret").split())

    @model_validator(mode="after")
    def _signs(self) -> Self:
        if self.secret_env is None and self.secret_file is None:
            raise ValueError("say where the signing secret is: set secret_env or secret_file")
        return self


AnySink = Annotated[JsonLinesSinkSection | WebhookSinkSection, Field(discriminator="type")]


class LogSection(Section):
    """`auto` is console on a terminal and json elsewhere."""

    format: Literal["auto", "json", "console"] = "auto"
    level: Literal["debug", "info", "warning", "error", "critical"] = "info"
