"""Which addresses of an SNS message may be asked: https on an AWS host, and no other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from triage.errors import PayloadError

if TYPE_CHECKING:
    from collections.abc import Mapping

HTTPS_PORT = 443
MAX_URL = 2_048  # characters

_HOST = re.compile(r"sns\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_PLAIN = re.compile(r"[!-\[\]-~]+")
"""Visible ASCII without the backslash: URL readers disagree about everything else."""


def signing_cert_url(message: Mapping[str, Any]) -> str:
    """Where the certificate that signed `message` lies. Raises PayloadError."""
    field, url = _address(message, "SigningCertURL", "SigningCertUrl")
    parts = urlsplit(url)
    if not parts.path.endswith(".pem") or "?" in url or "#" in url:
        raise PayloadError(field, "is not the address of a .pem certificate")
    return url


def subscribe_url(message: Mapping[str, Any]) -> str:
    """What to get once to confirm a subscription. Raises PayloadError."""
    return _address(message, "SubscribeURL", "SubscribeUrl")[1]


def _address(message: Mapping[str, Any], *names: str) -> tuple[str, str]:
    field = next((name for name in names if name in message), names[0])
    url = message.get(field)
    if not isinstance(url, str) or len(url) > MAX_URL or _PLAIN.fullmatch(url) is None:
        raise PayloadError(field, "is not an address")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PayloadError(field, "is not an address") from error
    if parts.scheme != "https":
        raise PayloadError(field, "is not https")
    host = parts.hostname or ""
    if "@" in parts.netloc or _HOST.fullmatch(host) is None or port not in {None, HTTPS_PORT}:
        raise PayloadError(field, "is not an address of Amazon SNS")
    return field, url
