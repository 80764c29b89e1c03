"""Where an endpoint is, and what a request proves itself with."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field

import httpx

from triage.errors import ConfigError

PATH = "/chat/completions"
MAX_PORT = 65_535
_EXAMPLE = "write the base of its API, like http://127.0.0.1:8177/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`url` holds no credentials, they are in `headers`. `shown` is scheme, host and port, for
    anyone to see; `secrets` are for nobody."""

    url: httpx.URL
    shown: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def address(url: str, api_key: str) -> Address:
    """From the base of the API, with or without user information, and a key or "".

    Raises ConfigError, which repeats nothing of either.
    """
    parsed = _parsed(url)
    authorization = ""
    secrets: list[str] = []
    if api_key:
        if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise ConfigError(
                "the model's API key holds a space, a line break or another character that no key"
                " has; is there one at the end of the secret's file?"
            )
        authorization = f"Bearer {api_key}"
        secrets.append(api_key)
    if parsed.userinfo:
        if api_key:
            raise ConfigError(
                "llm_url holds a user or password, and there is an API key: a request can prove"
                " itself with one of them only, so leave out the other"
            )
        # A header, because URLs are logged by everyone and headers by nobody.
        pair = b64encode(f"{parsed.username}:{parsed.password}".encode()).decode("ascii")
        authorization = f"Basic {pair}"
        written = parsed.userinfo.decode("ascii")
        secrets += [written, pair, parsed.password, written.partition(":")[2]]
    headers = {
        "content-type": "application/json",
        "accept": "application/json",
        # Unpacking has no bound: a small body may become any size.
        "accept-encoding": "identity",
        "user-agent": "triage",
    }
    if authorization:
        headers["authorization"] = authorization
    plain = parsed.copy_with(userinfo=b"")
    base = plain.path.rstrip("/").removesuffix(PATH)
    return Address(
        url=plain.copy_with(path=base + PATH),
        shown=f"{plain.scheme}://{plain.netloc.decode('ascii')}",
        headers=tuple(headers.items()),
        secrets=tuple(secret for secret in secrets if secret),
    )


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
        parsed.host.encode("idna")  # as a lookup of the name will
    except (httpx.InvalidURL, UnicodeError):
        # Without the cause: where a URL is malformed, its password is anywhere.
        raise ConfigError(f"llm_url cannot be read as a URL; {_EXAMPLE}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError(f"llm_url must begin with http:// or https:// and a host; {_EXAMPLE}")
    if (parsed.port or 0) > MAX_PORT or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"llm_url holds a port or a character that no URL has; {_EXAMPLE}")
    if parsed.query or parsed.fragment:
        raise ConfigError(f"llm_url holds more than a server and a path; {_EXAMPLE}")
    return parsed
