"""Where a NATS server is, as a URL says it, and how messages name it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from triage.errors import ConfigError

PORT = 4222
LONGEST = 300
LEAST_SECRET = 4
"""Characters; masking what is shorter would leave nothing readable."""

_FORMS = (
    "nats://host:port, nats://user:password@host:port or nats://token@host:port, tls://… for TLS"
    " only, more servers of a cluster after commas; in a password write % / # ? @ : as"
    " %25 %2F %23 %3F %40 %3A"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`servers` are URLs without credentials; the library is given these by themselves, so that
    nothing it says can hold them."""

    servers: tuple[str, ...]
    label: str
    tls_only: bool
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, url: str) -> Self:
        """Raises ConfigError, which repeats nothing of the URL."""
        if find_spec("nats") is None:
            raise ConfigError(
                "a queue or stream on NATS needs the nats-py package: pip install 'triage[nats]'"
            )
        scheme, _, rest = url.partition("://")
        userinfo, at, hosts = rest.removesuffix("/").rpartition("@")
        if scheme not in {"nats", "tls"} or not url.isprintable() or " " in url:
            raise ConfigError(_unreadable())
        servers = tuple(_server(scheme, host) for host in hosts.split(","))
        user, colon, password = userinfo.partition(":")
        return cls(
            servers=servers,
            label=",".join(servers),
            tls_only=scheme == "tls",
            user=unquote(user) if colon else None,
            password=unquote(password) if colon else None,
            token=unquote(user) if at and not colon else None,
        )

    def line(self, error: BaseException | str) -> str:
        """What it says, on one short line and without secrets."""
        text = " ".join(str(error).split())
        for secret in (self.password, self.token):
            if secret and len(secret) >= LEAST_SECRET:
                text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return text[:LONGEST]


def _server(scheme: str, host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port or PORT
    except ValueError:
        # Without the cause: a password with a slash in it is taken for a port, and quoted.
        raise ConfigError(_unreadable()) from None
    if not name or parts.path or parts.query or parts.fragment:
        raise ConfigError(_unreadable())
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def _unreadable() -> str:
    return f"this is no URL of a NATS server: it has the form {_FORMS}"
