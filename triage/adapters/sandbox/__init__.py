"""Runs code that nobody approved, in worker processes of its own interpreter."""

from triage.adapters.sandbox.limits import SandboxLimits
from triage.adapters.sandbox.sandbox import MontySandbox

__all__ = ["MontySandbox", "SandboxLimits"]
