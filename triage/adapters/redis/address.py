"""Where a Redis server is, as a URL says it, and how messages name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

from triage.errors import ConfigError

LONGEST = 300
LEAST_SECRET = 4
"""Characters; masking what is shorter would leave nothing readable."""

_SECRETS = ("password", "ssl_password")
_FORMS = (
    "redis://[user:password@]host[:port][/database], rediss://… for TLS or"
    " unix:///path/of/socket?db=0; in a password write % / # ? @ : as %25 %2F %23 %3F %40 %3A"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`options` are those of a connection, and may hold a password."""

    options: Mapping[str, Any] = field(repr=False)
    label: str

    @classmethod
    def read(cls, url: str) -> Self:
        """Raises ConfigError."""
        from redis.asyncio.connection import parse_url

        try:
            options = dict(parse_url(url))
        except ValueError:
            # Its text may quote a password that was taken for a port.
            raise ConfigError(
                f"this is no URL of a Redis server: it has the form {_FORMS}"
            ) from None
        return cls(options=options, label=_label(options))

    @property
    def unusable(self) -> str:
        return (
            f"{self.label}: the URL has an option that the redis package does not know, or a value"
            f" that it cannot use: one has the form {_FORMS}"
        )

    def scrubbed(self, error: Exception) -> str:
        """What it says, on one short line and without secrets."""
        text = " ".join(str(error).split()) or type(error).__name__
        for key in _SECRETS:
            secret = str(self.options.get(key) or "")
            if len(secret) >= LEAST_SECRET:
                text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return text[:LONGEST]


def _label(options: Mapping[str, Any]) -> str:
    database = options.get("db", 0)
    if "path" in options:
        return f"unix://{options['path']}?db={database}"
    host = options.get("host", "localhost")
    host = f"[{host}]" if ":" in host else host
    scheme = "rediss" if "connection_class" in options else "redis"
    return f"{scheme}://{host}:{options.get('port', 6379)}/{database}"
