"""Chat endpoints that speak the OpenAI API."""

from triage.adapters.chat.endpoint import ChatEndpoint

__all__ = ["ChatEndpoint"]
