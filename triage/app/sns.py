"""SNS over HTTPS: checks signatures, and confirms subscriptions to the topics that are expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from triage.errors import PayloadError, SourceFailed, SourceFailure
from triage.intake.request import Parsed
from triage.intake.sns_addresses import signing_cert_url

MAX_CERTIFICATE_BYTES = 64 * 1024
MAX_CERTIFICATES = 16
FETCH_TIMEOUT_S = 5.0


class Fetch(Protocol):
    async def __call__(self, url: str) -> bytes:
        """The body at an https URL. Raises PayloadError when there is none, SourceFailed when it
        may be had later: SNS takes a 4xx for final, and the alarm would be lost."""


class SnsGuard:
    """`topic_arns` are the topics whose subscriptions are confirmed; others are only logged.

    The certificate and the subscription are fetched from AWS hosts alone: the addresses were
    checked when the message was parsed.
    """

    def __init__(self, *, verify: bool, topic_arns: frozenset[str], fetch: Fetch) -> None:
        self._verify = verify
        self._topic_arns = topic_arns
        self._fetch = fetch
        self._certificates: dict[str, bytes] = {}
        self._log = structlog.get_logger("triage.sns")

    async def verify(self, parsed: Parsed) -> None:
        """Raises PayloadError for a direct delivery whose signature does not hold, SourceFailed
        when the certificate cannot be had."""
        if not self._verify or parsed.signed is None:
            return
        from triage.intake.sns_signature import verify

        url = signing_cert_url(parsed.signed)
        certificate = self._certificates.get(url)
        if certificate is None:
            certificate = await self._fetch(url)
            if len(self._certificates) >= MAX_CERTIFICATES:
                self._certificates.clear()
            self._certificates[url] = certificate
        verify(parsed.signed, certificate)

    async def confirm(self, parsed: Parsed) -> Mapping[str, Any]:
        """What to tell the sender of a subscription message beyond the usual. Raises as `verify`
        does."""
        subscription = parsed.subscription
        if subscription is None:
            return {}
        if subscription.kind != "confirm":
            self._log.warning("unsubscribed", topic_arn=subscription.topic_arn)
            return {"subscription": "ended"}
        if subscription.topic_arn not in self._topic_arns:
            self._log.warning(
                "subscription_not_confirmed",
                topic_arn=subscription.topic_arn,
                fix="add the topic to intake.sns.topic_arns to have it confirmed",
            )
            return {"subscription": "not confirmed"}
        await self._fetch(subscription.url)
        self._log.info("subscription_confirmed", topic_arn=subscription.topic_arn)
        return {"subscription": "confirmed"}


async def fetch_from_aws(url: str) -> bytes:
    """A bounded GET that follows no redirect. See `Fetch`."""
    import httpx

    try:
        async with (
            httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, follow_redirects=False) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                raise SourceFailed(
                    SourceFailure.SERVER_ERROR, f"AWS answered {response.status_code} to a fetch"
                )
            if response.status_code != httpx.codes.OK:
                raise PayloadError("Message", f"AWS answered {response.status_code} to a fetch")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_CERTIFICATE_BYTES:
                    raise PayloadError("Message", "AWS sent more than a certificate is long")
            return bytes(body)
    except httpx.HTTPError as error:
        raise SourceFailed(
            SourceFailure.CONNECT, f"AWS could not be asked: {type(error).__name__}"
        ) from error
